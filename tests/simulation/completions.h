// SPDX-License-Identifier: GPL-2.0-or-later
// Checks completions against the model: each comes once, in order, after its work has been done,
// and an error only with a cause.
#pragma once

#include "flow.h"

namespace pib::simulation {

// Handles a completion of the requester's send queue.
void send_completed(Flow& flow, const pib_hca_cqe& cqe);
// Handles a completion of the responder's receive queue.
void receive_completed(Flow& flow, const pib_hca_cqe& cqe);
// Takes the remaining requests as succeeded, and fails if one was signalled. Call it when no packet
// is in flight.
void rest_completed(Flow& flow);
// Checks that the messages whose success the requester has seen were received. Call it when both
// CQs have been read.
void check_delivery(const Flow& flow);

}  // namespace pib::simulation
