// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <cstdint>

#include "pib_hca_hw.h"
#include "trace.h"

namespace pib::hca {

// Events since reset, by enum pib_hca_counter; QUERY_COUNTERS returns them as they are. And the
// device's trace, which everything that counts can write to; nullptr: nothing is traced.
struct Counters {
    std::array<uint64_t, PIB_HCA_COUNTER_COUNT> values{};
    Trace* trace = nullptr;
    void add(pib_hca_counter counter, uint64_t n = 1) { values[counter] += n; }
};

}  // namespace pib::hca
