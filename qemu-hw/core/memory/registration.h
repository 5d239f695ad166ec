// SPDX-License-Identifier: GPL-2.0-or-later
// Parameters of the verbs that register memory and bind windows (IBA vol. 1, 11.2.8, 11.4.1.1).
#pragma once

#include <cstdint>

#include "memory/page_list.h"

namespace pib::hca {

// Bits of a key: the index is in 31:8, the key byte in 7:0.
inline constexpr unsigned kKeyIndexShift = 8;

namespace region_flag {
inline constexpr uint8_t kPhysical = 1u << 0;  // addresses are bus addresses
inline constexpr uint8_t kFast = 1u << 1;      // in the Free state until a fast registration
inline constexpr uint8_t kOnDemand = 1u << 2;  // `pages` are tables that software changes
}  // namespace region_flag

struct Registration {
    uint32_t pd = 0;
    uint32_t access = 0;  // access::k...
    uint64_t iova = 0;    // address of the first byte in WQEs and packets
    uint64_t length = 0;
    PageList pages;
    uint32_t page_offset = 0;  // offset of the first byte in the first page
    uint8_t key = 0;           // low byte of the key
    uint8_t flags = 0;         // region_flag::k..., at most one
};

namespace rereg_mask {
inline constexpr uint32_t kTranslation = 1u << 0;  // iova, length, pages, page_offset
inline constexpr uint32_t kPd = 1u << 1;
inline constexpr uint32_t kAccess = 1u << 2;
}  // namespace rereg_mask

// Parameters of REREG_MR: new values of the fields in `mask`, and a new key byte.
struct Reregistration {
    Registration mr;
    uint32_t mask = 0;
};

inline constexpr uint8_t kWindowType1 = 1;
inline constexpr uint8_t kWindowType2 = 2;  // 2B: bound to a QP

struct WindowRequest {
    uint32_t pd = 0;
    uint8_t type = 0;
    uint8_t key = 0;  // low byte of the key
};

struct WindowBinding {
    uint32_t rkey = 0;  // the window's index and its new key byte
    uint32_t lkey = 0;  // the region's key
    uint32_t access = 0;
    uint64_t addr = 0;    // address of the first byte, in the region's address space
    uint64_t length = 0;  // 0 unbinds a window of type 1
};

struct FastRegistration {
    uint32_t key = 0;  // the region's index and its new key byte
    uint32_t access = 0;
    uint64_t iova = 0;
    uint64_t length = 0;
    PageList pages;
    uint32_t page_offset = 0;
};

}  // namespace pib::hca
