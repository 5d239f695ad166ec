// SPDX-License-Identifier: GPL-2.0-or-later
// The responder of a connection (IBA vol. 1, 9.7.2, 9.7.4, 9.8.2.2): checks each request packet in
// the order of the specification, executes it, and owes an answer that is sent in the QP's next
// turn. One ACK answers all requests until then. Its state is QueuePair::resp.
#pragma once

#include "ib/wire/burst.h"
#include "ib/wire/placement.h"
#include "qp/qp_services.h"

namespace pib::hca::responder {

// INIT to RTR.
void start(QueuePair& qp);
// max_dest_rd_atomic has changed.
void resize_resources(QueuePair& qp);

// Request packets for a QP that can receive; address and P_Key are checked. Returns how many were
// taken: see PortClient::burst_in().
uint32_t request_in(QpServices& services, QueuePair& qp, const ib::Burst& burst,
                    ib::Placement& payload);
// Likewise for a UC QP.
uint32_t unreliable_in(QpServices& services, QueuePair& qp, const ib::Burst& burst,
                       ib::Placement& payload);

// Sends READ responses, atomic results, and then the ACK or NAK.
Turn run(QpServices& services, QueuePair& qp, Budget& budget);
// For a QP that is about to be reset or destroyed: sends the acknowledgement that it owes. The
// guest has seen the message complete, so the peer must not be left to time out.
void send_pending_ack(QpServices& services, QueuePair& qp);

}  // namespace pib::hca::responder
