// SPDX-License-Identifier: GPL-2.0-or-later
// CREATE_QP: checks the command and makes the context.
#pragma once

#include "base/host.h"
#include "qp/qp.h"

namespace pib::hca {

// OK, BAD_PARAM, BAD_RESERVED or NOT_SUPPORTED; looks at nothing but the command.
CmdStatus check_create_qp(const pib_hca_create_qp& in, unsigned port_count);

// A QP in Reset, without a number. `pages_left` bounds the host memory that page lists take, and is
// reduced. BAD_MEMORY or another status of GuestBuffer::load(), NO_RESOURCES.
CmdResult<QueuePair> make_qp(Host& host, const pib_hca_create_qp& in, uint64_t& pages_left);

// Back to Reset: only values from CREATE_QP stay.
void reset_qp(Host& host, QueuePair& qp, SnapshotBudget& snapshots);

}  // namespace pib::hca
