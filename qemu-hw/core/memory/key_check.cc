// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/key_check.h"

#include "base/access.h"
#include "memory/mpt_rules.h"
#include "memory/registration.h"

namespace pib::hca {

namespace {

// Only packets may use windows. An access without a remote right comes from a local WQE, so the key
// is refused.
bool resolve_window(const KeyTable& keys, const MemoryWindow& window, const KeyUser& user,
                    const KeyedRange& range, Target& target) {
    if (!window.bound || window.key != (range.key & 0xff) || window.pd != user.pd ||
        (window.type == kWindowType2 && window.qpn != user.qpn) ||
        (range.access & kRemoteAccess) == 0 || (range.access & ~window.access) != 0) {
        return false;
    }
    const bool zero_based = (window.access & access::kZeroBased) != 0;
    const uint64_t offset = zero_based ? range.addr : range.addr - window.addr;
    if ((!zero_based && range.addr < window.addr) || offset > window.length ||
        range.length > window.length - offset) {
        return false;
    }
    KeyedRange within = range;
    within.addr = window.addr + offset;
    const MemoryRegion* region = keys.region(window.region);
    return region != nullptr && resolve_region(*region, within, target);
}

}  // namespace

bool resolve(const KeyTable& keys, const KeyUser& user, const KeyedRange& range, Target& target) {
    if (range.key == kPrivilegedLkey) {
        // The privileged L_Key is not an R_Key: packets cannot use it.
        target = {nullptr, range.addr};
        return user.privileged && (range.access & kRemoteAccess) == 0 &&
               range_is_sane(range.addr, range.length);
    }
    const MemoryKey* entry = keys.find(KeyTable::number_of(range.key));
    if (const auto* window = std::get_if<MemoryWindow>(entry)) {
        return resolve_window(keys, *window, user, range, target);
    }
    const auto* region = std::get_if<MemoryRegion>(entry);
    return region != nullptr && !region->is_free() && region->key == (range.key & 0xff) &&
           region->pd == user.pd && (range.access & ~region->access) == 0 &&
           resolve_region(*region, range, target);
}

bool resolve_region(const MemoryRegion& region, const KeyedRange& range, Target& target) {
    const uint64_t offset = range.addr - region.iova;
    if (range.addr < region.iova || offset > region.length ||
        range.length > region.length - offset) {
        return false;
    }
    // A physical region (the DMA MR of a kernel) has bus addresses, which need no translation.
    target = region.is_physical() ? Target{nullptr, range.addr}
                                  : Target{&region, region.page_offset + offset};
    return true;
}

bool may_flush(const KeyTable& keys, const KeyUser& user, const KeyedRange& range, bool whole) {
    Target target;
    if (!whole) {
        return resolve(keys, user, range, target);
    }
    // Rights belong to the key, so a check of the first byte is a check of the whole region.
    const uint32_t number = KeyTable::number_of(range.key);
    KeyedRange first = range;
    first.length = 1;
    if (const MemoryRegion* region = keys.region(number)) {
        first.addr = region->iova;
    } else if (const MemoryWindow* window = keys.window(number)) {
        first.addr = (window->access & access::kZeroBased) != 0 ? 0 : window->addr;
    }
    return resolve(keys, user, first, target);
}

}  // namespace pib::hca
