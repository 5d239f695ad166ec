// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/completions.h"

#include "qp/error_states.h"

namespace pib::hca {
namespace {

void count_error(QpServices& services, const QueuePair& qp, const WqeError& error, bool is_send) {
    if (error.status == PIB_HCA_WC_SUCCESS) {
        return;
    }
    const bool flushed = error.status == PIB_HCA_WC_WR_FLUSH_ERR;
    services.count(
        qp,
        is_send
            ? (flushed ? PIB_HCA_COUNTER_REQ_CQE_FLUSH_ERROR : PIB_HCA_COUNTER_REQ_CQE_ERROR)
            : (flushed ? PIB_HCA_COUNTER_RESP_CQE_FLUSH_ERROR : PIB_HCA_COUNTER_RESP_CQE_ERROR));
}

void post(QpServices& services, QueuePair& qp, uint32_t cqn, const pib_hca_cqe& cqe, bool solicited,
          bool patient = false) {
    if (!services.parts().cqs.post(cqn, cqe, solicited, patient) && !qp.fatal_reported) {
        cq_failed(services, cqn);
        fatal(services, qp);  // an XRC target completes to the CQs of its domain's SRQs
    }
}

void post_send(QpServices& services, QueuePair& qp, uint32_t counter, uint8_t opcode,
               uint32_t byte_count, const WqeError& error) {
    count_error(services, qp, error, true);
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
    post(services, qp, qp.send_cq, cqe, error.status != PIB_HCA_WC_SUCCESS, answer_follows);
}

}  // namespace

void complete_send(QpServices& services, QueuePair& qp, const WqeError& error) {
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
        post_send(services, qp, counter, opcode, byte_count, error);
    }
}

// The CQE names the WQE by its counter; the opcode of an error means nothing.
void complete_uncopied_send(QpServices& services, QueuePair& qp, uint32_t counter,
                            const WqeError& error) {
    post_send(services, qp, counter, PIB_HCA_CQE_SEND, 0, error);
}

void complete_local(QpServices& services, QueuePair& qp) {
    while (!qp.window.empty()) {
        const SendRequest& request = qp.window.front();
        if (!request.wqe.is_local() || !request.started || request.failed()) {
            return;
        }
        // A retry that has not reached this request skips it.
        qp.req.cursor_wqe += qp.req.cursor_wqe == request.counter ? 1 : 0;
        complete_send(services, qp, {PIB_HCA_WC_SUCCESS, VendorError::kNone});
    }
}

void complete_recv(QpServices& services, QueuePair& qp, const ReceiveReport& report) {
    qp.resp.recv.valid = false;
    count_error(services, qp, report.error, false);
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
    post(services, qp, qp.resp.recv.cqn, cqe,
         report.solicited || report.error.status != PIB_HCA_WC_SUCCESS);
}

}  // namespace pib::hca
