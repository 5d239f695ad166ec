// SPDX-License-Identifier: GPL-2.0-or-later
// The header of a QP's buffer (struct pib_hca_qp_header): producer counters and flags.
#pragma once

#include "base/host.h"
#include "qp/qp.h"

namespace pib::hca {

// Reads the producer counter from the QP header. Unless kOk, the queue's producer stays what it
// was.
QueueRead refresh_sq(Host& host, QueuePair& qp);
QueueRead refresh_rq(Host& host, QueuePair& qp);
// Writes pib_hca_qp_header.flags, visible to the guest before anything that is read afterwards.
void write_header_flags(Host& host, QueuePair& qp, uint32_t flags);

}  // namespace pib::hca
