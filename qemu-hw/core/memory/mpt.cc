// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/mpt.h"

#include <algorithm>
#include <utility>

#include "base/config.h"
#include "memory/mpt_rules.h"

namespace pib::hca {

namespace {

// Consecutive keys are easily guessed. A four-round Feistel network scrambles the 24-bit index;
// both directions are a few instructions. It is no secret and replaces no R_Key check.
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

// Pages that count against the limit of all regions.
uint32_t kept_pages(const MemoryRegion& region) {
    return region.fast ? region.fast_pages : region.buffer.listed_pages();
}

CmdStatus check_fields(const pib_hca_create_mr& in) {
    constexpr uint32_t kFlags = PIB_HCA_MR_PHYSICAL | PIB_HCA_MR_FAST | PIB_HCA_MR_ON_DEMAND;
    if ((in.access & ~kRegionAccess) != 0 || (in.flags & ~kFlags) != 0 || in.reserved[0] != 0 ||
        in.reserved[1] != 0) {
        return PIB_HCA_CMD_STATUS_BAD_RESERVED;
    }
    const bool fast = (in.flags & PIB_HCA_MR_FAST) != 0;
    return fast || (rights_agree(in.access) && range_is_sane(in.iova, in.length))
               ? PIB_HCA_CMD_STATUS_OK
               : PIB_HCA_CMD_STATUS_BAD_PARAM;
}

// The changed region: fields of the mask from `in`, all others from the old region.
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

CmdStatus check_physical(const pib_hca_create_mr& in) {
    if (in.pages.reserved != 0) {
        return PIB_HCA_CMD_STATUS_BAD_RESERVED;
    }
    const bool empty = in.pages.root == 0 && in.pages.page_count == 0 && in.pages.levels == 0;
    return empty && in.page_offset == 0 ? PIB_HCA_CMD_STATUS_OK : PIB_HCA_CMD_STATUS_BAD_PARAM;
}

// CREATE_MR sets only the limit of pages; REG_MR sets the rest.
CmdStatus check_fast(const pib_hca_create_mr& in) {
    if (in.pages.reserved != 0) {
        return PIB_HCA_CMD_STATUS_BAD_RESERVED;
    }
    const bool empty = in.access == 0 && in.iova == 0 && in.length == 0 && in.page_offset == 0 &&
                       in.pages.root == 0 && in.pages.levels == 0 && in.pages.log_page_size == 0;
    const bool physical = (in.flags & PIB_HCA_MR_PHYSICAL) != 0;
    const uint32_t pages = in.pages.page_count;
    return empty && !physical && pages != 0 && pages <= Limits::kFastRegPages
               ? PIB_HCA_CMD_STATUS_OK
               : PIB_HCA_CMD_STATUS_BAD_PARAM;
}

// The guest owns the tables and may change them, so only the root is checked.
CmdStatus check_on_demand(const pib_hca_create_mr& in) {
    if (in.pages.reserved != 0) {
        return PIB_HCA_CMD_STATUS_BAD_RESERVED;
    }
    const pib_hca_pages& pages = in.pages;
    const bool sane = in.flags == PIB_HCA_MR_ON_DEMAND && pages.page_count == 0 &&
                      pages.log_page_size == PIB_HCA_MIN_LOG_PAGE_SIZE && pages.levels >= 1 &&
                      pages.levels <= PIB_HCA_MAX_ON_DEMAND_LEVELS &&
                      pages.root % (PIB_HCA_TABLE_ENTRIES * sizeof(uint64_t)) == 0 &&
                      in.page_offset < uint64_t{1} << PIB_HCA_MIN_LOG_PAGE_SIZE;
    if (!sane) {
        return PIB_HCA_CMD_STATUS_BAD_PARAM;
    }
    const uint64_t reach = OnDemandTable{.levels = pages.levels}.reach() - in.page_offset;
    return in.length <= reach ? PIB_HCA_CMD_STATUS_OK : PIB_HCA_CMD_STATUS_BAD_PARAM;
}

// page_offset is below the page size, and the region with it is no longer than any device MR.
bool offset_and_length_fit(const pib_hca_create_mr& in) {
    return in.pages.log_page_size <= PIB_HCA_MAX_LOG_PAGE_SIZE &&
           in.page_offset < uint64_t{1} << in.pages.log_page_size &&
           in.length <= Limits::kMaxMrBytes;
}

}  // namespace

Mpt::Mpt(Host& host, uint32_t max_keys, uint64_t max_total_pages)
    : host_(host),
      keys_(1, max_keys),
      max_total_pages_(max_total_pages),
      pages_left_(max_total_pages) {}

uint32_t Mpt::number_of(uint32_t key) {
    return gather(key >> PIB_HCA_KEY_INDEX_SHIFT);
}

uint32_t Mpt::key_of(uint32_t number) {
    return scatter(number) << PIB_HCA_KEY_INDEX_SHIFT;
}

MemoryRegion* Mpt::region_at(uint32_t number) const {
    return std::get_if<MemoryRegion>(keys_.find(number));
}

MemoryWindow* Mpt::window_at(uint32_t number) const {
    return std::get_if<MemoryWindow>(keys_.find(number));
}

MemoryRegion* Mpt::find_region(uint32_t key) const {
    MemoryRegion* region = region_at(number_of(key));
    return region != nullptr && region->key == (key & 0xff) ? region : nullptr;
}

CmdResult<MemoryRegion> Mpt::load(const pib_hca_create_mr& in) {
    MemoryRegion region{.pd = in.pd,
                        .access = in.access,
                        .iova = in.iova,
                        .length = in.length,
                        .page_offset = in.page_offset,
                        .key = in.key,
                        .physical = (in.flags & PIB_HCA_MR_PHYSICAL) != 0,
                        .fast = (in.flags & PIB_HCA_MR_FAST) != 0,
                        .valid = (in.flags & PIB_HCA_MR_FAST) == 0,
                        .fast_pages = 0,
                        .windows = 0,
                        .on_demand = (in.flags & PIB_HCA_MR_ON_DEMAND) != 0,
                        .table = {},
                        .number = 0,
                        .buffer = {}};
    if (region.physical || region.fast) {
        const CmdStatus s = region.fast ? check_fast(in) : check_physical(in);
        if (s != PIB_HCA_CMD_STATUS_OK) {
            return std::unexpected(s);
        }
        region.fast_pages = region.fast ? in.pages.page_count : 0;
        return region;
    }
    if (region.on_demand) {
        const CmdStatus s = check_on_demand(in);
        if (s != PIB_HCA_CMD_STATUS_OK) {
            return std::unexpected(s);
        }
        region.table = {.root = in.pages.root, .levels = in.pages.levels};
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

CmdResult<uint32_t> Mpt::insert(MemoryKey entry, uint32_t pd, uint8_t key_byte) {
    const uint32_t number = keys_.insert(std::move(entry));
    ++keys_of_pd_[pd];
    return key_of(number) | key_byte;
}

void Mpt::leave_pd(uint32_t pd) {
    const auto users = keys_of_pd_.find(pd);
    if (--users->second == 0) {
        keys_of_pd_.erase(users);
    }
}

void Mpt::erase(uint32_t number, uint32_t pd) {
    leave_pd(pd);
    keys_.erase(number);
}

CmdResult<uint32_t> Mpt::create(const pib_hca_create_mr& in) {
    if (const CmdStatus s = check_fields(in); s != PIB_HCA_CMD_STATUS_OK) {
        return std::unexpected(s);
    }
    if (keys_.count() == keys_.capacity()) {
        return std::unexpected(PIB_HCA_CMD_STATUS_NO_RESOURCES);
    }
    auto region = load(in);
    if (!region) {
        return std::unexpected(region.error());
    }
    const uint32_t pages = kept_pages(*region);
    if (pages > pages_left_) {
        return std::unexpected(PIB_HCA_CMD_STATUS_NO_RESOURCES);
    }
    pages_left_ -= pages;
    const auto key = insert(std::move(*region), in.pd, in.key);
    MemoryRegion& placed = *region_at(number_of(*key));
    placed.number = number_of(*key);
    if (watch_ != nullptr) {
        watch_->region_comes(placed);
    }
    return key;
}

// IBA vol. 1, 11.2.8.5: with the mask's fields, like a new registration.
CmdResult<uint32_t> Mpt::reregister(uint32_t key, const pib_hca_rereg_mr& in) {
    MemoryRegion* region = find_region(key);
    if (region == nullptr) {
        return std::unexpected(PIB_HCA_CMD_STATUS_BAD_RESOURCE);
    }
    if (region->windows != 0) {
        return std::unexpected(PIB_HCA_CMD_STATUS_BUSY);
    }
    const pib_hca_create_mr merged = merge(*region, in);
    if (const CmdStatus s = check_fields(merged); s != PIB_HCA_CMD_STATUS_OK) {
        return std::unexpected(s);
    }
    if (region->fast || region->physical || region->on_demand) {
        return std::unexpected(PIB_HCA_CMD_STATUS_BAD_PARAM);
    }
    const bool moves = (in.mask & PIB_HCA_REREG_MR_TRANSLATION) != 0;
    auto loaded = moves ? load(merged) : CmdResult<MemoryRegion>();
    if (!loaded) {
        return std::unexpected(loaded.error());
    }
    region_goes(*region);
    if (moves) {
        pages_left_ += kept_pages(*region);
        pages_left_ -= kept_pages(*loaded);
        region->buffer = std::move(loaded->buffer);
    }
    leave_pd(region->pd);
    ++keys_of_pd_[merged.pd];
    region->pd = merged.pd;
    region->access = merged.access;
    region->iova = merged.iova;
    region->length = merged.length;
    region->page_offset = merged.page_offset;
    region->key = merged.key;
    if (watch_ != nullptr) {
        watch_->region_comes(*region);
    }
    return (key & ~0xffu) | merged.key;
}

CmdStatus Mpt::destroy(uint32_t key) {
    const uint32_t number = number_of(key);
    const MemoryRegion* region = region_at(number);
    // The last REG_MR sets the key byte of a fast region, and may not have executed.
    if (region == nullptr || (!region->fast && region->key != (key & 0xff))) {
        return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
    }
    // IBA vol. 1, 11.2.8.4.
    if (region->windows != 0) {
        return PIB_HCA_CMD_STATUS_BUSY;
    }
    region_goes(*region);
    pages_left_ += kept_pages(*region);
    erase(number, region->pd);
    return PIB_HCA_CMD_STATUS_OK;
}

void Mpt::region_goes(const MemoryRegion& region) {
    if (watch_ != nullptr) {
        watch_->key_goes(region.number);
        watch_->region_goes(region);
    }
}

void Mpt::clear() {
    if (watch_ != nullptr) {
        watch_->keys_cleared();
    }
    keys_.clear();
    keys_of_pd_.clear();
    windows_of_qp_.clear();
    pages_left_ = max_total_pages_;
}

bool Mpt::resolve(const KeyUser& user, const KeyedRange& range, Target& target) const {
    if (range.key == kPrivilegedLkey) {
        // It is an L_Key only: no packet names bus addresses with it.
        target = {nullptr, range.addr};
        return user.privileged && (range.access & kRemoteAccess) == 0 &&
               range_is_sane(range.addr, range.length);
    }
    const MemoryKey* entry = keys_.find(number_of(range.key));
    if (const auto* window = std::get_if<MemoryWindow>(entry)) {
        return resolve_window(*window, user, range, target);
    }
    const auto* region = std::get_if<MemoryRegion>(entry);
    return region != nullptr && region->valid && region->key == (range.key & 0xff) &&
           region->pd == user.pd && (range.access & ~region->access) == 0 &&
           resolve_region(*region, range, target);
}

bool Mpt::resolve_region(const MemoryRegion& region, const KeyedRange& range,
                         Target& target) const {
    const uint64_t offset = range.addr - region.iova;
    if (range.addr < region.iova || offset > region.length ||
        range.length > region.length - offset) {
        return false;
    }
    // Bus addresses need no translation: a kernel's DMA MR.
    target = region.physical ? Target{nullptr, range.addr}
                             : Target{&region, region.page_offset + offset};
    return true;
}

bool Mpt::check(const KeyUser& user, const KeyedRange& range) const {
    Target target;
    return range.length == 0 || resolve(user, range, target);
}

bool Mpt::may_flush(const KeyUser& user, const KeyedRange& range, bool whole) const {
    Target target;
    if (!whole) {
        return resolve(user, range, target);
    }
    // The first byte is checked for the whole region: rights belong to the key, not to bytes.
    const uint32_t number = number_of(range.key);
    KeyedRange first = range;
    first.length = 1;
    if (const MemoryRegion* region = region_at(number)) {
        first.addr = region->iova;
    } else if (const MemoryWindow* window = window_at(number)) {
        first.addr = (window->access & PIB_HCA_ACCESS_ZERO_BASED) != 0 ? 0 : window->addr;
    }
    return resolve(user, first, target);
}

std::optional<uint64_t> Mpt::demand(const Target& target, const KeyedRange& range, uint64_t done,
                                    bool for_write) {
    const MemoryRegion& region = *target.region;
    const uint64_t offset = target.offset + done;
    const auto bus_addr = region.table.walk(host_, offset, for_write);
    if (!bus_addr) {
        miss_ = {.key = key_of(region.number) | region.key,
                 .addr = region.iova + (offset - region.page_offset),
                 .length = range.length - done,
                 .for_write = for_write};
    }
    return bus_addr;
}

template <typename Piece>
bool Mpt::for_each_page(const Target& target, const KeyedRange& range, bool for_write,
                        Piece&& piece) {
    constexpr uint64_t kPage = uint64_t{1} << PIB_HCA_MIN_LOG_PAGE_SIZE;
    uint64_t done = 0;
    while (done < range.length) {
        const auto bus_addr = demand(target, range, done, for_write);
        const uint64_t n = std::min(kPage - (target.offset + done) % kPage, range.length - done);
        if (!bus_addr || !piece(*bus_addr, done, n)) {
            return false;
        }
        done += n;
    }
    return true;
}

bool Mpt::read(const KeyUser& user, const KeyedRange& range, std::span<uint8_t> to) {
    miss_.reset();
    if (range.length == 0) {
        return to.empty();
    }
    Target target;
    if (to.size() != range.length || !resolve(user, range, target)) {
        return false;
    }
    if (target.region != nullptr && target.region->on_demand) {
        return for_each_page(target, range, false, [&](uint64_t bus, uint64_t at, uint64_t n) {
            return host_.dma_read(bus, to.subspan(at, n));
        });
    }
    return target.region != nullptr ? target.region->buffer.read(host_, target.offset, to)
                                    : host_.dma_read(target.offset, to);
}

bool Mpt::write(const KeyUser& user, const KeyedRange& range, std::span<const uint8_t> from) {
    miss_.reset();
    if (range.length == 0) {
        return from.empty();
    }
    Target target;
    if (from.size() != range.length || !resolve(user, range, target)) {
        return false;
    }
    if (target.region != nullptr && target.region->on_demand) {
        return for_each_page(target, range, true, [&](uint64_t bus, uint64_t at, uint64_t n) {
            return host_.dma_write(bus, from.subspan(at, n));
        });
    }
    return target.region != nullptr ? target.region->buffer.write(host_, target.offset, from)
                                    : host_.dma_write(target.offset, from);
}

bool Mpt::locate(const KeyUser& user, const KeyedRange& range, Located& out) const {
    if (range.length == 0) {
        return true;
    }
    Target target;
    const uint32_t number = number_of(range.key);
    if (!resolve(user, range, target) || !out.keys.add(number)) {
        return false;
    }
    if (const MemoryWindow* window = window_at(number)) {
        if (!out.keys.add(window->region)) {
            return false;
        }
    }
    const auto piece = [&](uint8_t* at, uint64_t bus_addr, uint64_t n) {
        if (at != nullptr) {
            out.append({at, bus_addr, n});
        }
        return at != nullptr;
    };
    if (target.region == nullptr) {
        out.by_bus_address = true;
        return piece(host_.ram(target.offset, range.length), target.offset, range.length);
    }
    return !target.region->on_demand &&
           target.region->buffer.for_each_piece(host_, target.offset, range.length, piece);
}

bool Mpt::cmpxchg64(const KeyUser& user, const KeyedRange& range, uint64_t& expected,
                    uint64_t desired) {
    miss_.reset();
    Target target;
    if (range.length != 8 || !resolve(user, range, target)) {
        return false;
    }
    uint64_t bus_addr = target.offset;
    if (target.region != nullptr && target.region->on_demand) {
        const auto demanded = demand(target, range, 0, true);
        if (!demanded) {
            return false;
        }
        bus_addr = *demanded;
    } else if (target.region != nullptr &&
               !target.region->buffer.bus_address(target.offset, bus_addr)) {
        return false;
    }
    // An aligned iova may be unaligned in its pages, because the guest chooses page_offset.
    return bus_addr % 8 == 0 && host_.dma_cmpxchg64(bus_addr, expected, desired);
}

uint32_t Mpt::keys_of_pd(uint32_t pd) const {
    const auto users = keys_of_pd_.find(pd);
    return users == keys_of_pd_.end() ? 0 : users->second;
}

}  // namespace pib::hca
