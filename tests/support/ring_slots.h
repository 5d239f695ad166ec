// SPDX-License-Identifier: GPL-2.0-or-later
// Entries of rings whose depth is a power of two.
#pragma once

#include <cstdint>

#include "pib_hca_hw.h"

namespace pib::hca::test {

// Whether the owner bit shows that the device has written the entry at `counter` in this pass.
inline bool owned(uint8_t owner, uint32_t counter, uint32_t log_depth) {
    const uint8_t expected = (counter >> log_depth & 1) == 0 ? PIB_HCA_OWNER_BIT : 0;
    return (owner & PIB_HCA_OWNER_BIT) == expected;
}

inline uint32_t slot(uint32_t counter, uint32_t log_depth) {
    return counter & ((1u << log_depth) - 1);
}

}  // namespace pib::hca::test
