// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <cstdint>

#include "base/trace.h"
#include "pib_hca_hw.h"

namespace pib::hca {

// Counts events since reset by enum pib_hca_counter, for each port. Parts that count also find the
// device's trace here; nullptr: no trace.
struct Counters {
    using Row = std::array<uint64_t, PIB_HCA_COUNTER_COUNT>;
    static constexpr unsigned kNoPort = 0;  // row of counters that belong to no port

    std::array<Row, PIB_HCA_MAX_PORTS + 1> rows{};
    Trace* trace = nullptr;

    // port: 1 ..., or kNoPort.
    void add(pib_hca_counter counter, unsigned port, uint64_t n = 1) { rows[port][counter] += n; }
    // Counters of the whole device.
    uint64_t total(pib_hca_counter counter) const;
    Row totals() const;
};

inline uint64_t Counters::total(pib_hca_counter counter) const {
    uint64_t sum = 0;
    for (const Row& row : rows) {
        sum += row[counter];
    }
    return sum;
}

inline Counters::Row Counters::totals() const {
    Row sums{};
    for (unsigned i = 0; i < sums.size(); ++i) {
        sums[i] = total(static_cast<pib_hca_counter>(i));
    }
    return sums;
}

}  // namespace pib::hca
