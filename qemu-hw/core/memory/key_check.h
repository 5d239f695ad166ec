// SPDX-License-Identifier: GPL-2.0-or-later
// Checks of L_Keys and R_Keys: whether a user may access a range, and the memory of that range.
#pragma once

#include <cstdint>

#include "base/verdict.h"
#include "memory/key_table.h"

namespace pib::hca {

// IBA's Reserved L_Key, for bus addresses (QUERY_DEVICE:privileged_lkey). No region has index 0.
constexpr uint32_t kPrivilegedLkey = 0x000000ff;

// The user of a key: the QP's protection domain, whether the QP may use the privileged L_Key, and
// the QP itself, to which windows of type 2 are bound.
struct KeyUser {
    uint32_t pd;
    bool privileged;
    uint32_t qpn = UINT32_MAX;
};

// A range of a key's memory, and the access:: rights that the access needs (0: local read).
struct KeyedRange {
    uint32_t key;
    uint64_t addr;
    uint64_t length;
    uint32_t access;
};

// A checked range: the region and the offset in its pages. Without a region the offset is a bus
// address.
struct Target {
    const MemoryRegion* region = nullptr;
    uint64_t offset = 0;
};

// Sets `target` to the memory of the range. False: the user may not access the whole range.
[[nodiscard]] bool resolve(const KeyTable& keys, const KeyUser& user, const KeyedRange& range,
                           Target& target);
// Checks only that the region contains the range: no key, PD or rights.
[[nodiscard]] bool resolve_region(const MemoryRegion& region, const KeyedRange& range,
                                  Target& target);
// The rule, for authors of drivers, that a packet's failed access breaks. kKeyMemory: resolve()
// permits the access, so the memory behind the key has failed.
Verdict why_refused(const KeyTable& keys, const KeyUser& user, const KeyedRange& range);
// The range to check for a FLUSH: `range` or, if the FLUSH names the `whole` region or window of
// the key, its first byte. One byte is enough, because the rights are those of the key.
KeyedRange flush_range(const KeyTable& keys, const KeyedRange& range, bool whole);
// Whether a FLUSH with the rights in range.access may name the range or, with `whole`, the whole
// region or window of the key.
[[nodiscard]] bool may_flush(const KeyTable& keys, const KeyUser& user, const KeyedRange& range,
                             bool whole);

}  // namespace pib::hca
