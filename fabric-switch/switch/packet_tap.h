// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace pib::fabric {

// The arrival of a packet at a switch. `now_ns`: time of the switch's clock. `lid`: LID of the
// switch, 0 before it has one. `port`: port at which the packet arrived; 0: the switch has made it.
// `credits`: the credit blocks that the neighbour may still send on the packet's VL; nullopt: VL15,
// or a packet that the switch has made.
struct Arrival {
    uint64_t now_ns = 0;
    uint16_t lid = 0;
    uint8_t port = 0;
    std::optional<uint32_t> credits;
};

// Receives every packet that a switch receives or makes, LRH to padding without checksums.
class PacketTap {
  public:
    virtual ~PacketTap() = default;
    virtual void packet_seen(std::span<const uint8_t> packet, const Arrival& arrival) = 0;
};

// Several taps as one.
class PacketTaps final : public PacketTap {
  public:
    void add(PacketTap& tap) { taps_.push_back(&tap); }
    void remove(PacketTap& tap) { std::erase(taps_, &tap); }
    [[nodiscard]] bool empty() const { return taps_.empty(); }
    void packet_seen(std::span<const uint8_t> packet, const Arrival& arrival) override {
        for (PacketTap* tap : taps_) {
            tap->packet_seen(packet, arrival);
        }
    }

  private:
    std::vector<PacketTap*> taps_;
};

}  // namespace pib::fabric
