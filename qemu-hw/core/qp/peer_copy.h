// SPDX-License-Identifier: GPL-2.0-or-later
// Peer copy as a QP uses it: references to the memory of its requests. Without peer copy none of
// these does anything.
#pragma once

#include "qp/qp_services.h"

namespace pib::hca {

// All requests before qp.req.una are acknowledged: their references end.
void acknowledge_references(QpServices& services, QueuePair& qp);
// All references to requests end: they are sent again, with their payload.
void forget_references(QpServices& services, QueuePair& qp);
// Revokes all references to the QP's memory, before its completions are written.
void leave_memory(QpServices& services, QueuePair& qp);

}  // namespace pib::hca
