// SPDX-License-Identifier: GPL-2.0-or-later
// Sizes that both ends of a link compute in the same way: VLs, packet lengths, and the receive
// buffer that packets take.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ib/wire/burst.h"
#include "ib/wire/link_frame.h"
#include "ib/wire/packet.h"

namespace pib::link {

inline constexpr unsigned kDataVls = 15;
inline constexpr unsigned kVl15 = 15;

// Number of data VLs for a VLCap or OperationalVLs code (1, 2, 4, 8, 15); 0 for a reserved code.
[[nodiscard]] constexpr unsigned data_vls(uint8_t code) {
    constexpr uint8_t kVls[] = {0, 1, 2, 4, 8, 15};
    return code < sizeof(kVls) ? kVls[code] : 0;
}

// Longest packet that a port with this MTUCap accepts, LRH to ICRC: MTU plus 124 bytes (IBA 7.7.8).
[[nodiscard]] constexpr size_t max_packet_bytes(uint8_t mtu_cap) {
    return (size_t{128} << mtu_cap) + 124;
}

// Credit blocks of a packet; `bytes` counts LRH to the end of padding, without checksums.
[[nodiscard]] constexpr uint32_t packet_blocks(size_t bytes) {
    return link::credit_blocks(bytes + ib::kIcrcSize + ib::kVcrcSize);
}

// Receive buffer of `count` packets of a burst, starting with packet `from`: the sum over the
// single packets. VL15 has no receive buffer.
[[nodiscard]] inline uint32_t burst_blocks(const ib::Burst& burst, uint32_t from, uint32_t count) {
    return burst.lrh().vl == ib::kVl15 ? 0 : burst.size().sum(from, count, packet_blocks);
}
[[nodiscard]] inline uint32_t burst_blocks(const ib::Burst& burst) {
    return burst_blocks(burst, 0, burst.count());
}

}  // namespace pib::link
