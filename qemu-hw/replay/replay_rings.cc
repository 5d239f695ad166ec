// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay_rings.h"

#include <bit>

namespace pib::hca::replay {

std::optional<link::LinkRings> ReplayRings::add(uint64_t port, uint64_t out, uint64_t in) {
    const auto possible = [](uint64_t size) {
        return std::has_single_bit(size) && size >= link::kRingAlign && size <= kMostBytes;
    };
    if (port < 1 || port > of_port_.size() || !possible(out) || !possible(in)) {
        return std::nullopt;
    }
    auto& memories = of_port_[port - 1];
    uint64_t bytes = out + in;
    for (const Memory& memory : memories) {
        bytes += memory.bytes.size() / 2;
    }
    if (memories.size() + 2 > 2 * kMostRings || bytes > kMostBytesOfPort) {
        return std::nullopt;
    }
    Memory& for_out = memories.emplace_back(out);
    Memory& for_in = memories.emplace_back(in);
    return link::LinkRings{.out = view(for_out), .in = view(for_in)};
}

void ReplayRings::drop(uint64_t port) {
    if (port >= 1 && port <= of_port_.size()) {
        of_port_[port - 1].clear();
    }
}

}  // namespace pib::hca::replay
