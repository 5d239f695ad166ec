// SPDX-License-Identifier: GPL-2.0-or-later
// Accesses to the guest memory behind a checked range.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "memory/key_check.h"
#include "memory/located.h"

namespace pib::hca {

// One access. False: not RAM, or an absent page, which `miss` then describes; a prefix may have
// been copied.
struct Access {
    Host& host;
    const Target& target;
    const KeyedRange& range;
    std::optional<PageMiss>& miss;

    bool read(std::span<uint8_t> to);
    bool write(std::span<const uint8_t> from);
    // As Host::dma_cmpxchg64.
    bool cmpxchg64(uint64_t& expected, uint64_t desired);
};

// Adds the location of the range to `out`. False: a part has no lasting host address; then a prefix
// may have been added.
bool locate(Host& host, const Target& target, const KeyedRange& range, Located& out);

}  // namespace pib::hca
