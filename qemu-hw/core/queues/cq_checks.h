// SPDX-License-Identifier: GPL-2.0-or-later
// Checks of a strict device in the memory of a completion queue.
#pragma once

#include <cstdint>

#include "base/host.h"
#include "queues/cq.h"
#include "strict/strict.h"

namespace pib::hca {

// A CQ has a buffer to which the device has not written yet.
void check_new_cq(Strict& strict, uint32_t cqn, const CompletionQueue& cq);
// The device is about to use the CQ; takes over a consumer that is possible.
void check_cq_header(Host& host, Strict& strict, uint32_t cqn, CompletionQueue& cq);

}  // namespace pib::hca
