// SPDX-License-Identifier: GPL-2.0-or-later
// The transport's QPs: those that commands create, change and destroy. Everything is checked before
// anything is changed.
#include <algorithm>

#include "qp/path_migration.h"
#include "qp/qp_create.h"
#include "qp/qp_modify.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "transport/transport.h"

namespace pib::hca {
namespace {

// Attributes that describe how requests are sent: they may change in SQD once nothing is under way
// (IBA 11.2.5.2).
constexpr uint32_t kNeedDrained =
    PIB_HCA_QP_ATTR_PORT | PIB_HCA_QP_ATTR_AV | PIB_HCA_QP_ATTR_PKEY_INDEX |
    PIB_HCA_QP_ATTR_TIMEOUT | PIB_HCA_QP_ATTR_RETRY_CNT | PIB_HCA_QP_ATTR_RNR_RETRY |
    PIB_HCA_QP_ATTR_MAX_QP_RD_ATOMIC | PIB_HCA_QP_ATTR_MAX_DEST_RD_ATOMIC;

}  // namespace

template <typename F>
void Transport::for_each_qp(F&& f) {
    for (const auto& qp : special_qps_) {
        if (qp) {
            f(*qp);
        }
    }
    qps_.for_each([&](uint32_t, QueuePair& qp) { f(qp); });
}

bool Transport::queues_exist(const pib_hca_create_qp& in) {
    CqTable& cqs = services_.parts().cqs;
    // What XRC QPs do not have has been checked.
    const bool sends = in.type != PIB_HCA_QP_XRC_TGT;
    const bool receives = sends && in.type != PIB_HCA_QP_XRC_INI;
    const SharedReceiveQueue* srq = services_.parts().srqs.find(in.srq);
    return (!sends || cqs.find(in.send_cq) != nullptr) &&
           (!receives || cqs.find(in.recv_cq) != nullptr) &&
           (in.srq == 0 || (srq != nullptr && srq->xrcd == 0));
}

// Counts the QP among the users of the objects that it names.
void Transport::use_queues(const QueuePair& qp, bool use) {
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

CmdResult<uint32_t> Transport::create_qp(const pib_hca_create_qp& in) {
    const auto ports = static_cast<unsigned>(services_.parts().ports.size());
    if (const CmdStatus status = check_create_qp(in, ports); status != PIB_HCA_CMD_STATUS_OK) {
        return std::unexpected(status);
    }
    if (!queues_exist(in)) {
        return std::unexpected(PIB_HCA_CMD_STATUS_BAD_RESOURCE);
    }
    const bool special = in.port != 0;
    if (special && special_qps_[PIB_HCA_SPECIAL_QPN(in.port, in.type == PIB_HCA_QP_GSI)]) {
        return std::unexpected(PIB_HCA_CMD_STATUS_BUSY);
    }
    if (!special && qps_.count() == qps_.capacity()) {
        return std::unexpected(PIB_HCA_CMD_STATUS_NO_RESOURCES);
    }
    auto qp = make_qp(services_.host(), in, pages_left_);
    if (!qp) {
        return std::unexpected(qp.error());
    }
    use_queues(*qp, true);
    const uint32_t room = room_of_cqs(*qp);
    const auto qpn = place(std::move(*qp));
    suspicions_.qp_created(*find_qp(*qpn), room);
    return qpn;
}

// CQEs that fit in the smaller of its CQs; an XRC target has none, and no bound.
uint32_t Transport::room_of_cqs(const QueuePair& qp) {
    uint32_t room = UINT32_MAX;
    for (const uint32_t cqn : {qp.send_cq, qp.recv_cq}) {
        if (cqn != 0) {
            room = std::min(room, 1u << services_.parts().cqs.find(cqn)->log_depth);
        }
    }
    return room;
}

CmdResult<uint32_t> Transport::place(QueuePair&& qp) {
    if (qp.is_special()) {
        const uint32_t qpn = PIB_HCA_SPECIAL_QPN(qp.special_port, qp.type == PIB_HCA_QP_GSI);
        qp.qpn = qpn;
        special_qps_[qpn] = std::make_unique<QueuePair>(std::move(qp));
        return qpn;
    }
    const uint32_t qpn = qps_.insert(std::move(qp));
    qps_.find(qpn)->qpn = qpn;
    return qpn;
}

CmdStatus Transport::modify_qp(uint32_t qpn, const pib_hca_modify_qp& in) {
    QueuePair* qp = find_qp(qpn);
    if (qp == nullptr) {
        return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
    }
    if (const CmdStatus status = check_transition(*qp, in); status != PIB_HCA_CMD_STATUS_OK) {
        return status;
    }
    if (const CmdStatus status = check_attributes(*qp, in, services_.parts().ports);
        status != PIB_HCA_CMD_STATUS_OK) {
        return status;
    }
    if (qp->sq_draining && qp->state == target_state(*qp, in) &&
        (in.attr_mask & kNeedDrained) != 0) {
        return PIB_HCA_CMD_STATUS_BAD_STATE;
    }
    if ((in.attr_mask & PIB_HCA_QP_ATTR_PORT) != 0) {
        unpark(*qp);  // it waits for the old port
    }
    const QpState from = qp->state;
    const bool migrates = is_migration_command(*qp, in);
    apply_attributes(qp->attr, in);
    qp->alt_loaded = qp->alt_loaded || (in.attr_mask & PIB_HCA_QP_ATTR_ALT_PATH) != 0;
    qp->mig_error_reported = false;
    if (migrates) {
        migrate(services_, *qp);
    }
    enter_state(*qp, target_state(*qp, in), in.attr_mask);
    suspicions_.qp_modified(*qp, from);
    return PIB_HCA_CMD_STATUS_OK;
}

void Transport::enter_state(QueuePair& qp, QpState to, uint32_t attr_mask) {
    const QpState from = qp.state;
    switch (to) {
        case PIB_HCA_QPS_RESET:
            services_.leave_memory(qp);
            responder::send_pending_ack(services_, qp);
            services_.timers().cancel(qp.qpn);
            services_.forget_page_faults(qp);
            unpark(qp);
            services_.mpt().unbind_windows_of(qp.qpn);
            reset_qp(services_.host(), qp, services_.snapshots());
            return;
        case PIB_HCA_QPS_ERR:
            services_.enter_error(qp);
            return;
        case PIB_HCA_QPS_RTR:
            responder::start(qp);
            break;
        case PIB_HCA_QPS_RTS:
            if (from == PIB_HCA_QPS_RTR) {
                requester::start(qp);
            } else if (from == PIB_HCA_QPS_SQE) {
                finish_send_flush(qp);
                requester::resume(qp);
            }
            break;
        case PIB_HCA_QPS_SQD:
            qp.sq_draining = qp.sq_draining || from == PIB_HCA_QPS_RTS;
            break;
        default:
            break;
    }
    // The flush above may have overrun a CQ.
    if (qp.state == from) {
        qp.state = to;
    }
    if ((attr_mask & PIB_HCA_QP_ATTR_MAX_DEST_RD_ATOMIC) != 0 && to != PIB_HCA_QPS_RTR) {
        responder::resize_rd(qp);
    }
    services_.report_drained(qp);
    if (qp.can_send()) {
        services_.schedule(qp);
    }
}

// SQE to RTS: what was posted before belongs to the error (IBA 10.3.1.6). Bounded by the queue's
// depth.
void Transport::finish_send_flush(QueuePair& qp) {
    Turn turn = Turn::kMore;
    while (turn == Turn::kMore) {
        Budget budget{.packets = PIB_HCA_CMD_MAX_LENGTH, .bytes = UINT32_MAX};
        turn = services_.flush(qp, budget);
    }
}

CmdResult<pib_hca_modify_qp> Transport::query_qp(uint32_t qpn) {
    const QueuePair* qp = find_qp(qpn);
    if (qp == nullptr) {
        return std::unexpected(PIB_HCA_CMD_STATUS_BAD_RESOURCE);
    }
    pib_hca_modify_qp out = qp->attr;
    out.attr_mask = 0;
    out.state = qp->state;
    out.cur_state = qp->state;
    out.sq_draining = qp->sq_draining ? 1 : 0;
    if (qp->is_connected() && qp->can_receive()) {
        out.rq_psn = qp->resp.expected_psn.value();
    }
    if (qp->can_send()) {
        out.sq_psn = qp->req.next.value();
    }
    return out;
}

void Transport::forget(QueuePair& qp) {
    services_.leave_memory(qp);
    responder::send_pending_ack(services_, qp);
    use_queues(qp, false);
    services_.timers().cancel(qp.qpn);
    services_.forget_page_faults(qp);
    services_.mpt().unbind_windows_of(qp.qpn);
    qp.window.release(services_.snapshots());
    unpark(qp);
    if (qp.queued) {
        services_.run_queue().remove(qp.qpn);  // it holds QPs that exist, so it stays bounded
    }
    pages_left_ += qp.buffer.listed_pages();
}

CmdStatus Transport::destroy_qp(uint32_t qpn) {
    QueuePair* qp = find_qp(qpn);
    if (qp == nullptr) {
        return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
    }
    if (qp->mcast_groups != 0) {
        return PIB_HCA_CMD_STATUS_BUSY;
    }
    suspicions_.qp_destroyed(*qp);
    forget(*qp);
    if (qpn < kSpecialQps) {
        special_qps_[qpn].reset();
    } else {
        qps_.erase(qpn);
    }
    return PIB_HCA_CMD_STATUS_OK;
}

CmdStatus Transport::attach_mcast(uint32_t qpn, const pib_hca_mcast& in) {
    QueuePair* qp = find_qp(qpn);
    if (qp == nullptr) {
        return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
    }
    if (qp->type != PIB_HCA_QP_UD) {
        return PIB_HCA_CMD_STATUS_BAD_PARAM;
    }
    bool added = false;
    const CmdStatus status = mcast_.attach(in, qpn, added);
    qp->mcast_groups += added ? 1 : 0;
    return status;
}

CmdStatus Transport::detach_mcast(uint32_t qpn, const pib_hca_mcast& in) {
    QueuePair* qp = find_qp(qpn);
    if (qp == nullptr) {
        return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
    }
    const CmdStatus status = mcast_.detach(in, qpn);
    qp->mcast_groups -= status == PIB_HCA_CMD_STATUS_OK ? 1 : 0;
    return status;
}

// In Reset a QP has nothing to complete; once it is used, its first completion finds out.
void Transport::cq_failed(uint32_t cqn) {
    for_each_qp([&](QueuePair& qp) {
        if (qp.state != PIB_HCA_QPS_RESET && (qp.send_cq == cqn || qp.recv_cq == cqn)) {
            services_.fatal(qp);
        }
    });
}

uint32_t Transport::qps_of_pd(uint32_t pd) {
    uint32_t count = 0;
    for_each_qp([&](const QueuePair& qp) { count += qp.pd == pd ? 1 : 0; });
    return count;
}

uint32_t Transport::qps_of_xrcd(uint32_t xrcd) {
    uint32_t count = 0;
    for_each_qp([&](const QueuePair& qp) { count += qp.xrcd == xrcd ? 1 : 0; });
    return count;
}

// Only XRC targets use an SRQ that does not count them; the message that such a QP receives is lost
// with its WQE, and its next packet finds no SRQ.
void Transport::srq_destroyed(uint32_t srqn) {
    for_each_qp([&](QueuePair& qp) {
        if (qp.resp.recv.valid && qp.resp.recv.srqn == srqn) {
            qp.resp.recv.valid = false;
        }
    });
}

uint32_t Transport::qps_of_uar(uint32_t uar) {
    uint32_t count = 0;
    for_each_qp([&](const QueuePair& qp) { count += qp.uar == uar ? 1 : 0; });
    return count;
}

void Transport::set_knobs(const Knobs& knobs) {
    qps_.set_choice(knobs.qpn_choice);
    suspicions_.enable(knobs.warnings);
}

// Errors take the QP with them as the real ones do; other events are only told.
CmdStatus Transport::inject_event(pib_hca_event type, uint32_t number) {
    if (type == PIB_HCA_EVENT_CQ_ERROR) {
        if (services_.parts().cqs.find(number) == nullptr) {
            return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
        }
        if (!services_.parts().cqs.inject_error(number)) {
            return PIB_HCA_CMD_STATUS_BAD_STATE;
        }
        cq_failed(number);
        return PIB_HCA_CMD_STATUS_OK;
    }
    QueuePair* qp = find_qp(number);
    if (qp == nullptr) {
        return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
    }
    switch (type) {
        case PIB_HCA_EVENT_PATH_MIGRATED:
        case PIB_HCA_EVENT_COMM_ESTABLISHED:
        case PIB_HCA_EVENT_SQ_DRAINED:
        case PIB_HCA_EVENT_PATH_MIG_FAILED:
        case PIB_HCA_EVENT_LAST_WQE_REACHED:
            services_.event(type, *qp);
            return PIB_HCA_CMD_STATUS_OK;
        case PIB_HCA_EVENT_QP_FATAL:
        case PIB_HCA_EVENT_QP_REQUEST_ERROR:
        case PIB_HCA_EVENT_QP_ACCESS_ERROR:
            break;
        default:
            return PIB_HCA_CMD_STATUS_BAD_PARAM;
    }
    if (qp->state == PIB_HCA_QPS_RESET || qp->state == PIB_HCA_QPS_ERR) {
        return PIB_HCA_CMD_STATUS_BAD_STATE;
    }
    services_.event(type, *qp);
    qp->fatal_reported = qp->fatal_reported || type == PIB_HCA_EVENT_QP_FATAL;
    services_.enter_error(*qp);
    return PIB_HCA_CMD_STATUS_OK;
}

void Transport::visit_qps(const std::function<void(const QueuePair&)>& visitor) {
    for_each_qp([&](const QueuePair& qp) { visitor(qp); });
}

CmdStatus Transport::resume_page_fault(uint32_t qpn, const pib_hca_resume_page_fault& in) {
    QueuePair* qp = find_qp(qpn);
    if (qp == nullptr) {
        return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
    }
    const QpHalf half =
        (in.flags & PIB_HCA_PAGE_FAULT_RESPONDER) != 0 ? QpHalf::kResponder : QpHalf::kRequester;
    PageWait& wait = qp->page_wait(half);
    if (!wait.waiting) {
        return PIB_HCA_CMD_STATUS_BAD_STATE;
    }
    wait = {.waiting = false, .refused = (in.flags & PIB_HCA_PAGE_FAULT_REFUSED) != 0};
    if (half == QpHalf::kResponder) {
        qp->read_waits = false;
    } else if (std::exchange(qp->response_lost, false) && qp->can_send()) {
        // The response is asked for again, and all that was sent after it.
        requester::rewind(services_, *qp);
    }
    services_.schedule(*qp);
    return PIB_HCA_CMD_STATUS_OK;
}

void Transport::reset() {
    qps_.clear();
    for (auto& qp : special_qps_) {
        qp.reset();
    }
    for (auto& parked : parked_) {
        parked.clear();
    }
    mcast_.clear();
    services_.reset();
    pages_left_ = Limits::kQpPages;
}

}  // namespace pib::hca
