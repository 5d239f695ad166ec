// SPDX-License-Identifier: GPL-2.0-or-later
// ICRC and VCRC of single packets on a link, and the checks of the link layer (IBA 7.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>

#include "ib/wire/burst.h"
#include "ib/wire/link_frame.h"
#include "ib/wire/packet.h"

namespace pib::link {

inline constexpr size_t kCrcBytes = ib::kIcrcSize + ib::kVcrcSize;

// Writes ICRC and VCRC to the last six bytes of `packet_and_room`; the packet is before them.
void append_crcs(std::span<uint8_t> packet_and_room);

// Checks the length and the LRH of a packet, and the checksums if it has them: `crcs` is kElided or
// kIcrcAndVcrc. The returned burst has no checksums. `head` and `whole` are those of
// ib::PacketBytes. `mtu_cap` is PortInfo:MTUCap of the receiver.
[[nodiscard]] std::expected<ib::Burst, link::PacketFault> check_packet(
    std::span<const uint8_t> head, std::span<const uint8_t> whole, ib::Crcs crcs, uint8_t mtu_cap);

}  // namespace pib::link
