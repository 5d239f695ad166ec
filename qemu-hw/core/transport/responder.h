// SPDX-License-Identifier: GPL-2.0-or-later
// The responder of a connection (IBA vol. 1, 9.7.2, 9.7.4, 9.8.2.2): checks each request packet in
// the order of the specification, executes it, and notes an answer that is sent in the QP's next
// turn. One ACK answers all requests until then. The responder's state is QueuePair::resp.
#pragma once

#include "ib/wire/burst.h"
#include "ib/wire/placement.h"
#include "qp/qp_services.h"

namespace pib::hca::responder {

// INIT to RTR: sets the state of a responder that has received nothing.
void start(QueuePair& qp);
// Sets the number of responder resources to max_dest_rd_atomic, and keeps the newest ones. Keeps
// more of them if a response that has not been sent would be lost otherwise.
void resize_resources(QueuePair& qp);

// Takes request packets for an RC or XRC QP that can receive. The caller has checked address and
// P_Key. Returns how many packets were taken, as PortClient::burst_in().
uint32_t request_in(QpServices& services, QueuePair& qp, const ib::Burst& burst,
                    ib::Placement& payload);
// The same as request_in(), for a UC QP.
uint32_t unreliable_in(QpServices& services, QueuePair& qp, const ib::Burst& burst,
                       ib::Placement& payload);

// Sends READ responses, atomic results, and then the ACK or NAK.
Turn run(QpServices& services, QueuePair& qp, Budget& budget);
// For a QP that is about to enter Reset or Error, or to be destroyed: sends the pending ACK. The
// guest may have seen the message complete, so the peer's request must not time out.
void send_pending_ack(QpServices& services, QueuePair& qp);

}  // namespace pib::hca::responder
