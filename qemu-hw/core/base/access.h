// SPDX-License-Identifier: GPL-2.0-or-later
// Access rights to memory (IBA vol. 1, 10.6.3), as bits. The register interface has the same bits
// (commands/interface_numbers.cc).
#pragma once

#include <cstdint>

namespace pib::hca::access {

inline constexpr uint32_t kLocalWrite = 1u << 0;
inline constexpr uint32_t kRemoteWrite = 1u << 1;
inline constexpr uint32_t kRemoteRead = 1u << 2;
inline constexpr uint32_t kRemoteAtomic = 1u << 3;
inline constexpr uint32_t kMwBind = 1u << 4;     // windows may be bound to the region
inline constexpr uint32_t kZeroBased = 1u << 5;  // addresses count from the window's first byte
inline constexpr uint32_t kFlushGlobal = 1u << 8;
inline constexpr uint32_t kFlushPersistent = 1u << 9;

}  // namespace pib::hca::access
