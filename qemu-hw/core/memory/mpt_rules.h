// SPDX-License-Identifier: GPL-2.0-or-later
// Valid rights and combinations of rights, for regions, fast registrations and windows.
#pragma once

#include <cstdint>

#include "base/access.h"

namespace pib::hca {

constexpr uint32_t kRemoteAccess =
    access::kRemoteWrite | access::kRemoteRead | access::kRemoteAtomic | access::kFlushGlobal;
constexpr uint32_t kRegionAccess = access::kLocalWrite | access::kMwBind | kRemoteAccess;
// A window has remote rights only. Local write is accepted, because software may pass the same
// rights as for regions.
constexpr uint32_t kWindowAccess = access::kLocalWrite | access::kZeroBased | kRemoteAccess;

// Remote write and atomic need local write (IBA vol. 1, 11.2.8.2).
[[nodiscard]] constexpr bool writes_remotely(uint32_t access) {
    return (access & (access::kRemoteWrite | access::kRemoteAtomic)) != 0;
}
[[nodiscard]] constexpr bool rights_agree(uint32_t access) {
    return !writes_remotely(access) || (access & access::kLocalWrite) != 0;
}

// Whether the range is not empty and its last byte has a 64-bit address; it may end at 2^64.
[[nodiscard]] constexpr bool range_is_sane(uint64_t addr, uint64_t length) {
    return length != 0 && addr + (length - 1) >= addr;
}

}  // namespace pib::hca
