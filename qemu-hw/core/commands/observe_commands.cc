// SPDX-License-Identifier: GPL-2.0-or-later
// Commands for tools and testers: queries of an object's state and of refusals, injected events.
#include <algorithm>

#include "commands/command_table.h"
#include "qp/qp.h"
#include "rules/rule_table.h"

namespace pib::hca {

namespace {

struct KeyQuery {
    pib_hca_query_key operator()(uint32_t key, const MemoryRegion& region) const {
        pib_hca_query_key out{};
        out.key = key | region.key;
        out.pd = region.pd;
        out.addr = region.iova;
        out.length = region.length;
        out.access = region.access;
        // Indexed like the variant MemoryRegion::memory.
        constexpr uint8_t kKinds[] = {PIB_HCA_KEY_REGION, PIB_HCA_KEY_FAST, PIB_HCA_KEY_PHYSICAL,
                                      PIB_HCA_KEY_ON_DEMAND};
        out.kind = kKinds[region.memory.index()];
        out.valid = region.is_free() ? 0 : 1;
        return out;
    }
    pib_hca_query_key operator()(uint32_t key, const MemoryWindow& window) const {
        pib_hca_query_key out{};
        out.key = key | window.key;
        out.pd = window.pd;
        out.addr = window.addr;
        out.length = window.length;
        out.access = window.access;
        out.kind = window.type == PIB_HCA_MW_TYPE_1 ? PIB_HCA_KEY_WINDOW_1 : PIB_HCA_KEY_WINDOW_2;
        out.valid = window.bound ? 1 : 0;
        return out;
    }
};

uint8_t structure_of(const Refusal& refusal) {
    const RuleText::Place place = find_rule(refusal.verdict.rule)->field.place;
    if (refusal.kind == Refusal::Kind::kRequest) {
        const bool nowhere = place == RuleText::Place::kNone || place == RuleText::Place::kRegister;
        return nowhere ? PIB_HCA_REFUSAL_IN_NONE : PIB_HCA_REFUSAL_IN_WQE;
    }
    switch (place) {
        case RuleText::Place::kEntry:
            return PIB_HCA_REFUSAL_IN_ENTRY;
        case RuleText::Place::kInput:
        case RuleText::Place::kPages:
        case RuleText::Place::kVector:
            return PIB_HCA_REFUSAL_IN_INPUT;
        default:
            return PIB_HCA_REFUSAL_IN_NONE;
    }
}

// Sets the fields that depend on the kind of the refusal.
void put_subject(pib_hca_refusal& out, const Refusal& refusal) {
    switch (refusal.kind) {
        case Refusal::Kind::kCommand:
            out.kind = PIB_HCA_REFUSAL_COMMAND;
            out.object = refusal.object;
            out.opcode = refusal.opcode;
            out.id = refusal.id;
            out.status = static_cast<uint8_t>(refusal.verdict.status());
            break;
        case Refusal::Kind::kAccess:
            out.kind = PIB_HCA_REFUSAL_ACCESS;
            out.object = static_cast<uint32_t>(refusal.offset);
            out.bar = refusal.bar;
            break;
        case Refusal::Kind::kMisuse:
            out.kind = PIB_HCA_REFUSAL_MISUSE;
            out.object = refusal.misused.number;
            break;
        case Refusal::Kind::kRequest:
            out.kind = refusal.is_send ? PIB_HCA_REFUSAL_SEND_WQE : PIB_HCA_REFUSAL_RECV_WQE;
            out.object = refusal.object;
            out.counter = refusal.counter;
            out.status = static_cast<uint8_t>(refusal.completion);
            break;
        case Refusal::Kind::kPacket:
            out.kind = PIB_HCA_REFUSAL_PACKET;
            out.object = refusal.object;
            out.status = static_cast<uint8_t>(refusal.completion);
            break;
    }
}

Verdict inject_port_event(DeviceObjects& objects, const pib_hca_inject_event& in) {
    constexpr uint32_t kFlags = (port_event::kGidChange << 1) - 1;
    if (objects.ports.find(in.port) == nullptr) {
        return refuse(Rule::kInjectPort, in.port, objects.config.port_count);
    }
    if (in.data == 0 || (in.data & ~kFlags) != 0) {
        return refuse(Rule::kInjectData, in.data, kFlags);
    }
    objects.eqs.async_event(Event::kPort, 0, in.data, in.port);
    return CmdStatus::kOk;
}

Verdict inject_srq_event(DeviceObjects& objects, Event type, uint32_t srqn) {
    if (objects.srqs.find(srqn) == nullptr) {
        return refuse(Rule::kNoSrq, srqn);
    }
    if (type == Event::kSrqError) {
        return objects.srqs.inject_error(srqn) ? CmdStatus::kOk : refuse(Rule::kInjectState, srqn);
    }
    objects.eqs.async_event(type, srqn);
    return CmdStatus::kOk;
}

}  // namespace

CommandReply cmd_query_eq(DeviceObjects& objects, const CommandInput& in) {
    const EventQueue* eq = objects.eqs.find(in.object);
    if (eq == nullptr) {
        return refuse(Rule::kNoEq, in.object);
    }
    pib_hca_query_eq out{};
    out.producer = eq->producer;
    out.consumer = eq->consumer;
    out.vector = eq->vector;
    out.users = eq->users;
    out.log_depth = eq->log_depth;
    out.flags = eq->async ? PIB_HCA_EQ_ASYNC : 0;
    out.armed = eq->armed ? 1 : 0;
    return CommandReply::data(out);
}

CommandReply cmd_query_cq(DeviceObjects& objects, const CommandInput& in) {
    const CompletionQueue* cq = objects.cqs.find(in.object);
    if (cq == nullptr) {
        return refuse(Rule::kNoCq, in.object);
    }
    pib_hca_query_cq out{};
    out.producer = cq->producer;
    out.consumer = cq->consumer;
    out.eqn = cq->eqn;
    out.uar = cq->uar;
    out.users = cq->users;
    out.log_depth = cq->log_depth;
    static_assert(static_cast<int>(CqArm::kNext) == PIB_HCA_CQ_ARMED_NEXT);
    out.armed = static_cast<uint8_t>(cq->arm);
    out.error = cq->error ? 1 : 0;
    out.moderation_count = cq->moderation_count;
    out.moderation_period = cq->moderation_period;
    return CommandReply::data(out);
}

CommandReply cmd_query_key(DeviceObjects& objects, const CommandInput& in) {
    CommandReply reply(refuse(Rule::kNoKey, in.object));
    objects.mpt.look_at(in.object, [&](uint32_t key, const auto& entry) {
        reply = CommandReply::data(KeyQuery{}(key, entry));
    });
    return reply;
}

CommandReply cmd_query_qp_progress(DeviceObjects& objects, const CommandInput& in) {
    const QueuePair* qp = objects.transport.verbs().look_at(in.object);
    if (qp == nullptr) {
        return refuse(Rule::kNoQp, in.object);
    }
    pib_hca_query_qp_progress out{};
    out.sq_producer = qp->sq.producer;
    out.sq_consumer = qp->sq.consumer;
    out.rq_producer = qp->rq.producer;
    out.rq_consumer = qp->rq.consumer;
    out.una = qp->req.una.value();
    out.sent_end = qp->req.sent_end.value();
    out.next_psn = qp->req.next.value();
    out.expected_psn = qp->resp.expected_psn.value();
    out.msn = qp->resp.msn;
    out.in_window = qp->window.size();
    out.retries_left = qp->req.retries_left;
    out.rnr_retries_left = qp->req.rnr_retries_left;
    out.rd_outstanding = qp->req.rd_atomic_outstanding;
    static_assert(static_cast<int>(QpTimer::kRnr) == PIB_HCA_QP_TIMER_RNR);
    out.timer = static_cast<uint8_t>(qp->req.timer);
    return CommandReply::data(out);
}

// For an index beyond the kept refusals the output is zero. Refusing the command would displace a
// kept refusal.
CommandReply cmd_query_refusal(DeviceObjects& objects, const CommandInput& in) {
    pib_hca_refusal out{};
    const Refusal* refusal = objects.refusals.newest(in.object);
    if (refusal == nullptr) {
        return CommandReply::data(out);
    }
    const Verdict& verdict = refusal->verdict;
    out.number = objects.refusals.count() - in.object;
    out.time = refusal->time_ns;
    out.value = verdict.value;
    out.limit = verdict.limit;
    out.rule = manual_number(verdict.rule);
    out.offset = field_offset(*refusal);
    out.structure = structure_of(*refusal);
    put_subject(out, *refusal);
    const std::string text = text_of(*refusal);
    std::copy_n(text.begin(), std::min(text.size(), sizeof out.text - 1), out.text);
    return CommandReply::data(out);
}

CommandReply cmd_inject_event(DeviceObjects& objects, const CommandInput& in) {
    if (!objects.config.knobs.inject) {
        return refuse(Rule::kInjectOffered);
    }
    const auto event = in.as<pib_hca_inject_event>();
    const auto type = static_cast<Event>(event.type);
    if (event.reserved != 0) {
        return refuse(Rule::kInjectReserved, event.reserved);
    }
    if (in.object != 0 && (type == Event::kPort || type == Event::kDeviceFatal)) {
        return refuse(Rule::kInjectObject, in.object);
    }
    if (type == Event::kPort) {
        return inject_port_event(objects, event);
    }
    if (event.port != 0 || event.data != 0) {
        return refuse(Rule::kInjectPortOnly, event.port, event.data);
    }
    switch (type) {
        case Event::kSrqError:
        case Event::kSrqLimitReached:
            return inject_srq_event(objects, type, in.object);
        case Event::kDeviceFatal:
            objects.eqs.inject_fatal();
            return {};
        default:
            return objects.transport.verbs().inject_event(type, in.object);
    }
}

}  // namespace pib::hca
