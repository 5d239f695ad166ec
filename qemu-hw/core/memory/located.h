// SPDX-License-Identifier: GPL-2.0-or-later
// Location of a payload that the switch moves instead of the device (peer copy): pieces of the
// host's memory, and the keys that gave access to them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace pib::hca {

// A piece of guest RAM, on the bus and in the host's memory.
struct HostPiece {
    uint8_t* at;
    uint64_t bus_addr;
    uint64_t length;
};

// Regions and windows by their number in the table of keys. A payload that needs more is copied.
class KeySet {
  public:
    static constexpr size_t kMost = 4;

    // False when there is no room for one more.
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
    // Some of it was named by bus address: no registered page list vouches for it.
    bool by_bus_address = false;

    void clear() {
        pieces.clear();
        keys = {};
        by_bus_address = false;
    }
    // Pieces that follow each other in both memories become one.
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
