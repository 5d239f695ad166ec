// SPDX-License-Identifier: GPL-2.0-or-later
// Commands for tools and testers: queries of an object's state, and injected events.
#include "commands/command_table.h"
#include "qp/qp.h"

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
        // In the order of MemoryRegion::memory.
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

CmdStatus inject_port_event(DeviceObjects& objects, const pib_hca_inject_event& in) {
    constexpr uint32_t kFlags = (PIB_HCA_PORT_EVENT_GID_CHANGE << 1) - 1;
    if (objects.ports.find(in.port) == nullptr) {
        return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
    }
    if (in.data == 0 || (in.data & ~kFlags) != 0) {
        return PIB_HCA_CMD_STATUS_BAD_PARAM;
    }
    objects.eqs.async_event(PIB_HCA_EVENT_PORT, 0, in.data, in.port);
    return PIB_HCA_CMD_STATUS_OK;
}

CmdStatus inject_srq_event(DeviceObjects& objects, pib_hca_event type, uint32_t srqn) {
    if (objects.srqs.find(srqn) == nullptr) {
        return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
    }
    if (type == PIB_HCA_EVENT_SRQ_ERROR) {
        return objects.srqs.inject_error(srqn) ? PIB_HCA_CMD_STATUS_OK
                                               : PIB_HCA_CMD_STATUS_BAD_STATE;
    }
    objects.eqs.async_event(type, srqn);
    return PIB_HCA_CMD_STATUS_OK;
}

}  // namespace

CommandReply cmd_query_eq(DeviceObjects& objects, const CommandInput& in) {
    const EventQueue* eq = objects.eqs.find(in.object);
    if (eq == nullptr) {
        return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
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
        return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
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
    CommandReply reply(PIB_HCA_CMD_STATUS_BAD_RESOURCE);
    objects.mpt.look_at(in.object, [&](uint32_t key, const auto& entry) {
        reply = CommandReply::data(KeyQuery{}(key, entry));
    });
    return reply;
}

CommandReply cmd_query_qp_progress(DeviceObjects& objects, const CommandInput& in) {
    const QueuePair* qp = objects.transport.verbs().look_at(in.object);
    if (qp == nullptr) {
        return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
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
    out.rd_outstanding = qp->req.rd_outstanding;
    static_assert(static_cast<int>(QpTimer::kRnr) == PIB_HCA_QP_TIMER_RNR);
    out.timer = static_cast<uint8_t>(qp->req.timer);
    return CommandReply::data(out);
}

CommandReply cmd_inject_event(DeviceObjects& objects, const CommandInput& in) {
    if (!objects.config.knobs.inject) {
        return PIB_HCA_CMD_STATUS_NOT_SUPPORTED;
    }
    const auto event = in.as<pib_hca_inject_event>();
    const auto type = static_cast<pib_hca_event>(event.type);
    if (event.reserved != 0) {
        return PIB_HCA_CMD_STATUS_BAD_RESERVED;
    }
    if (type == PIB_HCA_EVENT_PORT) {
        return in.object == 0 ? inject_port_event(objects, event) : PIB_HCA_CMD_STATUS_BAD_PARAM;
    }
    if (event.port != 0 || event.data != 0) {
        return PIB_HCA_CMD_STATUS_BAD_PARAM;
    }
    switch (type) {
        case PIB_HCA_EVENT_SRQ_ERROR:
        case PIB_HCA_EVENT_SRQ_LIMIT_REACHED:
            return inject_srq_event(objects, type, in.object);
        case PIB_HCA_EVENT_DEVICE_FATAL:
            objects.eqs.inject_fatal();
            return {};
        default:
            return objects.transport.verbs().inject_event(type, in.object);
    }
}

}  // namespace pib::hca
