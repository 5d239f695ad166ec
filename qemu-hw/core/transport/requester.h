// SPDX-License-Identifier: GPL-2.0-or-later
// The requester of a connection (IBA vol. 1, 9.7.3, 9.7.5 and 9.8.2.1): turns send WQEs into
// request packets, and sends them again after rewind(). The requester's state is QueuePair::req.
#pragma once

#include "qp/qp_services.h"

namespace pib::hca::requester {

// RTR to RTS: sets the state of a requester that has sent nothing.
void start(QueuePair& qp);
// SQE to RTS, after the flush of the send queue: PSNs continue after the last PSN that was sent.
void resume(QueuePair& qp);

// Sends packets until no more may be sent, the budget is spent, or the port has no room.
Turn run(QpServices& services, QueuePair& qp, Budget& budget);

// Makes the requester send all packets from `una` on again.
void rewind(QpServices& services, QueuePair& qp);
void stop_timer(QpServices& services, QueuePair& qp);
// Restarts the timer of the Local ACK Timeout (IBA 9.7.6.1.3). Stops it if the timeout is 0 or all
// packets are acknowledged.
void restart_ack_timer(QpServices& services, QueuePair& qp);
void start_rnr_timer(QpServices& services, QueuePair& qp, uint64_t duration_ns);

}  // namespace pib::hca::requester
