// SPDX-License-Identifier: GPL-2.0-or-later
// The states Error and SQE of a QP, and the flush of its queues there (IBA vol. 1, 10.3.1.6,
// 10.3.1.7); the end of a drain in SQD.
#pragma once

#include "qp/qp_services.h"

namespace pib::hca {

// Enters Error; later turns flush the queues.
void enter_error(QpServices& services, QueuePair& qp);
// Enters Error after a responder's NAK: earlier responses and the NAK itself are still sent.
void enter_error_after_nak(QpServices& services, QueuePair& qp);
// Enters Error for a reason that no completion can report: raises QP_FATAL, once.
void fatal(QpServices& services, QueuePair& qp);
// A CQ takes no more entries, which is fatal to every QP that completes to it (IBA 10.8.3).
void cq_failed(QpServices& services, uint32_t cqn);
// The oldest send request fails: SQE on unreliable QPs, else Error.
void fail_send(QpServices& services, QueuePair& qp, const WqeError& error);

// Flushes the queues that the state requires to be flushed, in order.
Turn flush_queues(QpServices& services, QueuePair& qp, Budget& budget);
// SQD: raises SQ_DRAINED once when all started requests have completed (IBA 10.3.1.5).
void report_drained(QpServices& services, QueuePair& qp);
// Reads the send producer; false if it is impossible, which is fatal to the QP.
bool refresh_send_queue(QpServices& services, QueuePair& qp);

}  // namespace pib::hca
