// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/qp_services.h"

#include <algorithm>

#include "memory/one_copy.h"
#include "qp/qp_header.h"
#include "queues/work_queue.h"

namespace pib::hca {
namespace {

constexpr WqeError kFlushed{PIB_HCA_WC_WR_FLUSH_ERR, VendorError::kNone};

}  // namespace

void QpServices::wake() {
    if (!woken_ && !running_) {
        woken_ = true;
        parts_.host.wake();
    }
}

namespace {

// The address of the packet that a QP would send next.
TxRequest next_request(const QueuePair& qp) {
    const bool vl15 = qp.type == PIB_HCA_QP_SMI;
    if (qp.is_connected()) {
        return {.dlid = qp.attr.av.dlid, .sl = qp.attr.av.sl, .vl15 = vl15, .bytes = 0};
    }
    const auto* op =
        qp.window.empty() ? nullptr : std::get_if<DatagramOp>(&qp.window.front().wqe.op);
    return {.dlid = op != nullptr ? op->av.dlid : qp.last_dlid,
            .sl = op != nullptr ? op->av.sl : qp.last_sl,
            .vl15 = vl15,
            .bytes = 0};
}

}  // namespace

// Work that only completes WQEs, or has no destination, waits for no VL.
unsigned QpServices::lane_of(const QueuePair& qp) {
    return qp.can_receive() && qp.state != PIB_HCA_QPS_SQE ? port_of(qp).lane(next_request(qp))
                                                           : kFreeLane;
}

bool QpServices::others_wait(const QueuePair& qp) {
    return !run_queue_.empty() && run_queue_.others_wait(qp.port(), lane_of(qp));
}

void QpServices::schedule(QueuePair& qp) {
    if (!qp.queued) {
        qp.queued = true;
        run_queue_.push(qp.qpn, std::max<unsigned>(qp.port(), 1), lane_of(qp));
    }
    wake();
}

void QpServices::reset() {
    timers_.clear();
    run_queue_.clear();
    snapshots_ = {};
    page_faults_.clear();
    running_ = false;
    woken_ = false;
}

void QpServices::acknowledge_references(QueuePair& qp) {
    if (qp.req.references) [[unlikely]] {
        qp.req.references = one_copy()->acknowledged(qp.qpn, qp.req.una);
    }
}

void QpServices::forget_references(QueuePair& qp) {
    if (qp.req.references) [[unlikely]] {
        one_copy()->forget_requests(qp.qpn);
        qp.req.references = false;
    }
}

void QpServices::leave_memory(QueuePair& qp) {
    if (one_copy() != nullptr) [[unlikely]] {
        one_copy()->qp_goes(qp.qpn);
        qp.req.references = false;
    }
}

void QpServices::count_error(const QueuePair& qp, const WqeError& error, bool is_send) {
    if (error.status == PIB_HCA_WC_SUCCESS) {
        return;
    }
    const bool flushed = error.status == PIB_HCA_WC_WR_FLUSH_ERR;
    count(qp,
          is_send
              ? (flushed ? PIB_HCA_COUNTER_REQ_CQE_FLUSH_ERROR : PIB_HCA_COUNTER_REQ_CQE_ERROR)
              : (flushed ? PIB_HCA_COUNTER_RESP_CQE_FLUSH_ERROR : PIB_HCA_COUNTER_RESP_CQE_ERROR));
}

void QpServices::post(QueuePair& qp, uint32_t cqn, const pib_hca_cqe& cqe, bool solicited,
                      bool patient) {
    if (!parts_.cqs.post(cqn, cqe, solicited, patient) && !qp.fatal_reported) {
        owner_.cq_failed(cqn);
        fatal(qp);  // an XRC target completes to the CQs of its domain's SRQs
    }
}

void QpServices::post_send_cqe(QueuePair& qp, uint32_t counter, uint8_t opcode, uint32_t byte_count,
                               const WqeError& error) {
    count_error(qp, error, true);
    pib_hca_cqe cqe{};
    cqe.qpn = qp.qpn;
    cqe.wqe_counter = counter;
    cqe.byte_count = byte_count;
    cqe.opcode = opcode;
    cqe.status = error.status;
    cqe.vendor_error = static_cast<uint8_t>(error.detail);
    // A sender of an SMP waits for the response, which arrives in some 50 us. Two events would be
    // two interrupts and two turns of the guest's worker. This does not apply to the GSI: RMPP
    // sends by completions.
    const bool answer_follows = qp.type == PIB_HCA_QP_SMI;
    post(qp, qp.send_cq, cqe, error.status != PIB_HCA_WC_SUCCESS, answer_follows);
}

void QpServices::complete_send(QueuePair& qp, const WqeError& error) {
    const SendRequest& request = qp.window.front();
    const SendWqe& wqe = request.wqe;
    const uint32_t counter = request.counter;
    const bool signalled = qp.signal_all || (wqe.flags & PIB_HCA_WQE_SIGNALED) != 0;
    const bool failed = error.status != PIB_HCA_WC_SUCCESS;
    const uint32_t byte_count = !failed && wqe.fetches() ? wqe.data.length : 0;
    const uint8_t opcode = cqe_opcode(wqe.opcode);
    if (wqe.needs_response() && request.started) {
        --qp.req.rd_outstanding;
    }
    qp.window.pop();
    if (signalled || failed) {
        post_send_cqe(qp, counter, opcode, byte_count, error);
    }
}

void QpServices::complete_local(QueuePair& qp) {
    while (!qp.window.empty()) {
        const SendRequest& request = qp.window.front();
        if (!request.wqe.is_local() || !request.started || request.failed()) {
            return;
        }
        // A retry that has not come by here again need not.
        qp.req.cursor_wqe += qp.req.cursor_wqe == request.counter ? 1 : 0;
        complete_send(qp, {PIB_HCA_WC_SUCCESS, VendorError::kNone});
    }
}

void QpServices::complete_recv(QueuePair& qp, const ReceiveReport& report) {
    qp.resp.recv.valid = false;
    count_error(qp, report.error, false);
    pib_hca_cqe cqe = report.fields;
    cqe.qpn = qp.qpn;
    cqe.wqe_counter = qp.resp.recv.counter;
    if (qp.resp.recv.srqn != 0) {
        cqe.srqn = qp.resp.recv.srqn;
        cqe.flags |= PIB_HCA_CQE_FLAG_SRQ;
    }
    cqe.opcode = report.opcode;
    cqe.status = report.error.status;
    cqe.vendor_error = static_cast<uint8_t>(report.error.detail);
    if (report.solicited) {
        cqe.flags |= PIB_HCA_CQE_FLAG_SOLICITED;
    }
    // IBA 11.4.2.2: an unsuccessful completion counts as solicited.
    post(qp, qp.resp.recv.cqn, cqe, report.solicited || report.error.status != PIB_HCA_WC_SUCCESS);
}

// The oldest WQE of the QP's own receive queue, copied and not yet taken.
QpServices::Fetch QpServices::peek_recv(QueuePair& qp) {
    if (qp.shared_queue() != 0) {
        return peek_shared(qp);
    }
    WorkQueue& rq = qp.rq;
    if (rq.ready() == 0 && refresh_rq(host(), qp) != QueueRead::kOk) {
        fatal(qp);
        return Fetch::kBad;
    }
    if (rq.ready() == 0) {
        return Fetch::kNone;
    }
    ReceiveRequest& recv = qp.resp.recv;
    if (!copy_entry(host(), qp.buffer, rq, rq.consumer, recv.bytes)) {
        fatal(qp);
        return Fetch::kBad;
    }
    recv.srqn = 0;
    recv.counter = rq.consumer;
    recv.cqn = qp.recv_cq;
    recv.user = qp.key_user();
    return Fetch::kOk;
}

// Likewise of its shared one. IBA 10.2.9: the keys are looked at as the SRQ's, not the QP's.
QpServices::Fetch QpServices::peek_shared(QueuePair& qp) {
    ReceiveRequest& recv = qp.resp.recv;
    const uint32_t srqn = qp.shared_queue();
    switch (parts_.srqs.peek(srqn, recv.bytes)) {
        case SrqTable::Take::kNone:
            return Fetch::kNone;
        case SrqTable::Take::kError:
            fatal(qp);
            return Fetch::kBad;
        case SrqTable::Take::kOk:
            break;
    }
    const SharedReceiveQueue& srq = *parts_.srqs.find(srqn);
    recv.srqn = srqn;
    recv.counter = recv_wqe_id(recv.bytes);
    recv.cqn = srq.cqn != 0 ? srq.cqn : qp.recv_cq;
    recv.user = srq.key_user();
    return Fetch::kOk;
}

QpServices::Fetch QpServices::fetch_recv(QueuePair& qp, uint32_t bytes) {
    const Fetch peeked = peek_recv(qp);
    if (peeked != Fetch::kOk) {
        if (peeked == Fetch::kNone) {
            count(qp, PIB_HCA_COUNTER_OUT_OF_BUFFER);
        }
        return peeked;
    }
    ReceiveRequest& recv = qp.resp.recv;
    const auto data = decode_recv_wqe(recv.bytes, recv.srqn != 0);
    if (data && data->length < bytes) {
        return Fetch::kShort;
    }
    if (recv.srqn != 0) {
        parts_.srqs.take(recv.srqn);
    } else {
        ++qp.rq.consumer;
    }
    recv.valid = true;
    trace_recv(qp);
    if (!data) {
        ReceiveReport report;
        report.error = data.error();
        complete_recv(qp, report);
        return Fetch::kBad;
    }
    recv.data = *data;
    return Fetch::kOk;
}

void QpServices::report_drained(QueuePair& qp) {
    if (!qp.sq_draining || qp.state != PIB_HCA_QPS_SQD || !qp.window.empty()) {
        return;
    }
    qp.sq_draining = false;
    if (qp.attr.en_sqd_async_notify != 0) {
        event(PIB_HCA_EVENT_SQ_DRAINED, qp);
    }
}

bool QpServices::refresh_send_queue(QueuePair& qp) {
    if (refresh_sq(host(), qp) == QueueRead::kOk) {
        return true;
    }
    fatal(qp);
    return false;
}

void QpServices::start_error(QueuePair& qp) {
    leave_memory(qp);
    qp.state = PIB_HCA_QPS_ERR;
    qp.blocked = false;  // the flush needs no port
    qp.sq_draining = false;
    qp.req.timer = QpTimer::kNone;
    timers_.cancel(qp.qpn);
    // From here on the guest tells of posted receives, and what it posted before is read now:
    // whatever is posted to a QP in Error is flushed (IBA 10.3.1.7).
    write_header_flags(host(), qp, PIB_HCA_QP_HEADER_RECV_NOTIFY);
    (void)refresh_sq(host(), qp);
    (void)refresh_rq(host(), qp);
    schedule(qp);
}

void QpServices::enter_error(QueuePair& qp) {
    if (qp.state == PIB_HCA_QPS_ERR) {
        return;
    }
    qp.resp.ack = {};
    for (RdResource& resource : qp.resp.rd) {
        resource.pending = false;
    }
    start_error(qp);
}

void QpServices::enter_error_after_nak(QueuePair& qp) {
    if (qp.state != PIB_HCA_QPS_ERR) {
        start_error(qp);
    }
}

void QpServices::fatal(QueuePair& qp) {
    if (!qp.fatal_reported) {
        qp.fatal_reported = true;
        event(PIB_HCA_EVENT_QP_FATAL, qp);
    }
    enter_error(qp);
}

void QpServices::fail_send(QueuePair& qp, const WqeError& error) {
    leave_memory(qp);
    complete_send(qp, error);
    if (qp.state == PIB_HCA_QPS_ERR) {
        return;
    }
    if (qp.is_reliable()) {
        enter_error(qp);
        return;
    }
    qp.state = PIB_HCA_QPS_SQE;
    qp.sq_draining = false;
    (void)refresh_send_queue(qp);
    schedule(qp);
}

bool QpServices::flush_one_send(QueuePair& qp) {
    if (!qp.window.empty()) {
        complete_send(qp, kFlushed);
        return true;
    }
    if (!qp.sq.present || qp.sq.ready() == 0) {
        return false;
    }
    // Not even looked at: the completion names it by its counter, an error's opcode means nothing.
    post_send_cqe(qp, qp.sq.consumer++, PIB_HCA_CQE_SEND, 0, kFlushed);
    return true;
}

bool QpServices::flush_one_recv(QueuePair& qp) {
    if (qp.state != PIB_HCA_QPS_ERR) {
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
    ReceiveReport report;
    report.error = kFlushed;
    complete_recv(qp, report);
    return true;
}

// A QP in Error takes no more WQEs of its SRQ, and has completed those it took (IBA 10.3.1.7).
void QpServices::report_last_wqe(QueuePair& qp) {
    const bool shares = qp.srq != 0 || qp.type == PIB_HCA_QP_XRC_TGT;
    if (shares && qp.state == PIB_HCA_QPS_ERR && !qp.last_wqe_reported) {
        qp.last_wqe_reported = true;
        event(PIB_HCA_EVENT_LAST_WQE_REACHED, qp);
    }
}

Turn QpServices::flush(QueuePair& qp, Budget& budget) {
    // Both queues are bounded by their depth: the guest cannot post while it does not run, and what
    // it posts meanwhile comes with a doorbell of its own.
    while (!budget.spent()) {
        const bool sent = flush_one_send(qp);
        const bool received = flush_one_recv(qp);
        if (!sent && !received) {
            qp.req.cursor_wqe = qp.sq.consumer;
            report_last_wqe(qp);
            return Turn::kIdle;
        }
        budget.charge(0);
    }
    return Turn::kMore;
}

// ---- page faults

bool QpServices::await_page(QueuePair& qp, QpHalf half) {
    const auto miss = mpt().take_miss();
    if (!miss) {
        return false;
    }
    PageWait& wait = qp.page_wait(half);
    if (std::exchange(wait.refused, false)) {
        return false;
    }
    if (!std::exchange(wait.waiting, true) && page_faults_.add(qp.qpn, half, *miss)) {
        parts_.eqs.async_event(PIB_HCA_EVENT_PAGE_FAULT, 0);
    }
    return true;
}

void QpServices::forget_page_faults(QueuePair& qp) {
    page_faults_.forget(qp.qpn);
    qp.send_page = qp.recv_page = {};
    qp.response_lost = qp.read_waits = false;
}

}  // namespace pib::hca
