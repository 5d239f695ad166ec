// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/qp_verbs.h"

#include <algorithm>
#include <utility>

#include "qp/error_states.h"
#include "qp/page_waits.h"
#include "qp/path_migration.h"
#include "qp/qp_checks.h"
#include "qp/qp_create.h"
#include "qp/qp_header.h"
#include "qp/qp_modify.h"
#include "qp/qp_offers.h"
#include "transport/requester.h"
#include "transport/responder.h"

namespace pib::hca {
namespace {

// Attributes that may change in SQD only after the send queue has drained (IBA 11.2.4.2).
constexpr uint32_t kNeedDrained = qp_attr::kPort | qp_attr::kAv | qp_attr::kPkeyIndex |
                                  qp_attr::kTimeout | qp_attr::kRetryCnt | qp_attr::kRnrRetry |
                                  qp_attr::kMaxQpRdAtomic | qp_attr::kMaxDestRdAtomic;

// Maximum number of WQEs of a destroyed QP whose page lists are compared, because a list may have
// thousands of pages.
constexpr uint32_t kComparedLists = 256;

// Checks the queues of a QP that is about to be destroyed: memory that software has freed too early
// has often been changed. In Reset the producers are not checked, because software may not have set
// them to 0 yet.
void check_old_qp(QpServices& services, Strict& strict, QueuePair& qp) {
    if (qp.state == QpState::kReset) {
        check_header(services.host(), strict, qp);
        return;
    }
    (void)refresh_sq(services, qp);
    (void)refresh_rq(services, qp);
    check_last_completed(services.host(), strict, qp);
    for (uint32_t i = 0; i < qp.window.size(); ++i) {
        check_unchanged(services.host(), strict, qp, qp.sq, qp.window.at(i).counter,
                        qp.window.bytes_at(i));
        if (i < kComparedLists) {
            services.reg_lists()->completing(qp, qp.window.at(i), services.mpt());
        }
    }
    if (const ReceiveRequest& recv = qp.resp.recv; recv.valid && recv.srqn == 0) {
        check_unchanged(services.host(), strict, qp, qp.rq, recv.counter, recv.bytes);
    }
}

// SQE to RTS: flushes all posted WQEs, also those whose doorbell has not come yet (IBA 10.3.1.6).
// The queue's depth bounds the work.
void finish_send_flush(QpServices& services, QueuePair& qp) {
    if (!refresh_send_queue(services, qp)) {
        return;
    }
    constexpr uint32_t kPackets = 4096;
    Turn turn = Turn::kMore;
    while (turn == Turn::kMore) {
        Budget budget{.packets = kPackets, .bytes = UINT32_MAX};
        turn = flush_queues(services, qp, budget);
    }
}

Verdict check_drained(const QueuePair& qp, const QpAttributes& in) {
    const uint32_t waits = in.attr_mask & kNeedDrained;
    const bool early = qp.sq_draining && qp.state == target_state(qp, in) && waits != 0;
    return early ? refuse(Rule::kDraining, in.attr_mask, waits) : CmdStatus::kOk;
}

}  // namespace

Verdict QpVerbs::check_queues(const QpRequest& in) {
    CqTable& cqs = services_.parts().cqs;
    // check_create_qp() has checked that XRC QPs name no queue that they cannot have.
    const bool sends = in.type != QpType::kXrcTgt;
    const bool receives = sends && in.type != QpType::kXrcIni;
    const SharedReceiveQueue* srq = services_.parts().srqs.find(in.srq);
    if (sends && cqs.find(in.send_cq) == nullptr) {
        return refuse(Rule::kQpSendCq, in.send_cq);
    }
    if (receives && cqs.find(in.recv_cq) == nullptr) {
        return refuse(Rule::kQpRecvCq, in.recv_cq);
    }
    return in.srq == 0 || (srq != nullptr && srq->xrcd == 0) ? CmdStatus::kOk
                                                             : refuse(Rule::kQpSrq, in.srq);
}

// Adds the QP to the users of its CQs and SRQ, or removes it if `use` is false.
void QpVerbs::use_queues(const QueuePair& qp, bool use) {
    CqTable& cqs = services_.parts().cqs;
    const uint32_t change = use ? 1u : ~0u;
    for (const uint32_t cqn : {qp.send_cq, qp.recv_cq}) {
        if (cqn != 0) {
            cqs.find(cqn)->users += change;
        }
    }
    if (qp.srq != 0) {
        services_.parts().srqs.find(qp.srq)->users += change;
    }
}

CmdResult<uint32_t> QpVerbs::create(const QpRequest& in) {
    const auto ports = static_cast<unsigned>(services_.parts().ports.size());
    const Verdict verdict =
        check_create_qp(in, ports).and_then([&] { return check_queues(in); }).and_then([&] {
            return services_.qps().check_room(in.port, in.type);
        });
    if (verdict != CmdStatus::kOk) {
        return std::unexpected(verdict);
    }
    auto qp = make_qp(services_.host(), in, pages_left_);
    if (!qp) {
        return std::unexpected(qp.error());
    }
    use_queues(*qp, true);
    const QueuePair& placed = services_.qps().insert(std::move(*qp));
    if (Strict* strict = services_.strict(); strict != nullptr) [[unlikely]] {
        check_new_qp(*strict, placed);
    }
    warnings_.qp_created(placed, room_of_cqs(placed));
    return placed.qpn;
}

// CQEs that fit in the smaller CQ of the QP; UINT32_MAX for an XRC target, which has no CQ.
uint32_t QpVerbs::room_of_cqs(const QueuePair& qp) {
    uint32_t room = UINT32_MAX;
    for (const uint32_t cqn : {qp.send_cq, qp.recv_cq}) {
        if (cqn != 0) {
            room = std::min(room, 1u << services_.parts().cqs.find(cqn)->log_depth);
        }
    }
    return room;
}

Verdict QpVerbs::modify(uint32_t qpn, const QpAttributes& in) {
    QueuePair* qp = services_.qps().find(qpn);
    if (qp == nullptr) {
        return refuse(Rule::kNoQp, qpn);
    }
    const Verdict verdict =
        check_transition(*qp, in)
            .and_then([&] { return check_attributes(*qp, in, services_.parts().ports); })
            .and_then([&] { return check_drained(*qp, in); });
    if (verdict != CmdStatus::kOk) {
        return verdict;
    }
    if ((in.attr_mask & qp_attr::kPort) != 0) {
        services_.scheduler().unpark(*qp);  // the QP may wait for room at the old port
    }
    const QpState from = qp->state;
    const bool migrates = is_migration_command(*qp, in);
    apply_attributes(qp->attr, in);
    qp->migration.alternate_loaded =
        qp->migration.alternate_loaded || (in.attr_mask & qp_attr::kAltPath) != 0;
    qp->migration.error_reported = false;
    if (migrates) {
        migrate(services_, *qp);
    }
    if (Strict* strict = services_.strict(); strict != nullptr && from == QpState::kReset &&
                                             target_state(*qp, in) == QpState::kInit) [[unlikely]] {
        check_init(services_.host(), *strict, *qp);
    }
    enter_state(*qp, target_state(*qp, in), in.attr_mask);
    warnings_.qp_modified(*qp, from);
    return CmdStatus::kOk;
}

// Ends the activity of a QP that is about to be reset or destroyed.
void QpVerbs::stop(QueuePair& qp) {
    revoke_offers(services_, qp);
    responder::send_pending_ack(services_, qp);
    services_.timers().cancel(qp.qpn);
    forget_page_faults(services_, qp);
    services_.mpt().windows().unbind_all_of(qp.qpn);
    if (RegListWatch* lists = services_.reg_lists(); lists != nullptr) [[unlikely]] {
        lists->forget(qp.qpn);
    }
}

void QpVerbs::enter_state(QueuePair& qp, QpState to, uint32_t attr_mask) {
    const QpState from = qp.state;
    switch (to) {
        case QpState::kReset:
            stop(qp);
            services_.scheduler().unpark(qp);
            reset_qp(services_.host(), qp, services_.snapshots());
            return;
        case QpState::kErr:
            if (from != QpState::kErr) {
                responder::send_pending_ack(services_, qp);
            }
            enter_error(services_, qp);
            return;
        case QpState::kRtr:
            responder::start(qp);
            break;
        case QpState::kRts:
            qp.sq_draining = false;
            if (from == QpState::kRtr) {
                requester::start(qp);
            } else if (from == QpState::kSqe) {
                finish_send_flush(services_, qp);
                if (qp.state == from) {
                    requester::resume(qp);
                }
            } else if (from == QpState::kSqd) {
                (void)refresh_send_queue(services_, qp);  // starts WQEs posted in SQD
            }
            break;
        case QpState::kSqd:
            qp.sq_draining = qp.sq_draining || from == QpState::kRts;
            break;
        default:
            break;
    }
    // The flush above may have overrun a CQ, or the queue's memory may no longer be accessible:
    // then the QP is in Error.
    if (qp.state == from) {
        qp.state = to;
    }
    if ((attr_mask & qp_attr::kMaxDestRdAtomic) != 0 && to != QpState::kRtr) {
        responder::resize_resources(qp);
    }
    report_drained(services_, qp);
    if (qp.can_send()) {
        services_.schedule(qp);
    }
}

CmdResult<QpAttributes> QpVerbs::query(uint32_t qpn) {
    const QueuePair* qp = services_.qps().find(qpn);
    if (qp == nullptr) {
        return std::unexpected(refuse(Rule::kNoQp, qpn));
    }
    QpAttributes out = qp->attr;
    out.attr_mask = 0;
    out.state = qp->state;
    out.cur_state = qp->state;
    out.sq_draining = qp->sq_draining;
    if (qp->is_connected() && qp->can_receive()) {
        out.rq_psn = qp->resp.expected_psn.value();
    }
    if (qp->can_send()) {
        out.sq_psn = qp->req.next.value();
    }
    return out;
}

Verdict QpVerbs::destroy(uint32_t qpn) {
    QueuePair* qp = services_.qps().find(qpn);
    if (qp == nullptr) {
        return refuse(Rule::kNoQp, qpn);
    }
    if (qp->mcast_groups != 0) {
        return refuse(Rule::kQpBusy, qpn, qp->mcast_groups);
    }
    warnings_.qp_destroyed(*qp);
    if (Strict* strict = services_.strict(); strict != nullptr) [[unlikely]] {
        check_old_qp(services_, *strict, *qp);
        strict->queue_destroyed({Thing::kQp, qpn});
    }
    stop(*qp);
    use_queues(*qp, false);
    services_.parts().eqs.forget_events(EventSource::kQp, qpn);
    services_.scheduler().forget(*qp);
    qp->window.release(services_.snapshots());
    pages_left_ += qp->buffer.listed_pages();
    services_.qps().erase(qpn);
    return CmdStatus::kOk;
}

Verdict QpVerbs::attach_mcast(uint32_t qpn, const McastGroup& in) {
    QueuePair* qp = services_.qps().find(qpn);
    if (qp == nullptr) {
        return refuse(Rule::kNoQp, qpn);
    }
    if (qp->type != QpType::kUd) {
        return refuse(Rule::kMcastType, qpn, static_cast<uint8_t>(qp->type));
    }
    bool added = false;
    const Verdict status = mcast_.attach(in, qpn, added);
    qp->mcast_groups += added ? 1 : 0;
    return status;
}

Verdict QpVerbs::detach_mcast(uint32_t qpn, const McastGroup& in) {
    QueuePair* qp = services_.qps().find(qpn);
    if (qp == nullptr) {
        return refuse(Rule::kNoQp, qpn);
    }
    const Verdict status = mcast_.detach(in, qpn);
    qp->mcast_groups -= status == CmdStatus::kOk ? 1 : 0;
    return status;
}

// Only XRC targets use an SRQ without being counted as its users. A message that such a QP receives
// loses its receive WQE, and the next packet of the message is refused.
void QpVerbs::srq_destroyed(uint32_t srqn) {
    services_.qps().for_each([&](QueuePair& qp) {
        services_.scheduler().add_extra(kLookCost);
        if (qp.resp.recv.valid && qp.resp.recv.srqn == srqn) {
            qp.resp.recv.valid = false;
        }
    });
}

void QpVerbs::set_knobs(const TestKnobs& knobs) {
    services_.qps().set_choice(knobs.qpn_choice);
    warnings_.enable(knobs.warnings);
}

Verdict QpVerbs::inject_cq_error(uint32_t cqn) {
    if (services_.parts().cqs.find(cqn) == nullptr) {
        return refuse(Rule::kNoCq, cqn);
    }
    if (!services_.parts().cqs.inject_error(cqn)) {
        return refuse(Rule::kInjectState, cqn);
    }
    cq_failed(services_, cqn);
    return CmdStatus::kOk;
}

// An error event moves the QP to Error, as a real one does; other events change no state.
Verdict QpVerbs::inject_event(Event type, uint32_t number) {
    if (type == Event::kCqError) {
        return inject_cq_error(number);
    }
    QueuePair* qp = services_.qps().find(number);
    if (qp == nullptr) {
        return refuse(Rule::kNoQp, number);
    }
    switch (type) {
        case Event::kPathMigrated:
        case Event::kCommEstablished:
        case Event::kSqDrained:
        case Event::kPathMigFailed:
        case Event::kLastWqeReached:
            services_.event(type, *qp);
            return CmdStatus::kOk;
        case Event::kQpFatal:
        case Event::kQpRequestError:
        case Event::kQpAccessError:
            break;
        default:
            return refuse(Rule::kInjectType, static_cast<uint8_t>(type));
    }
    if (qp->state == QpState::kReset || qp->state == QpState::kErr) {
        return refuse(Rule::kInjectState, number);
    }
    services_.event(type, *qp);
    qp->reported.fatal = qp->reported.fatal || type == Event::kQpFatal;
    enter_error(services_, *qp);
    return CmdStatus::kOk;
}

Verdict QpVerbs::resume_page_fault(uint32_t qpn, QpHalf half, bool refused) {
    QueuePair* qp = services_.qps().find(qpn);
    if (qp == nullptr) {
        return refuse(Rule::kNoQp, qpn);
    }
    PageWait& wait = qp->page_wait(half);
    if (!wait.waiting) {
        return refuse(Rule::kResumeWaits, half == QpHalf::kResponder ? 1 : 0);
    }
    wait.waiting = false;
    wait.refused = refused;
    if (half == QpHalf::kResponder) {
        qp->paging.read_waits = false;
    } else if (std::exchange(qp->paging.response_lost, false) && qp->can_send()) {
        // Requests the dropped response again, and sends all packets after this request again.
        requester::rewind(services_, *qp);
    }
    services_.schedule(*qp);
    return CmdStatus::kOk;
}

void QpVerbs::reset() {
    mcast_.clear();
    services_.reset();
    pages_left_ = Limits::kQpPages;
}

}  // namespace pib::hca
