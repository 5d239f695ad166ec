// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>

#include "memory/memory_region.h"

namespace pib::hca {

// Observer of added and removed memory (one_copy.h).
class MemoryWatch {
  public:
    virtual ~MemoryWatch() = default;
    // A region with a page list is usable from now on.
    virtual void region_comes(const MemoryRegion& region) = 0;
    // The region or window with this number is being destroyed. When the call returns, the switch
    // no longer accesses its memory.
    virtual void key_goes(uint32_t number) = 0;
    // The region's pages are no longer registered. Called after key_goes(), with the region still
    // unchanged.
    virtual void region_goes(const MemoryRegion& region) = 0;
    // All keys go.
    virtual void keys_cleared() = 0;
};

}  // namespace pib::hca
