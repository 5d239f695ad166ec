// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/completions.h"

#include <span>

#include "memory/peer_copy.h"
#include "qp/error_states.h"
#include "qp/qp_checks.h"

namespace pib::hca {
namespace {

void count_error(QpServices& services, const QueuePair& qp, const WqeError& error, bool is_send) {
    if (error.status == WcStatus::kSuccess) {
        return;
    }
    const bool flushed = error.status == WcStatus::kWrFlushErr;
    services.count(
        qp, is_send ? (flushed ? HcaCounter::kReqCqeFlushError : HcaCounter::kReqCqeError)
                    : (flushed ? HcaCounter::kRespCqeFlushError : HcaCounter::kRespCqeError));
}

void note_failure(QpServices& services, const QueuePair& qp, const WqeError& error, bool is_send,
                  uint32_t counter) {
    Journal* journal = services.parts().counters.journal;
    if (journal == nullptr || error.status == WcStatus::kSuccess) {
        return;
    }
    journal->failed(services.host().now_ns(), {.qpn = qp.qpn,
                                               .counter = counter,
                                               .send = is_send,
                                               .status = error.status,
                                               .broken = error.broken,
                                               .connected = qp.is_connected(),
                                               .port = qp.port(),
                                               .dlid = static_cast<uint16_t>(qp.attr.av.dlid),
                                               .dest_qpn = qp.attr.dest_qpn,
                                               .timeout = qp.attr.timeout,
                                               .retry_cnt = qp.attr.retry_cnt,
                                               .rnr_retry = qp.attr.rnr_retry});
}

bool is_receive(CompletionOpcode opcode) {
    return opcode == CompletionOpcode::kRecv || opcode == CompletionOpcode::kRecvRdmaWithImm;
}

void write(QpServices& services, QueuePair* qp, const HeldCompletion& next) {
    CqTable& cqs = services.parts().cqs;
    services.trace_done({.qpn = next.qpn,
                         .counter = next.completion.wqe_counter,
                         .cqn = next.cqn,
                         .status = static_cast<uint8_t>(next.completion.error.status),
                         .is_send = !is_receive(next.completion.opcode)});
    if (!cqs.post(next.cqn, next.completion, next.solicited, next.event_may_wait) &&
        qp != nullptr && !qp->reported.fatal) {
        cq_failed(services, next.cqn);
        fatal(services, *qp);  // cq_failed() misses XRC targets, which use the CQs of SRQs
    }
}

bool must_hold(QpServices& services) {
    return services.peer_copy() != nullptr &&
           (services.peer_copy()->is_busy() || !services.held_completions().empty());
}

void post(QpServices& services, QueuePair& qp, uint32_t cqn, const Completion& completion,
          bool solicited, bool event_may_wait = false) {
    const HeldCompletion next{.qpn = qp.qpn,
                              .cqn = cqn,
                              .completion = completion,
                              .solicited = solicited,
                              .event_may_wait = event_may_wait};
    if (must_hold(services)) [[unlikely]] {
        services.held_completions().push_back(next);
    } else {
        write(services, &qp, next);
    }
}

void post_send(QpServices& services, QueuePair& qp, uint32_t counter, CompletionOpcode opcode,
               uint32_t byte_count, const WqeError& error) {
    count_error(services, qp, error, true);
    note_failure(services, qp, error, true, counter);
    const Completion completion{.qpn = qp.qpn,
                                .wqe_counter = counter,
                                .byte_count = byte_count,
                                .opcode = opcode,
                                .error = error};
    // The event of an SMP's send completion may wait for the event of the response, which arrives
    // in some 50 us: two events would cost the guest two interrupts and two turns of its worker.
    // GSI completions do not wait: RMPP sends the next segments when earlier ones complete.
    const bool answer_follows = qp.type == QpType::kSmi;
    post(services, qp, qp.send_cq, completion, error.status != WcStatus::kSuccess, answer_follows);
}

}  // namespace

void complete_send(QpServices& services, QueuePair& qp, const WqeError& error) {
    const SendRequest& request = qp.window.front();
    const SendWqe& wqe = request.wqe;
    const uint32_t counter = request.counter;
    const bool signalled = qp.signal_all || (wqe.flags & send_flag::kSignaled) != 0;
    const bool failed = error.status != WcStatus::kSuccess;
    const uint32_t byte_count = !failed && wqe.fetches() ? wqe.data.length : 0;
    const CompletionOpcode opcode = completion_opcode(wqe.opcode);
    if (Strict* strict = services.strict(); strict != nullptr) [[unlikely]] {
        const std::span<const uint8_t> copy = qp.window.bytes_at(0);
        check_unchanged(services.host(), *strict, qp, qp.sq, counter, copy);
        keep_completed(qp, counter, copy);
        services.reg_lists()->completing(qp, request, services.mpt());
    }
    if (wqe.needs_response() && request.started) {
        --qp.req.rd_atomic_outstanding;
    }
    qp.window.pop();
    if (signalled || failed) {
        post_send(services, qp, counter, opcode, byte_count, error);
    } else {
        services.trace_done({.qpn = qp.qpn, .counter = counter});
    }
}

// The CQE names the WQE by its counter; the opcode of a CQE in error has no meaning.
void complete_uncopied_send(QpServices& services, QueuePair& qp, uint32_t counter,
                            const WqeError& error) {
    post_send(services, qp, counter, CompletionOpcode::kSend, 0, error);
}

void complete_local(QpServices& services, QueuePair& qp) {
    while (!qp.window.empty()) {
        const SendRequest& request = qp.window.front();
        if (!request.wqe.is_local() || !request.started || request.failed()) {
            return;
        }
        // A retry whose cursor is at this request goes on with the next request.
        qp.req.cursor_wqe += qp.req.cursor_wqe == request.counter ? 1 : 0;
        complete_send(services, qp, {});
    }
}

void complete_recv(QpServices& services, QueuePair& qp, Completion completion) {
    const ReceiveRequest& recv = qp.resp.recv;
    if (Strict* strict = services.strict(); strict != nullptr && recv.valid && recv.srqn == 0)
        [[unlikely]] {
        check_unchanged(services.host(), *strict, qp, qp.rq, recv.counter, recv.bytes);
    }
    qp.resp.recv.valid = false;
    count_error(services, qp, completion.error, false);
    note_failure(services, qp, completion.error, false, recv.counter);
    completion.qpn = qp.qpn;
    completion.wqe_counter = recv.counter;
    if (recv.srqn != 0) {
        completion.srqn = recv.srqn;
        completion.flags |= completion_flag::kSrq;
    }
    // IBA 11.4.2.2: an unsuccessful completion counts as solicited.
    const bool solicited = (completion.flags & completion_flag::kSolicited) != 0 ||
                           completion.error.status != WcStatus::kSuccess;
    post(services, qp, recv.cqn, completion, solicited);
}

void fail_recv(QpServices& services, QueuePair& qp, const WqeError& error) {
    complete_recv(services, qp, {.opcode = CompletionOpcode::kRecv, .error = error});
}

void release_completions(QpServices& services) {
    std::deque<HeldCompletion>& held = services.held_completions();
    services.qps().failed_cqs().collect();
    // A completion that finds its CQ full moves QPs to Error. This revokes their offers, and peer
    // copy may become busy again.
    while (!held.empty() && !services.peer_copy()->is_busy()) {
        const HeldCompletion next = held.front();
        held.pop_front();
        write(services, services.qps().find(next.qpn), next);
    }
    fail_qps_of_collected_cqs(services);
}

}  // namespace pib::hca
