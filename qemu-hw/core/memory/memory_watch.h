// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>

#include "memory/memory_region.h"

namespace pib::hca {

// Observer of added and removed memory (peer_copy.h).
class MemoryWatch {
  public:
    virtual ~MemoryWatch() = default;
    // The region is usable from now on.
    virtual void region_added(const MemoryRegion& region) = 0;
    // Revokes the switch's access to the memory of a region or window. Called before the object is
    // destroyed, changed or invalidated. The access has ended when PeerCopy::is_busy() is false.
    virtual void key_revoked(uint32_t number) = 0;
    // The region's pages are no longer registered. Called after key_revoked(), with the region
    // still unchanged.
    virtual void region_removed(const MemoryRegion& region) = 0;
    // All keys have been destroyed.
    virtual void keys_cleared() = 0;
};

}  // namespace pib::hca
