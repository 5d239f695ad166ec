// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pib::fabric {

// Receives every packet that reaches a switch or is made by it: LRH to padding.
class PacketTap {
  public:
    virtual ~PacketTap() = default;
    virtual void packet_seen(std::span<const std::uint8_t> packet, std::uint64_t now_ns) = 0;
};

// Several taps as one.
class PacketTaps final : public PacketTap {
  public:
    void add(PacketTap& tap) { taps_.push_back(&tap); }
    void remove(PacketTap& tap) { std::erase(taps_, &tap); }
    [[nodiscard]] bool empty() const { return taps_.empty(); }
    void packet_seen(std::span<const std::uint8_t> packet, std::uint64_t now_ns) override {
        for (PacketTap* tap : taps_) {
            tap->packet_seen(packet, now_ns);
        }
    }

  private:
    std::vector<PacketTap*> taps_;
};

}  // namespace pib::fabric
