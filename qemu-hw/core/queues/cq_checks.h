// SPDX-License-Identifier: GPL-2.0-or-later
// Checks of a strict device in the memory of a completion queue.
#pragma once

#include <cstdint>

#include "base/host.h"
#include "queues/cq.h"
#include "strict/strict.h"

namespace pib::hca {

// Checks the buffer of a new or resized CQ before the device writes to it.
void check_new_cq(Strict& strict, uint32_t cqn, const CompletionQueue& cq);
// Checks the header before the device uses the CQ, and adopts a valid consumer counter.
void check_cq_header(Host& host, Strict& strict, uint32_t cqn, CompletionQueue& cq);
// Checks, before the device writes a CQE, that the driver has not written to its entry.
void check_cq_ring(Strict& strict, uint32_t cqn, const CompletionQueue& cq);

}  // namespace pib::hca
