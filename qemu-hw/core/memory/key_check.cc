// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/key_check.h"

#include <algorithm>
#include <variant>

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

// The rule that an access breaks: it leaves the key's range or, if not, the memory behind the key
// has failed.
Verdict why_out_of_range(uint64_t first, uint64_t bytes, const KeyedRange& range) {
    if (range.addr < first) {
        return refuse(Rule::kKeyBefore, range.addr, first);
    }
    const uint64_t left = bytes - std::min(bytes, range.addr - first);
    return range.length > left ? refuse(Rule::kKeyBeyond, range.length, left)
                               : refuse(Rule::kKeyMemory);
}

// Checks that regions and windows have in common. `first`: the first address of the key's range.
template <typename Object>
Verdict why_object_refused(const Object& object, const KeyUser& user, const KeyedRange& range,
                           uint64_t first) {
    if (object.key != (range.key & 0xff)) {
        return refuse(Rule::kKeyByte, range.key, (range.key & ~0xffu) | object.key);
    }
    if (object.pd != user.pd) {
        return refuse(Rule::kKeyPd, user.pd, object.pd);
    }
    if ((range.access & ~object.access) != 0) {
        return refuse(Rule::kKeyRights, range.access, object.access);
    }
    return why_out_of_range(first, object.length, range);
}

Verdict why_window_refused(const MemoryWindow& window, const KeyUser& user,
                           const KeyedRange& range) {
    if (!window.bound) {
        return refuse(Rule::kKeyFree, range.key);
    }
    if (window.key == (range.key & 0xff) && window.pd == user.pd && window.type == kWindowType2 &&
        window.qpn != user.qpn) {
        return refuse(Rule::kKeyQp, user.qpn, window.qpn);
    }
    const bool zero_based = (window.access & access::kZeroBased) != 0;
    return why_object_refused(window, user, range, zero_based ? 0 : window.addr);
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

KeyedRange flush_range(const KeyTable& keys, const KeyedRange& range, bool whole) {
    if (!whole) {
        return range;
    }
    const uint32_t number = KeyTable::number_of(range.key);
    KeyedRange first = range;
    first.length = 1;
    if (const MemoryRegion* region = keys.region(number)) {
        first.addr = region->iova;
    } else if (const MemoryWindow* window = keys.window(number)) {
        first.addr = (window->access & access::kZeroBased) != 0 ? 0 : window->addr;
    }
    return first;
}

bool may_flush(const KeyTable& keys, const KeyUser& user, const KeyedRange& range, bool whole) {
    Target target;
    return resolve(keys, user, flush_range(keys, range, whole), target);
}

Verdict why_refused(const KeyTable& keys, const KeyUser& user, const KeyedRange& range) {
    const MemoryKey* entry =
        range.key == kPrivilegedLkey ? nullptr : keys.find(KeyTable::number_of(range.key));
    if (entry == nullptr) {
        return refuse(Rule::kKeyUnknown, range.key);
    }
    if (const auto* window = std::get_if<MemoryWindow>(entry)) {
        return why_window_refused(*window, user, range);
    }
    const MemoryRegion& region = std::get<MemoryRegion>(*entry);
    return region.is_free() ? refuse(Rule::kKeyFree, range.key)
                            : why_object_refused(region, user, range, region.iova);
}

}  // namespace pib::hca
