// SPDX-License-Identifier: GPL-2.0-or-later
// On-demand regions: their translation is a tree of tables in guest memory that the guest changes
// while the region is in use. The device walks the tree at every access and caches none of it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/host.h"
#include "memory/page_list.h"

namespace pib::hca {

inline constexpr unsigned kMaxOnDemandLevels = 4;
// Bits of an entry of a table, below the bus address.
inline constexpr uint64_t kOnDemandRead = 1u << 0;   // the page, or a page of the table, is present
inline constexpr uint64_t kOnDemandWrite = 1u << 1;  // the page may be written

struct OnDemandTable {
    uint64_t root = 0;  // bus address of the top-level table
    uint8_t levels = 0;

    // Number of bytes that the tables can describe.
    uint64_t reach() const;
    // Bus address of the byte at `offset`. No value: its page is absent, or read-only with
    // `for_write`, or a table is not readable.
    [[nodiscard]] std::optional<uint64_t> walk(Host& host, uint64_t offset, bool for_write) const;
};

// An access that found a page absent.
struct PageMiss {
    uint32_t key;     // the region's key, even if the access used a window's
    uint64_t addr;    // first missing byte, in the region's address space
    uint64_t length;  // bytes that the access still needs from there on
    bool for_write;
};

}  // namespace pib::hca
