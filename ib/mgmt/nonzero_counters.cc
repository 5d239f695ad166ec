// SPDX-License-Identifier: GPL-2.0-or-later
#include "ib/mgmt/nonzero_counters.h"

#include <bit>

namespace pib::ib {

size_t NonzeroCounters::place(size_t index) const {
    const uint64_t below = (uint64_t{1} << index % kBits) - 1;
    int found = std::popcount(stored_[index / kBits] & below);
    for (size_t i = 0; i < index / kBits; ++i) {
        found += std::popcount(stored_[i]);
    }
    return static_cast<size_t>(found);
}

void NonzeroCounters::set(Counter counter, uint64_t value) {
    const auto index = static_cast<size_t>(counter);
    const auto at = values_.begin() + static_cast<ptrdiff_t>(place(index));
    if (has(index) && value != 0) {
        *at = value;
    } else if (has(index) != (value != 0)) {
        if (value != 0) {
            values_.insert(at, value);
        } else {
            values_.erase(at);
        }
        stored_[index / kBits] ^= uint64_t{1} << index % kBits;
    }
}

}  // namespace pib::ib
