// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace pib::fabric {

// The time and place at which a switch has a packet. `lid`: the switch's, 0 before it has one.
// `port`: at which the packet arrived; 0: the switch has made it. `credits`: the blocks that the
// neighbour may still send on the packet's VL; nullopt: that VL or port has no credits.
struct Arrival {
    std::uint64_t now_ns = 0;
    std::uint16_t lid = 0;
    std::uint8_t port = 0;
    std::optional<std::uint32_t> credits;
};

// Receives every packet that reaches a switch or is made by it: LRH to padding.
class PacketTap {
  public:
    virtual ~PacketTap() = default;
    virtual void packet_seen(std::span<const std::uint8_t> packet, const Arrival& arrival) = 0;
};

// Several taps as one.
class PacketTaps final : public PacketTap {
  public:
    void add(PacketTap& tap) { taps_.push_back(&tap); }
    void remove(PacketTap& tap) { std::erase(taps_, &tap); }
    [[nodiscard]] bool empty() const { return taps_.empty(); }
    void packet_seen(std::span<const std::uint8_t> packet, const Arrival& arrival) override {
        for (PacketTap* tap : taps_) {
            tap->packet_seen(packet, arrival);
        }
    }

  private:
    std::vector<PacketTap*> taps_;
};

}  // namespace pib::fabric
