// SPDX-License-Identifier: GPL-2.0-or-later
// The pages of a queue or region, as a command describes them: contiguous, or in a tree of tables.
#pragma once

#include <cstdint>

namespace pib::hca {

inline constexpr unsigned kMinLogPageSize = 12;
inline constexpr unsigned kMaxLogPageSize = 30;
inline constexpr unsigned kMaxTableLevels = 3;
inline constexpr unsigned kTableEntries = 512;

// levels 0: root is the bus address of page_count contiguous pages. levels 1: root is the address
// of a table page, 512 page addresses. levels 2 and 3: tables of tables. A table page has 4 KiB,
// holds little-endian addresses, and is read once, while the command or work request executes.
struct PageList {
    uint64_t root = 0;
    uint32_t page_count = 0;
    uint8_t levels = 0;
    uint8_t log_page_size = 0;
};

// Number of the smallest pages that cover the buffer of a queue, which begins on a page: the most
// pages that its list may have.
constexpr uint32_t pages_covering(uint64_t bytes) {
    constexpr uint64_t kPageBytes = 1u << kMinLogPageSize;
    return static_cast<uint32_t>((bytes + kPageBytes - 1) >> kMinLogPageSize);
}

}  // namespace pib::hca
