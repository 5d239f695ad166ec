// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/mpt.h"

#include "base/config.h"
#include "memory/mpt_rules.h"
#include "memory/region_load.h"
#include "memory/translation.h"

namespace pib::hca {

namespace {

void comes(MemoryWatch* watch, const MemoryRegion& region) {
    if (watch != nullptr) {
        watch->region_added(region);
    }
}

void goes(MemoryWatch* watch, const MemoryRegion& region) {
    if (watch != nullptr) {
        watch->key_revoked(region.number);
        watch->region_removed(region);
    }
}

// A work request may invalidate a region that is Free already. A peer may invalidate only a region
// that is not Free and has remote rights.
bool may_invalidate(const MemoryRegion& region, const KeyUser& user, uint32_t key, bool remote) {
    const bool named = region.fast() != nullptr && region.pd == user.pd &&
                       region.key == (key & 0xff) && region.windows == 0;
    return named && (!remote || (!region.is_free() && (region.access & kRemoteAccess) != 0));
}

}  // namespace

Mpt::Mpt(Host& host, uint32_t max_keys, uint64_t max_total_pages, NumberChoice choice)
    : host_(host),
      keys_(max_keys, choice),
      max_total_pages_(max_total_pages),
      pages_left_(max_total_pages) {}

CmdResult<uint32_t> Mpt::create(const Registration& in) {
    if (const Verdict s = check_region(in); s != CmdStatus::kOk) {
        return std::unexpected(s);
    }
    if (keys_.is_full()) {
        return std::unexpected(refuse(Rule::kObjectLimit, 0, keys_.capacity()));
    }
    auto region = load_region(host_, in, pages_left_);
    if (!region) {
        return std::unexpected(region.error());
    }
    const uint32_t pages = kept_pages(*region);
    if (pages > pages_left_) {
        return std::unexpected(refuse(Rule::kAllRegionPages, pages, pages_left_));
    }
    pages_left_ -= pages;
    const uint32_t number = keys_.insert(std::move(*region), in.pd);
    comes(watch_, *keys_.region(number));
    return KeyTable::key_of(number) | in.key;
}

// IBA vol. 1, 11.2.8.5. Checks the region with the changed fields like a new registration.
CmdResult<uint32_t> Mpt::reregister(uint32_t key, const Reregistration& in) {
    MemoryRegion* region = keys_.region_with(key);
    if (region == nullptr) {
        return std::unexpected(refuse(Rule::kNoRegion, key));
    }
    if (region->windows != 0) {
        return std::unexpected(refuse(Rule::kRegionBusy, key, region->windows));
    }
    const Registration merged = merge(*region, in);
    if (const Verdict s = check_region(merged); s != CmdStatus::kOk) {
        return std::unexpected(s);
    }
    if (!std::holds_alternative<GuestBuffer>(region->memory)) {
        return std::unexpected(refuse(Rule::kReregKind, key));
    }
    const bool moves = (in.mask & rereg_mask::kTranslation) != 0;
    auto loaded = moves ? load_region(host_, merged, pages_left_) : CmdResult<MemoryRegion>();
    if (!loaded) {
        return std::unexpected(loaded.error());
    }
    goes(watch_, *region);
    if (moves) {
        pages_left_ += kept_pages(*region);
        pages_left_ -= kept_pages(*loaded);
        region->memory = std::move(loaded->memory);
    }
    keys_.move(region->pd, merged.pd);
    region->pd = merged.pd;
    region->access = merged.access;
    region->iova = merged.iova;
    region->length = merged.length;
    region->page_offset = merged.page_offset;
    region->key = merged.key;
    comes(watch_, *region);
    return (key & ~0xffu) | merged.key;
}

Verdict Mpt::destroy(uint32_t key) {
    const uint32_t number = KeyTable::number_of(key);
    const MemoryRegion* region = keys_.region(number);
    // Any key byte names a fast region, because the last REG_MR, which sets it, may not have
    // executed.
    if (region == nullptr || (region->fast() == nullptr && region->key != (key & 0xff))) {
        return refuse(Rule::kNoRegion, key);
    }
    // A region cannot be destroyed while windows are bound to it (IBA vol. 1, 11.2.8.4).
    if (region->windows != 0) {
        return refuse(Rule::kRegionBusy, key, region->windows);
    }
    goes(watch_, *region);
    pages_left_ += kept_pages(*region);
    keys_.erase(number, region->pd);
    return CmdStatus::kOk;
}

void Mpt::clear() {
    if (watch_ != nullptr) {
        watch_->keys_cleared();
    }
    keys_.clear();
    windows_.clear();
    pages_left_ = max_total_pages_;
}

// ---- work requests on keys

bool Mpt::fast_register(const KeyUser& user, const FastRegistration& in) {
    MemoryRegion* region = keys_.region(KeyTable::number_of(in.key));
    // IBA 10.6.4.1: only a region in the Free state takes a new registration.
    if (region == nullptr || !region->is_free() || region->pd != user.pd || !user.privileged ||
        (in.access & ~kRegionAccess) != 0 || !rights_agree(in.access) ||
        !range_is_sane(in.iova, in.length) || in.length > Limits::kMaxMrBytes ||
        in.pages.log_page_size > kMaxLogPageSize ||
        in.page_offset >= uint64_t{1} << in.pages.log_page_size) {
        return false;
    }
    auto buffer = GuestBuffer::load(host_, in.pages, in.page_offset + in.length,
                                    region->fast()->max_pages, GuestBuffer::Proof::kNone);
    if (!buffer) {
        return false;
    }
    region->access = in.access;
    region->iova = in.iova;
    region->length = in.length;
    region->page_offset = in.page_offset;
    region->key = static_cast<uint8_t>(in.key & 0xff);
    region->fast()->pages = std::move(*buffer);
    comes(watch_, *region);
    return true;
}

bool Mpt::invalidate(const KeyUser& user, uint32_t key, bool remote) {
    const uint32_t number = KeyTable::number_of(key);
    MemoryRegion* region = keys_.region(number);
    if (region == nullptr) {
        return windows_.invalidate(number, user, static_cast<uint8_t>(key & 0xff), remote);
    }
    if (!may_invalidate(*region, user, key, remote)) {
        return false;
    }
    if (!region->is_free()) {
        goes(watch_, *region);
    }
    region->fast()->pages.reset();
    return true;
}

// ---- accesses

bool Mpt::check(const KeyUser& user, const KeyedRange& range) const {
    Target target;
    return range.length == 0 || resolve(keys_, user, range, target);
}

bool Mpt::read(const KeyUser& user, const KeyedRange& range, std::span<uint8_t> to) {
    miss_.reset();
    if (range.length == 0) {
        return to.empty();
    }
    Target target;
    return to.size() == range.length && resolve(keys_, user, range, target) &&
           MemoryAccess{host_, target, range, miss_}.read(to);
}

bool Mpt::write(const KeyUser& user, const KeyedRange& range, std::span<const uint8_t> from) {
    miss_.reset();
    if (range.length == 0) {
        return from.empty();
    }
    Target target;
    return from.size() == range.length && resolve(keys_, user, range, target) &&
           MemoryAccess{host_, target, range, miss_}.write(from);
}

bool Mpt::locate(const KeyUser& user, const KeyedRange& range, SgList& out) const {
    if (range.length == 0) {
        return true;
    }
    Target target;
    const uint32_t number = KeyTable::number_of(range.key);
    if (!resolve(keys_, user, range, target) || !out.keys.add(number)) {
        return false;
    }
    const MemoryWindow* window = keys_.window(number);
    return (window == nullptr || out.keys.add(window->region)) &&
           hca::locate(host_, target, range, out);
}

bool Mpt::cmpxchg64(const KeyUser& user, const KeyedRange& range, uint64_t& expected,
                    uint64_t desired) {
    miss_.reset();
    Target target;
    return range.length == 8 && resolve(keys_, user, range, target) &&
           MemoryAccess{host_, target, range, miss_}.cmpxchg64(expected, desired);
}

}  // namespace pib::hca
