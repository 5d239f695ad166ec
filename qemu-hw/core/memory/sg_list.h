// SPDX-License-Identifier: GPL-2.0-or-later
// The location of a payload that the switch copies instead of the device (peer copy): segments of
// the host's memory, and the keys that gave access to them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace pib::hca {

// A segment of guest RAM: its bus address and its host address.
struct HostSegment {
    uint8_t* at;
    uint64_t bus_addr;
    uint64_t length;
};

// A set of regions and windows, by their number in the key table. A payload in more than kMost of
// them is not copied by the switch.
class KeySet {
  public:
    static constexpr size_t kMost = 4;

    // False: there is no room for another key.
    [[nodiscard]] bool add(uint32_t number) {
        if (has(number)) {
            return true;
        }
        if (count_ == kMost) {
            return false;
        }
        numbers_[count_++] = number;
        return true;
    }
    [[nodiscard]] bool has(uint32_t number) const {
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

struct SgList {
    std::vector<HostSegment> segments;
    KeySet keys;
    // A part of the payload was named by bus address: by the privileged L_Key or a physical region.
    bool by_bus_address = false;

    void clear() {
        segments.clear();
        keys = {};
        by_bus_address = false;
    }
    // Appends a segment, or extends the last one if both are adjacent on the bus and in the host's
    // memory.
    void append(const HostSegment& segment) {
        if (!segments.empty()) {
            HostSegment& last = segments.back();
            if (last.at + last.length == segment.at &&
                last.bus_addr + last.length == segment.bus_addr) {
                last.length += segment.length;
                return;
            }
        }
        segments.push_back(segment);
    }
};

}  // namespace pib::hca
