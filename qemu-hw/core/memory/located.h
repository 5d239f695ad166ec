// SPDX-License-Identifier: GPL-2.0-or-later
// The location of a payload that the switch copies instead of the device (peer copy): pieces of the
// host's memory, and the keys that gave access to them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace pib::hca {

// A piece of guest RAM: its bus address and its host address.
struct HostPiece {
    uint8_t* at;
    uint64_t bus_addr;
    uint64_t length;
};

// Regions and windows by their number in the key table. A payload with more keys is not offered.
class KeySet {
  public:
    static constexpr size_t kMost = 4;

    // False: there is no room for another key.
    bool add(uint32_t number) {
        if (has(number)) {
            return true;
        }
        if (count_ == kMost) {
            return false;
        }
        numbers_[count_++] = number;
        return true;
    }
    bool has(uint32_t number) const {
        for (size_t i = 0; i < count_; ++i) {
            if (numbers_[i] == number) {
                return true;
            }
        }
        return false;
    }

  private:
    std::array<uint32_t, kMost> numbers_{};
    size_t count_ = 0;
};

struct Located {
    std::vector<HostPiece> pieces;
    KeySet keys;
    // A part was named by bus address, so no region covers it.
    bool by_bus_address = false;

    void clear() {
        pieces.clear();
        keys = {};
        by_bus_address = false;
    }
    // Merges pieces that are adjacent on the bus and in the host's memory.
    void append(const HostPiece& piece) {
        if (!pieces.empty()) {
            HostPiece& last = pieces.back();
            if (last.at + last.length == piece.at &&
                last.bus_addr + last.length == piece.bus_addr) {
                last.length += piece.length;
                return;
            }
        }
        pieces.push_back(piece);
    }
};

}  // namespace pib::hca
