// SPDX-License-Identifier: GPL-2.0-or-later
// On-demand regions: their translation is a tree of tables in guest memory that the guest changes
// while the region is in use. The device walks it at every access and caches no part of it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/host.h"
#include "pib_hca_hw.h"

namespace pib::hca {

struct OnDemandTable {
    uint64_t root = 0;  // bus address of the uppermost table
    uint8_t levels = 0;

    // Bytes that the tables can describe.
    uint64_t reach() const;
    // Bus address of the byte at `offset`; no value when its page is absent, may not be written
    // although `for_write`, or a table cannot be read.
    std::optional<uint64_t> walk(Host& host, uint64_t offset, bool for_write) const;
};

// An access by key that found a page absent.
struct PageMiss {
    uint32_t key;     // as used
    uint64_t addr;    // in the region's address space: the first byte that is missing
    uint64_t length;  // bytes that the access still needs from there on
    bool for_write;
};

}  // namespace pib::hca
