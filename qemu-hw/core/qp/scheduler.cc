// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/scheduler.h"

#include <algorithm>

namespace pib::hca {
namespace {

// The destination of the packet that a QP would send next.
TxRequest next_request(const QueuePair& qp) {
    const bool vl15 = qp.type == QpType::kSmi;
    if (qp.is_connected()) {
        return {.dlid = qp.attr.av.dlid, .sl = qp.attr.av.sl, .vl15 = vl15, .bytes = 0};
    }
    const auto* op =
        qp.window.empty() ? nullptr : std::get_if<DatagramOp>(&qp.window.front().wqe.op);
    return {.dlid = op != nullptr ? op->av.dlid : qp.scheduling.last_dlid,
            .sl = op != nullptr ? op->av.sl : qp.scheduling.last_sl,
            .vl15 = vl15,
            .bytes = 0};
}

}  // namespace

// A QP that only flushes WQEs, or that has no destination yet, waits for no VL.
unsigned Scheduler::lane_of(const QueuePair& qp) const {
    return qp.can_receive() && qp.state != QpState::kSqe
               ? ports_[qp.port() - 1u]->lane(next_request(qp))
               : kLoopbackLane;
}

void Scheduler::schedule(QueuePair& qp) {
    if (!qp.scheduling.queued) {
        qp.scheduling.queued = true;
        run_queue_.push(qp.qpn, std::max<unsigned>(qp.port(), 1), lane_of(qp));
    }
    if (!woken_ && !turns_) {
        woken_ = true;
        host_.wake();
    }
}

void Scheduler::park(QueuePair& qp) {
    qp.scheduling.blocked = true;
    if (!qp.scheduling.parked) {
        qp.scheduling.parked = true;
        parked_[qp.port() - 1u].push_back(qp.qpn);
    }
}

void Scheduler::unpark(QueuePair& qp) {
    if (qp.scheduling.parked) {
        for (auto& parked : parked_) {
            std::erase(parked, qp.qpn);
        }
    }
    qp.scheduling.parked = qp.scheduling.blocked = false;
}

void Scheduler::room(unsigned port, QpTable& qps) {
    // The vector is cleared after the loop, not moved away before it, so that it keeps its memory.
    // No QP is parked meanwhile, because schedule() gives no turns.
    std::vector<uint32_t>& parked = parked_[port - 1];
    for (const uint32_t qpn : parked) {
        if (QueuePair* qp = qps.find(qpn); qp != nullptr && qp->scheduling.parked) {
            qp->scheduling.parked = qp->scheduling.blocked = false;
            schedule(*qp);
        }
    }
    parked.clear();
}

// Removes the QP from the run queue too. Only existing QPs are in the run queue, so its length is
// bounded.
void Scheduler::forget(QueuePair& qp) {
    unpark(qp);
    if (qp.scheduling.queued) {
        run_queue_.remove(qp.qpn);
    }
}

void Scheduler::clear() {
    run_queue_.clear();
    for (auto& parked : parked_) {
        parked.clear();
    }
    turns_ = woken_ = false;
    extra_ = 0;
}

}  // namespace pib::hca
