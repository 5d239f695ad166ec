// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/qp_offers.h"

#include "memory/peer_copy.h"

namespace pib::hca {

void acknowledge_offers(QpServices& services, QueuePair& qp) {
    if (qp.req.offers) [[unlikely]] {
        qp.req.offers = services.peer_copy()->acknowledged(qp.qpn, qp.req.una);
    }
}

void revoke_request_offers(QpServices& services, QueuePair& qp) {
    if (qp.req.offers) [[unlikely]] {
        services.peer_copy()->revoke_requests(qp.qpn);
        qp.req.offers = false;
    }
}

void revoke_offers(QpServices& services, QueuePair& qp) {
    if (services.peer_copy() != nullptr) [[unlikely]] {
        services.peer_copy()->revoke_qp(qp.qpn);
        qp.req.offers = false;
    }
}

}  // namespace pib::hca
