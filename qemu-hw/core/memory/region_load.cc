// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/region_load.h"

#include <bit>
#include <utility>

#include "base/access.h"
#include "base/config.h"
#include "memory/mpt_rules.h"

namespace pib::hca {

namespace {

Verdict check_physical(const Registration& in) {
    const bool empty = in.pages.root == 0 && in.pages.page_count == 0 && in.pages.levels == 0;
    return empty && in.page_offset == 0 ? CmdStatus::kOk : refuse(Rule::kPhysicalPages, in.flags);
}

// CREATE_MR sets only PD, key byte and the largest number of pages; REG_MR sets the other fields.
Verdict check_fast(const Registration& in) {
    const bool empty = in.access == 0 && in.iova == 0 && in.length == 0 && in.page_offset == 0 &&
                       in.pages.root == 0 && in.pages.levels == 0 && in.pages.log_page_size == 0;
    const uint32_t pages = in.pages.page_count;
    if (!empty) {
        return refuse(Rule::kFastFields, in.flags);
    }
    if (pages == 0 || pages > Limits::kFastRegPages) {
        return refuse(Rule::kFastPages, pages, Limits::kFastRegPages);
    }
    return CmdStatus::kOk;
}

// The guest may change the tables at any time, so their contents are not checked here.
Verdict check_on_demand(const Registration& in) {
    const PageList& pages = in.pages;
    const bool sane = pages.page_count == 0 && pages.log_page_size == kMinLogPageSize &&
                      pages.levels >= 1 && pages.levels <= kMaxOnDemandLevels &&
                      pages.root % (kTableEntries * sizeof(uint64_t)) == 0 &&
                      in.page_offset < uint64_t{1} << kMinLogPageSize;
    if (!sane) {
        return refuse(Rule::kOnDemandPages, in.flags);
    }
    const uint64_t reach = OnDemandTable{.levels = pages.levels}.reach() - in.page_offset;
    return in.length <= reach ? CmdStatus::kOk : refuse(Rule::kOnDemandLength, in.length, reach);
}

// Bounds length and page_offset, so that their sum cannot overflow.
Verdict check_extent(const Registration& in) {
    if (in.length > Limits::kMaxMrBytes) {
        return refuse(Rule::kRegionLength, in.length, Limits::kMaxMrBytes);
    }
    if (in.pages.log_page_size > kMaxLogPageSize) {
        return refuse(Rule::kPagesLarge, in.pages.log_page_size, kMaxLogPageSize);
    }
    const uint64_t most = (uint64_t{1} << in.pages.log_page_size) - 1;
    return in.page_offset <= most ? CmdStatus::kOk
                                  : refuse(Rule::kRegionOffset, in.page_offset, most);
}

CmdResult<GuestBuffer> load_pages(Host& host, const Registration& in, uint64_t pages_left) {
    if (const Verdict verdict = check_extent(in); verdict != CmdStatus::kOk) {
        return std::unexpected(verdict);
    }
    const uint32_t pages = in.pages.page_count;
    if (pages > Limits::kPagesPerMr) {
        return std::unexpected(refuse(Rule::kRegionPages, pages, Limits::kPagesPerMr));
    }
    if (in.pages.levels > 0 && pages > pages_left) {
        return std::unexpected(refuse(Rule::kAllRegionPages, pages, pages_left));
    }
    return GuestBuffer::load(host, in.pages, in.page_offset + in.length, Limits::kPagesPerMr);
}

using Memory = decltype(MemoryRegion::memory);

CmdResult<Memory> checked(Verdict verdict, Memory memory) {
    return verdict == CmdStatus::kOk ? CmdResult<Memory>(std::move(memory))
                                     : std::unexpected(verdict);
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

Verdict check_region(const Registration& in) {
    constexpr uint32_t kFlags =
        region_flag::kPhysical | region_flag::kFast | region_flag::kOnDemand;
    if ((in.access & ~kRegionAccess) != 0) {
        return refuse(Rule::kRegionAccess, in.access, kRegionAccess);
    }
    if ((in.flags & ~kFlags) != 0) {
        return refuse(Rule::kRegionFlags, in.flags, kFlags);
    }
    if (std::popcount(in.flags) > 1) {
        return refuse(Rule::kRegionOneFlag, in.flags);
    }
    if ((in.flags & region_flag::kFast) != 0) {
        return CmdStatus::kOk;
    }
    if (!rights_agree(in.access)) {
        return refuse(Rule::kRegionRights, in.access);
    }
    if (in.length == 0) {
        return refuse(Rule::kRegionEmpty);
    }
    return range_is_sane(in.iova, in.length) ? CmdStatus::kOk
                                             : refuse(Rule::kRegionWraps, in.iova, in.length);
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
