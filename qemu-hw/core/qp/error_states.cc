// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/error_states.h"

#include <algorithm>
#include <span>

#include "qp/completions.h"
#include "qp/qp_header.h"
#include "qp/qp_offers.h"

namespace pib::hca {
namespace {

constexpr WqeError kFlushed{WcStatus::kWrFlushErr};

void start_error(QpServices& services, QueuePair& qp) {
    revoke_offers(services, qp);
    qp.state = QpState::kErr;
    qp.scheduling.blocked = false;  // the flush needs no room at the port
    qp.sq_draining = false;
    qp.req.timer = QpTimer::kNone;
    services.timers().cancel(qp.qpn);
    // Sets a flag that asks software to ring a doorbell for each receive WQE that it posts from now
    // on. WQEs posted before need none: the producers are read after the store (IBA 10.3.1.7).
    request_receive_doorbells(services.host(), qp.buffer, true);
    (void)refresh_sq(services, qp);
    (void)refresh_rq(services, qp);
    services.schedule(qp);
}

bool flush_one_send(QpServices& services, QueuePair& qp) {
    if (!qp.window.empty()) {
        complete_send(services, qp, kFlushed);
        return true;
    }
    if (!qp.sq.present || qp.sq.ready() == 0) {
        return false;
    }
    complete_uncopied_send(services, qp, qp.sq.consumer++, kFlushed);
    return true;
}

bool flush_one_recv(QpServices& services, QueuePair& qp) {
    if (qp.state != QpState::kErr) {
        return false;
    }
    ReceiveRequest& recv = qp.resp.recv;
    if (!recv.valid) {
        if (!qp.rq.present || qp.rq.ready() == 0) {
            return false;
        }
        recv.srqn = 0;
        recv.cqn = qp.recv_cq;
        recv.counter = qp.rq.consumer++;
    }
    fail_recv(services, qp, kFlushed);
    return true;
}

// Raises LAST_WQE_REACHED, because a QP in Error takes no more WQEs of its SRQ and has completed
// those that it has taken (IBA 10.3.1.7).
void report_last_wqe(QpServices& services, QueuePair& qp) {
    const bool shares = qp.srq != 0 || qp.type == QpType::kXrcTgt;
    if (shares && qp.state == QpState::kErr && !qp.reported.last_wqe) {
        qp.reported.last_wqe = true;
        services.event(Event::kLastWqeReached, qp);
    }
}

// Skips a QP in Reset: it has nothing to complete, and its first completion after Reset finds its
// CQ in error. `cqns` are in order.
void fail_qps_of(QpServices& services, std::span<const uint32_t> cqns) {
    const auto failed = [&](uint32_t cqn) { return std::ranges::binary_search(cqns, cqn); };
    services.qps().for_each([&](QueuePair& qp) {
        services.scheduler().add_extra(kLookCost);
        if (qp.state != QpState::kReset && (failed(qp.send_cq) || failed(qp.recv_cq))) {
            fatal(services, qp);
        }
    });
}

}  // namespace

void enter_error(QpServices& services, QueuePair& qp) {
    if (qp.state == QpState::kErr) {
        return;
    }
    qp.resp.ack = {};
    for (ResponderResource& resource : qp.resp.resources) {
        resource.pending = false;
    }
    start_error(services, qp);
}

void enter_error_after_nak(QpServices& services, QueuePair& qp) {
    if (qp.state != QpState::kErr) {
        start_error(services, qp);
    }
}

void fatal(QpServices& services, QueuePair& qp) {
    if (!qp.reported.fatal) {
        qp.reported.fatal = true;
        services.event(Event::kQpFatal, qp);
    }
    enter_error(services, qp);
}

void cq_failed(QpServices& services, uint32_t cqn) {
    if (!services.qps().failed_cqs().add(cqn)) {
        fail_qps_of(services, {&cqn, 1});
    }
}

void fail_qps_of_collected_cqs(QpServices& services) {
    if (const auto cqns = services.qps().failed_cqs().take(); !cqns.empty()) [[unlikely]] {
        fail_qps_of(services, cqns);
    }
}

void fail_send(QpServices& services, QueuePair& qp, const WqeError& error) {
    revoke_offers(services, qp);
    complete_send(services, qp, error);
    if (qp.state == QpState::kErr) {
        return;
    }
    if (qp.is_reliable()) {
        enter_error(services, qp);
        return;
    }
    qp.state = QpState::kSqe;
    qp.sq_draining = false;
    (void)refresh_send_queue(services, qp);
    services.schedule(qp);
}

Turn flush_queues(QpServices& services, QueuePair& qp, Budget& budget) {
    // The depths of the queues bound the loop, because it does not read the producers again.
    // Software rings a doorbell for WQEs that it posts in the states SQE and Error.
    while (!budget.spent()) {
        const bool sent = flush_one_send(services, qp);
        const bool received = flush_one_recv(services, qp);
        if (!sent && !received) {
            qp.req.cursor_wqe = qp.sq.consumer;
            report_last_wqe(services, qp);
            return Turn::kIdle;
        }
        budget.charge(0);
    }
    return Turn::kMore;
}

void report_drained(QpServices& services, QueuePair& qp) {
    if (!qp.sq_draining || qp.state != QpState::kSqd || !qp.window.empty()) {
        return;
    }
    qp.sq_draining = false;
    if (qp.attr.en_sqd_async_notify != 0) {
        services.event(Event::kSqDrained, qp);
    }
}

bool refresh_send_queue(QpServices& services, QueuePair& qp) {
    if (refresh_sq(services, qp) == QueueRead::kOk) {
        return true;
    }
    fatal(services, qp);
    return false;
}

}  // namespace pib::hca
