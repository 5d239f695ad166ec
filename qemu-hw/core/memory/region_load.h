// SPDX-License-Identifier: GPL-2.0-or-later
// Checks the fields of a registration and makes a region from them.
#pragma once

#include <cstdint>

#include "base/host.h"
#include "base/verdict.h"
#include "memory/memory_region.h"
#include "memory/registration.h"

namespace pib::hca {

// Checks the access rights and flags, and the address range unless the region is fast.
Verdict check_region(const Registration& in);
// Checks the other fields and reads the page list. `pages_left` bounds the listed pages. Call this
// after check_region().
CmdResult<MemoryRegion> load_region(Host& host, const Registration& in, uint64_t pages_left);

// The registration after REREG_MR: the key and the fields in the mask are those of `in`, all others
// those of the old region.
Registration merge(const MemoryRegion& region, const Reregistration& in);

// Number of pages of the region that count against the limit of all regions.
uint32_t kept_pages(const MemoryRegion& region);

}  // namespace pib::hca
