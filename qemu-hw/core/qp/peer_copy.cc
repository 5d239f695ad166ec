// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/peer_copy.h"

#include "memory/one_copy.h"

namespace pib::hca {

void acknowledge_references(QpServices& services, QueuePair& qp) {
    if (qp.req.references) [[unlikely]] {
        qp.req.references = services.one_copy()->acknowledged(qp.qpn, qp.req.una);
    }
}

void forget_references(QpServices& services, QueuePair& qp) {
    if (qp.req.references) [[unlikely]] {
        services.one_copy()->forget_requests(qp.qpn);
        qp.req.references = false;
    }
}

void leave_memory(QpServices& services, QueuePair& qp) {
    if (services.one_copy() != nullptr) [[unlikely]] {
        services.one_copy()->qp_goes(qp.qpn);
        qp.req.references = false;
    }
}

}  // namespace pib::hca
