// SPDX-License-Identifier: GPL-2.0-or-later
// The sampling attributes of the performance management agent (IBA 16.1.3.2 to 16.1.3.4); separate
// from perf_counters.cc because only they depend on time.
#pragma once

#include <cstdint>

#include "ib/mgmt/perf_counters.h"

namespace pib::ib {

// Each function fills the attribute area of `reply`, which starts as a copy of `request`. The
// result is a MAD status.
uint16_t answer_samples_control(const PmaNode& node, const Mad& request, uint64_t now_ns,
                                Mad& reply);
// PortSamplesResult and PortSamplesResultExtended.
uint16_t answer_samples_result(const PmaNode& node, const Mad& request, uint64_t now_ns,
                               Mad& reply);

}  // namespace pib::ib
