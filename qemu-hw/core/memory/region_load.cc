// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/region_load.h"

#include <bit>
#include <utility>

#include "base/access.h"
#include "base/config.h"
#include "memory/mpt_rules.h"

namespace pib::hca {

namespace {

CmdStatus check_physical(const Registration& in) {
    const bool empty = in.pages.root == 0 && in.pages.page_count == 0 && in.pages.levels == 0;
    return empty && in.page_offset == 0 ? CmdStatus::kOk : CmdStatus::kBadParam;
}

// CREATE_MR sets only the maximum number of pages; REG_MR sets the rest.
CmdStatus check_fast(const Registration& in) {
    const bool empty = in.access == 0 && in.iova == 0 && in.length == 0 && in.page_offset == 0 &&
                       in.pages.root == 0 && in.pages.levels == 0 && in.pages.log_page_size == 0;
    const uint32_t pages = in.pages.page_count;
    return empty && pages != 0 && pages <= Limits::kFastRegPages ? CmdStatus::kOk
                                                                 : CmdStatus::kBadParam;
}

// The guest owns the tables and may change them at any time, so only the root is checked here.
CmdStatus check_on_demand(const Registration& in) {
    const PageList& pages = in.pages;
    const bool sane = pages.page_count == 0 && pages.log_page_size == kMinLogPageSize &&
                      pages.levels >= 1 && pages.levels <= kMaxOnDemandLevels &&
                      pages.root % (kTableEntries * sizeof(uint64_t)) == 0 &&
                      in.page_offset < uint64_t{1} << kMinLogPageSize;
    if (!sane) {
        return CmdStatus::kBadParam;
    }
    const uint64_t reach = OnDemandTable{.levels = pages.levels}.reach() - in.page_offset;
    return in.length <= reach ? CmdStatus::kOk : CmdStatus::kBadParam;
}

// page_offset is less than the page size, so the sum does not exceed the longest device MR.
bool offset_and_length_fit(const Registration& in) {
    return in.pages.log_page_size <= kMaxLogPageSize &&
           in.page_offset < uint64_t{1} << in.pages.log_page_size &&
           in.length <= Limits::kMaxMrBytes;
}

CmdResult<GuestBuffer> load_pages(Host& host, const Registration& in, uint64_t pages_left) {
    if (!offset_and_length_fit(in)) {
        return std::unexpected(CmdStatus::kBadParam);
    }
    const bool listed = in.pages.levels > 0;
    if (in.pages.page_count > Limits::kPagesPerMr || (listed && in.pages.page_count > pages_left)) {
        return std::unexpected(CmdStatus::kNoResources);
    }
    return GuestBuffer::load(host, in.pages, in.page_offset + in.length, Limits::kPagesPerMr);
}

using Memory = decltype(MemoryRegion::memory);

CmdResult<Memory> checked(CmdStatus status, Memory memory) {
    return status == CmdStatus::kOk ? CmdResult<Memory>(std::move(memory))
                                    : std::unexpected(status);
}

CmdResult<Memory> load_memory(Host& host, const Registration& in, uint64_t pages_left) {
    switch (in.flags) {
        case region_flag::kPhysical:
            return checked(check_physical(in), PhysicalMemory{});
        case region_flag::kFast:
            return checked(check_fast(in),
                           FastMemory{.max_pages = in.pages.page_count, .pages = {}});
        case region_flag::kOnDemand:
            return checked(check_on_demand(in),
                           OnDemandTable{.root = in.pages.root, .levels = in.pages.levels});
        default:
            return load_pages(host, in, pages_left);
    }
}

}  // namespace

CmdStatus check_region(const Registration& in) {
    constexpr uint32_t kFlags =
        region_flag::kPhysical | region_flag::kFast | region_flag::kOnDemand;
    if ((in.access & ~kRegionAccess) != 0 || (in.flags & ~kFlags) != 0) {
        return CmdStatus::kBadReserved;
    }
    if (std::popcount(in.flags) > 1) {
        return CmdStatus::kBadParam;
    }
    const bool fast = (in.flags & region_flag::kFast) != 0;
    return fast || (rights_agree(in.access) && range_is_sane(in.iova, in.length))
               ? CmdStatus::kOk
               : CmdStatus::kBadParam;
}

CmdResult<MemoryRegion> load_region(Host& host, const Registration& in, uint64_t pages_left) {
    auto memory = load_memory(host, in, pages_left);
    if (!memory) {
        return std::unexpected(memory.error());
    }
    return MemoryRegion{.pd = in.pd,
                        .access = in.access,
                        .iova = in.iova,
                        .length = in.length,
                        .page_offset = in.page_offset,
                        .key = in.key,
                        .memory = std::move(*memory)};
}

Registration merge(const MemoryRegion& region, const Reregistration& in) {
    Registration merged = in.mr;
    if ((in.mask & rereg_mask::kTranslation) == 0) {
        merged.iova = region.iova;
        merged.length = region.length;
        merged.page_offset = region.page_offset;
    }
    if ((in.mask & rereg_mask::kPd) == 0) {
        merged.pd = region.pd;
    }
    if ((in.mask & rereg_mask::kAccess) == 0) {
        merged.access = region.access;
    }
    return merged;
}

uint32_t kept_pages(const MemoryRegion& region) {
    if (const FastMemory* fast = region.fast()) {
        return fast->max_pages;
    }
    const GuestBuffer* pages = region.pages();
    return pages != nullptr ? pages->listed_pages() : 0;
}

}  // namespace pib::hca
