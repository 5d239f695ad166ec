// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <span>

namespace pib::fabric {

// Receives every packet that reaches a switch or is made by it: LRH to padding.
class PacketTap {
  public:
    virtual ~PacketTap() = default;
    virtual void packet_seen(std::span<const std::uint8_t> packet, std::uint64_t now_ns) = 0;
};

}  // namespace pib::fabric
