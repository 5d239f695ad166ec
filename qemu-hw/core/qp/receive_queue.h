// SPDX-License-Identifier: GPL-2.0-or-later
// Takes receive WQEs for a QP from the QP's own queue or from an SRQ.
#pragma once

#include "qp/qp_services.h"

namespace pib::hca {

enum class [[nodiscard]] Fetch : uint8_t {
    kOk,
    kNone,   // the queue is empty
    kShort,  // the WQE has too little room, and stays in the queue
    kBad,    // the WQE was completed in error, or the QP is in Error
};

// Takes the next receive WQE from its queue and decodes it into qp.resp.recv. kShort: the segments
// of the WQE have room for less than `bytes`.
Fetch fetch_recv(QpServices& services, QueuePair& qp, uint32_t bytes = 0);
// Copies the next receive WQE to qp.resp.recv, as fetch_recv() does, and leaves it in its queue.
Fetch peek_recv(QpServices& services, QueuePair& qp);

}  // namespace pib::hca
