// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/region_load.h"

#include <bit>
#include <utility>

#include "base/config.h"
#include "memory/mpt_rules.h"

namespace pib::hca {

namespace {

CmdStatus check_physical(const pib_hca_create_mr& in) {
    if (in.pages.reserved != 0) {
        return PIB_HCA_CMD_STATUS_BAD_RESERVED;
    }
    const bool empty = in.pages.root == 0 && in.pages.page_count == 0 && in.pages.levels == 0;
    return empty && in.page_offset == 0 ? PIB_HCA_CMD_STATUS_OK : PIB_HCA_CMD_STATUS_BAD_PARAM;
}

// CREATE_MR sets only the maximum number of pages; REG_MR sets the rest.
CmdStatus check_fast(const pib_hca_create_mr& in) {
    if (in.pages.reserved != 0) {
        return PIB_HCA_CMD_STATUS_BAD_RESERVED;
    }
    const bool empty = in.access == 0 && in.iova == 0 && in.length == 0 && in.page_offset == 0 &&
                       in.pages.root == 0 && in.pages.levels == 0 && in.pages.log_page_size == 0;
    const uint32_t pages = in.pages.page_count;
    return empty && pages != 0 && pages <= Limits::kFastRegPages ? PIB_HCA_CMD_STATUS_OK
                                                                 : PIB_HCA_CMD_STATUS_BAD_PARAM;
}

// The guest owns the tables and may change them at any time, so only the root is checked here.
CmdStatus check_on_demand(const pib_hca_create_mr& in) {
    if (in.pages.reserved != 0) {
        return PIB_HCA_CMD_STATUS_BAD_RESERVED;
    }
    const pib_hca_pages& pages = in.pages;
    const bool sane = pages.page_count == 0 && pages.log_page_size == PIB_HCA_MIN_LOG_PAGE_SIZE &&
                      pages.levels >= 1 && pages.levels <= PIB_HCA_MAX_ON_DEMAND_LEVELS &&
                      pages.root % (PIB_HCA_TABLE_ENTRIES * sizeof(uint64_t)) == 0 &&
                      in.page_offset < uint64_t{1} << PIB_HCA_MIN_LOG_PAGE_SIZE;
    if (!sane) {
        return PIB_HCA_CMD_STATUS_BAD_PARAM;
    }
    const uint64_t reach = OnDemandTable{.levels = pages.levels}.reach() - in.page_offset;
    return in.length <= reach ? PIB_HCA_CMD_STATUS_OK : PIB_HCA_CMD_STATUS_BAD_PARAM;
}

// page_offset is less than the page size, so the sum does not exceed the longest device MR.
bool offset_and_length_fit(const pib_hca_create_mr& in) {
    return in.pages.log_page_size <= PIB_HCA_MAX_LOG_PAGE_SIZE &&
           in.page_offset < uint64_t{1} << in.pages.log_page_size &&
           in.length <= Limits::kMaxMrBytes;
}

CmdResult<GuestBuffer> load_pages(Host& host, const pib_hca_create_mr& in, uint64_t pages_left) {
    if (!offset_and_length_fit(in)) {
        return std::unexpected(PIB_HCA_CMD_STATUS_BAD_PARAM);
    }
    const bool listed = in.pages.levels > 0;
    if (in.pages.page_count > Limits::kPagesPerMr || (listed && in.pages.page_count > pages_left)) {
        return std::unexpected(PIB_HCA_CMD_STATUS_NO_RESOURCES);
    }
    return GuestBuffer::load(host, in.pages, in.page_offset + in.length, Limits::kPagesPerMr);
}

using Memory = decltype(MemoryRegion::memory);

CmdResult<Memory> checked(CmdStatus status, Memory memory) {
    return status == PIB_HCA_CMD_STATUS_OK ? CmdResult<Memory>(std::move(memory))
                                           : std::unexpected(status);
}

CmdResult<Memory> load_memory(Host& host, const pib_hca_create_mr& in, uint64_t pages_left) {
    switch (in.flags) {
        case PIB_HCA_MR_PHYSICAL:
            return checked(check_physical(in), PhysicalMemory{});
        case PIB_HCA_MR_FAST:
            return checked(check_fast(in),
                           FastMemory{.max_pages = in.pages.page_count, .pages = {}});
        case PIB_HCA_MR_ON_DEMAND:
            return checked(check_on_demand(in),
                           OnDemandTable{.root = in.pages.root, .levels = in.pages.levels});
        default:
            return load_pages(host, in, pages_left);
    }
}

}  // namespace

CmdStatus check_region(const pib_hca_create_mr& in) {
    constexpr uint32_t kFlags = PIB_HCA_MR_PHYSICAL | PIB_HCA_MR_FAST | PIB_HCA_MR_ON_DEMAND;
    if ((in.access & ~kRegionAccess) != 0 || (in.flags & ~kFlags) != 0 || in.reserved[0] != 0 ||
        in.reserved[1] != 0) {
        return PIB_HCA_CMD_STATUS_BAD_RESERVED;
    }
    if (std::popcount(in.flags) > 1) {
        return PIB_HCA_CMD_STATUS_BAD_PARAM;
    }
    const bool fast = (in.flags & PIB_HCA_MR_FAST) != 0;
    return fast || (rights_agree(in.access) && range_is_sane(in.iova, in.length))
               ? PIB_HCA_CMD_STATUS_OK
               : PIB_HCA_CMD_STATUS_BAD_PARAM;
}

CmdResult<MemoryRegion> load_region(Host& host, const pib_hca_create_mr& in, uint64_t pages_left) {
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

pib_hca_create_mr merge(const MemoryRegion& region, const pib_hca_rereg_mr& in) {
    pib_hca_create_mr merged = in.mr;
    if ((in.mask & PIB_HCA_REREG_MR_TRANSLATION) == 0) {
        merged.iova = region.iova;
        merged.length = region.length;
        merged.page_offset = region.page_offset;
    }
    if ((in.mask & PIB_HCA_REREG_MR_PD) == 0) {
        merged.pd = region.pd;
    }
    if ((in.mask & PIB_HCA_REREG_MR_ACCESS) == 0) {
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
