// SPDX-License-Identifier: GPL-2.0-or-later
// Converts the fields of a registration to a checked region.
#pragma once

#include <cstdint>

#include "base/host.h"
#include "base/verdict.h"
#include "memory/memory_region.h"
#include "memory/registration.h"

namespace pib::hca {

// Checks the fields that all kinds of regions share.
Verdict check_region(const Registration& in);
// Call after check_region(). Checks the other fields and reads the page list. `pages_left` bounds
// the listed pages.
CmdResult<MemoryRegion> load_region(Host& host, const Registration& in, uint64_t pages_left);

// The registration after REREG_MR: the fields in the mask from `in`, all others from the old
// region.
Registration merge(const MemoryRegion& region, const Reregistration& in);

// Number of pages of the region that count against the limit of all regions.
uint32_t kept_pages(const MemoryRegion& region);

}  // namespace pib::hca
