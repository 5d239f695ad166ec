// SPDX-License-Identifier: GPL-2.0-or-later
// The offers of a QP's memory (peer copy). Without peer copy the functions have no effect.
#pragma once

#include "qp/qp_services.h"

namespace pib::hca {

// Ends the offers of all requests before qp.req.una, which are acknowledged.
void acknowledge_offers(QpServices& services, QueuePair& qp);
// Revokes the offers of all requests, which will be sent again in packets.
void revoke_request_offers(QpServices& services, QueuePair& qp);
// Revokes all offers of the QP's memory. Call this before requests complete in error, and before
// the QP is reset or destroyed.
void revoke_offers(QpServices& services, QueuePair& qp);

}  // namespace pib::hca
