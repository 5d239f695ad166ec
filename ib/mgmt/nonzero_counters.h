// SPDX-License-Identifier: GPL-2.0-or-later
// A value for each counter of a port. Most values are 0, so only the others are stored.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ib/mgmt/counter_set.h"

namespace pib::ib {

class NonzeroCounters {
  public:
    [[nodiscard]] uint64_t operator[](Counter counter) const {
        const auto index = static_cast<size_t>(counter);
        return has(index) ? values_[place(index)] : 0;
    }
    void set(Counter counter, uint64_t value);

    bool operator==(const NonzeroCounters&) const = default;

  private:
    static constexpr size_t kBits = 64;

    [[nodiscard]] bool has(size_t index) const {
        return (stored_[index / kBits] >> index % kBits & 1) != 0;
    }
    // Index in values_ of this counter's value; if it is not stored, the index to insert it at.
    [[nodiscard]] size_t place(size_t index) const;

    // Bit n: values_ has a value of the counter with index n.
    std::array<uint64_t, (kCounterCount + kBits - 1) / kBits> stored_{};
    std::vector<uint64_t> values_;  // in the order of the counters
};

}  // namespace pib::ib
