// SPDX-License-Identifier: GPL-2.0-or-later
// Access to the guest memory of a checked range.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "memory/key_check.h"
#include "memory/sg_list.h"

namespace pib::hca {

// An access to a checked range. Its functions return false if a part is not RAM, or if a page is
// absent, which they record in `miss`; then a prefix may have been copied.
struct MemoryAccess {
    Host& host;
    const Target& target;
    const KeyedRange& range;
    std::optional<PageMiss>& miss;

    [[nodiscard]] bool read(std::span<uint8_t> to);
    [[nodiscard]] bool write(std::span<const uint8_t> from);
    // Does the same as Host::dma_cmpxchg64(); also false if the bus address is not a multiple of 8.
    [[nodiscard]] bool cmpxchg64(uint64_t& expected, uint64_t desired);
};

// Appends the location of the range to `out`. False: a part has no lasting host address; a prefix
// may have been appended.
[[nodiscard]] bool locate(Host& host, const Target& target, const KeyedRange& range, SgList& out);

}  // namespace pib::hca
