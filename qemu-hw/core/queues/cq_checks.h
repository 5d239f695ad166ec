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
// Counts a doorbell that arms the CQ with this counter. `missed`: it asks for an event that is due.
void check_cq_arming(Strict& strict, uint32_t cqn, CompletionQueue& cq, uint32_t counter,
                     bool missed);
// The consumer counter in guest memory; cq.producer if the memory is not accessible.
uint32_t consumer_in_memory(Host& host, const CompletionQueue& cq);
// Checks, before the device writes a CQE, that the driver has not written to its entry.
void check_cq_ring(Strict& strict, uint32_t cqn, const CompletionQueue& cq);

}  // namespace pib::hca
