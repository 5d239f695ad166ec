// SPDX-License-Identifier: GPL-2.0-or-later
// Receive WQEs for a QP, from its own queue or its shared one.
#pragma once

#include "qp/qp_services.h"

namespace pib::hca {

enum class [[nodiscard]] Fetch : uint8_t {
    kOk,
    kNone,   // the queue is empty
    kShort,  // the WQE has less room than asked for, and stays in the queue
    kBad,    // the WQE was completed in error, or the QP is in Error
};

// Copies and decodes the next receive WQE into qp.resp.recv. `bytes`: the room that it must have.
Fetch fetch_recv(QpServices& services, QueuePair& qp, uint32_t bytes = 0);
// Copies the WQE that fetch_recv() would take, and leaves it in its queue.
Fetch peek_recv(QpServices& services, QueuePair& qp);

}  // namespace pib::hca
