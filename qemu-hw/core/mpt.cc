// SPDX-License-Identifier: GPL-2.0-or-later
#include "mpt.h"

#include <algorithm>
#include <utility>

#include "config.h"

namespace pib::hca {

namespace {

constexpr uint32_t kAllAccess = PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_WRITE |
                                PIB_HCA_ACCESS_REMOTE_READ | PIB_HCA_ACCESS_REMOTE_ATOMIC;
constexpr uint32_t kRemoteAccess = kAllAccess & ~uint32_t{PIB_HCA_ACCESS_LOCAL_WRITE};

// Keys that follow each other are easily guessed. A four-round Feistel network over the 24-bit
// index scatters them; both directions are a few instructions. It is no secret and replaces no
// R_Key check.
constexpr uint32_t kHalf = 0xfff;
constexpr uint32_t kRounds[] = {0x9e5, 0x3c7, 0xb1d, 0x64f};

constexpr uint32_t round_function(uint32_t half, uint32_t key) {
    const uint32_t x = (half + key) * 0x2545u;
    return (x ^ (x >> 7)) & kHalf;
}

constexpr uint32_t feistel(uint32_t index) {
    uint32_t left = index >> 12;
    uint32_t right = index & kHalf;
    for (const uint32_t key : kRounds) {
        left = std::exchange(right, left ^ round_function(right, key));
    }
    return left << 12 | right;
}

constexpr uint32_t unfeistel(uint32_t index) {
    uint32_t left = index >> 12;
    uint32_t right = index & kHalf;
    for (size_t i = std::size(kRounds); i > 0; --i) {
        right = std::exchange(left, right ^ round_function(left, kRounds[i - 1]));
    }
    return left << 12 | right;
}

// Index 0 stays 0, so that no region gets the privileged L_Key's index.
constexpr uint32_t scatter(uint32_t index) {
    return feistel(index) ^ feistel(0);
}
constexpr uint32_t gather(uint32_t index) {
    return unfeistel(index ^ feistel(0));
}
static_assert(scatter(0) == 0 && gather(scatter(1)) == 1 && gather(scatter(0x3ffff)) == 0x3ffff);
static_assert(Limits::kMrs < 1u << 24);

// The last byte is addressable: 2^64 itself is never reached.
bool range_is_sane(uint64_t addr, uint64_t length) {
    return length != 0 && addr + (length - 1) >= addr;
}

CmdStatus check_fields(const pib_hca_create_mr& in) {
    if ((in.access & ~kAllAccess) != 0 || (in.flags & ~uint32_t{PIB_HCA_MR_PHYSICAL}) != 0 ||
        in.reserved[0] != 0 || in.reserved[1] != 0) {
        return PIB_HCA_CMD_STATUS_BAD_RESERVED;
    }
    // IBA vol. 1, 11.2.8.2: remote write and atomic need local write.
    const bool remote_writes =
        (in.access & (PIB_HCA_ACCESS_REMOTE_WRITE | PIB_HCA_ACCESS_REMOTE_ATOMIC)) != 0;
    if ((remote_writes && (in.access & PIB_HCA_ACCESS_LOCAL_WRITE) == 0) ||
        !range_is_sane(in.iova, in.length)) {
        return PIB_HCA_CMD_STATUS_BAD_PARAM;
    }
    return PIB_HCA_CMD_STATUS_OK;
}

CmdStatus check_physical(const pib_hca_create_mr& in) {
    if (in.pages.reserved != 0) {
        return PIB_HCA_CMD_STATUS_BAD_RESERVED;
    }
    const bool empty = in.pages.root == 0 && in.pages.page_count == 0 && in.pages.levels == 0;
    return empty && in.page_offset == 0 ? PIB_HCA_CMD_STATUS_OK : PIB_HCA_CMD_STATUS_BAD_PARAM;
}

// page_offset is below the page size, and the region with it is no longer than any device MR.
bool offset_and_length_fit(const pib_hca_create_mr& in) {
    return in.pages.log_page_size <= PIB_HCA_MAX_LOG_PAGE_SIZE &&
           in.page_offset < uint64_t{1} << in.pages.log_page_size &&
           in.length <= Limits::kMaxMrBytes;
}

}  // namespace

Mpt::Mpt(Host& host, uint32_t max_regions, uint64_t max_total_pages)
    : host_(host),
      regions_(1, max_regions),
      max_total_pages_(max_total_pages),
      pages_left_(max_total_pages) {}

CmdResult<MemoryRegion> Mpt::load(const pib_hca_create_mr& in) {
    MemoryRegion region{.pd = in.pd,
                        .access = in.access,
                        .iova = in.iova,
                        .length = in.length,
                        .page_offset = in.page_offset,
                        .key = in.key,
                        .physical = (in.flags & PIB_HCA_MR_PHYSICAL) != 0,
                        .buffer = {}};
    if (region.physical) {
        if (const CmdStatus s = check_physical(in); s != PIB_HCA_CMD_STATUS_OK) {
            return std::unexpected(s);
        }
        return region;
    }
    if (!offset_and_length_fit(in)) {
        return std::unexpected(PIB_HCA_CMD_STATUS_BAD_PARAM);
    }
    const bool listed = in.pages.levels > 0;
    if (in.pages.page_count > Limits::kPagesPerMr ||
        (listed && in.pages.page_count > pages_left_)) {
        return std::unexpected(PIB_HCA_CMD_STATUS_NO_RESOURCES);
    }
    auto buffer =
        GuestBuffer::load(host_, in.pages, in.page_offset + in.length, Limits::kPagesPerMr);
    if (!buffer) {
        return std::unexpected(buffer.error());
    }
    region.buffer = std::move(*buffer);
    return region;
}

CmdResult<uint32_t> Mpt::create(const pib_hca_create_mr& in) {
    if (const CmdStatus s = check_fields(in); s != PIB_HCA_CMD_STATUS_OK) {
        return std::unexpected(s);
    }
    if (regions_.count() == regions_.capacity()) {
        return std::unexpected(PIB_HCA_CMD_STATUS_NO_RESOURCES);
    }
    auto region = load(in);
    if (!region) {
        return std::unexpected(region.error());
    }
    const uint32_t pages = region->buffer.listed_pages();
    const uint32_t number = regions_.insert(std::move(*region));
    pages_left_ -= pages;
    ++regions_of_pd_[in.pd];
    return scatter(number) << PIB_HCA_KEY_INDEX_SHIFT | in.key;
}

CmdStatus Mpt::destroy(uint32_t key) {
    const MemoryRegion* region = find(key);
    if (region == nullptr) {
        return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
    }
    pages_left_ += region->buffer.listed_pages();
    const auto users = regions_of_pd_.find(region->pd);
    if (--users->second == 0) {
        regions_of_pd_.erase(users);
    }
    regions_.erase(gather(key >> PIB_HCA_KEY_INDEX_SHIFT));
    return PIB_HCA_CMD_STATUS_OK;
}

void Mpt::clear() {
    regions_.clear();
    regions_of_pd_.clear();
    pages_left_ = max_total_pages_;
}

const MemoryRegion* Mpt::find(uint32_t key) const {
    const MemoryRegion* region = regions_.find(gather(key >> PIB_HCA_KEY_INDEX_SHIFT));
    return region != nullptr && region->key == (key & 0xff) ? region : nullptr;
}

bool Mpt::resolve(const KeyUser& user, const KeyedRange& range, Target& target) const {
    if (range.key == kPrivilegedLkey) {
        // It is an L_Key only: no packet names bus addresses with it.
        target = {nullptr, range.addr};
        return user.privileged && (range.access & kRemoteAccess) == 0 &&
               range_is_sane(range.addr, range.length);
    }
    const MemoryRegion* region = find(range.key);
    if (region == nullptr || region->pd != user.pd || (range.access & ~region->access) != 0) {
        return false;
    }
    const uint64_t offset = range.addr - region->iova;
    if (range.addr < region->iova || offset > region->length ||
        range.length > region->length - offset) {
        return false;
    }
    // Bus addresses need no translation: a kernel's DMA MR.
    target = region->physical ? Target{nullptr, range.addr}
                              : Target{region, region->page_offset + offset};
    return true;
}

bool Mpt::check(const KeyUser& user, const KeyedRange& range) const {
    Target target;
    return range.length == 0 || resolve(user, range, target);
}

bool Mpt::read(const KeyUser& user, const KeyedRange& range, std::span<uint8_t> to) {
    if (range.length == 0) {
        return to.empty();
    }
    Target target;
    if (to.size() != range.length || !resolve(user, range, target)) {
        return false;
    }
    return target.region != nullptr ? target.region->buffer.read(host_, target.offset, to)
                                    : host_.dma_read(target.offset, to);
}

bool Mpt::write(const KeyUser& user, const KeyedRange& range, std::span<const uint8_t> from) {
    if (range.length == 0) {
        return from.empty();
    }
    Target target;
    if (from.size() != range.length || !resolve(user, range, target)) {
        return false;
    }
    return target.region != nullptr ? target.region->buffer.write(host_, target.offset, from)
                                    : host_.dma_write(target.offset, from);
}

bool Mpt::cmpxchg64(const KeyUser& user, const KeyedRange& range, uint64_t& expected,
                    uint64_t desired) {
    Target target;
    if (range.length != 8 || !resolve(user, range, target)) {
        return false;
    }
    uint64_t bus_addr = target.offset;
    if (target.region != nullptr && !target.region->buffer.bus_address(target.offset, bus_addr)) {
        return false;
    }
    // An iova that is aligned may still lie unaligned in its pages: page_offset is the guest's.
    return bus_addr % 8 == 0 && host_.dma_cmpxchg64(bus_addr, expected, desired);
}

uint32_t Mpt::regions_of_pd(uint32_t pd) const {
    const auto users = regions_of_pd_.find(pd);
    return users == regions_of_pd_.end() ? 0 : users->second;
}

}  // namespace pib::hca
