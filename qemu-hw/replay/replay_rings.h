// SPDX-License-Identifier: GPL-2.0-or-later
// Rings of links in memory of this program, in place of memory that a switch shares. The device
// writes to these rings; ReplayTap supplies the bytes that the recorded device has read.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include "base/config.h"
#include "ib/link/link_events.h"

namespace pib::hca::replay {

class ReplayRings {
  public:
    explicit ReplayRings(link::RingTap& tap) : tap_(tap) {}

    // Adds rings of these sizes to a port. nullopt: port or sizes are invalid, or the port has too
    // many rings.
    [[nodiscard]] std::optional<link::LinkRings> add(uint64_t port, uint64_t out, uint64_t in);
    // Frees the port's rings, because their connection has ended.
    void drop(uint64_t port);

  private:
    static constexpr uint64_t kMostBytes = 1u << 26;  // bytes of one ring
    static constexpr uint64_t kMostBytesOfPort = 2 * kMostBytes;
    static constexpr size_t kMostRings = 4;

    struct Memory {
        explicit Memory(uint64_t size) : bytes(2 * size) {}
        link::RingControl control;
        std::vector<uint8_t> bytes;  // twice the size: frames may pass the ring's end
    };
    link::RingView view(Memory& memory) {
        return {.control = &memory.control,
                .bytes = memory.bytes.data(),
                .size = static_cast<uint32_t>(memory.bytes.size() / 2),
                .tap = &tap_};
    }

    link::RingTap& tap_;
    std::array<std::list<Memory>, kMaxPorts> of_port_;
};

}  // namespace pib::hca::replay
