// SPDX-License-Identifier: GPL-2.0-or-later
// The states Error and SQE of a QP, the flush of the QP's queues in these states (IBA vol. 1,
// 10.3.1.6, 10.3.1.7), and the end of a drain in SQD.
#pragma once

#include "qp/qp_services.h"

namespace pib::hca {

// Enters Error; later turns flush the queues.
void enter_error(QpServices& services, QueuePair& qp);
// Enters Error after a responder's NAK: earlier responses and the NAK itself are still sent.
void enter_error_after_nak(QpServices& services, QueuePair& qp);
// Enters Error for a reason that no completion can report, and raises QP_FATAL, at most once until
// the QP is reset.
void fatal(QpServices& services, QueuePair& qp);
// Call this when a CQ takes no more entries: calls fatal() for every QP whose send or receive CQ it
// is, except QPs in Reset (IBA 10.8.3). While QpTable::failed_cqs() collects, only collects the CQ.
void cq_failed(QpServices& services, uint32_t cqn);
// Ends FailedCqs::collect(): does for the collected CQs what cq_failed() does, in one search.
void fail_qps_of_collected_cqs(QpServices& services);
// Completes the oldest send request in error. An unreliable QP enters SQE, a reliable one Error.
void fail_send(QpServices& services, QueuePair& qp, const WqeError& error);

// Flushes the send queue, and in Error also the receive queue, each from its oldest WQE on.
Turn flush_queues(QpServices& services, QueuePair& qp, Budget& budget);
// In SQD, ends the drain when all requests in the send window have completed, and then raises
// SQ_DRAINED if the attribute en_sqd_async_notify is set (IBA 10.3.1.5).
void report_drained(QpServices& services, QueuePair& qp);
// Reads the send queue's producer counter. False: the counter has an impossible value or cannot be
// read, and the function has called fatal().
[[nodiscard]] bool refresh_send_queue(QpServices& services, QueuePair& qp);

}  // namespace pib::hca
