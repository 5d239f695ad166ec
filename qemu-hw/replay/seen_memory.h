// SPDX-License-Identifier: GPL-2.0-or-later
// The bytes of guest memory that are known from the recording or from writes of the device.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>

namespace pib::hca::replay {

class SeenMemory {
  public:
    void write(uint64_t bus_addr, std::span<const uint8_t> bytes);
    // Reads unknown bytes as 0.
    void read(uint64_t bus_addr, std::span<uint8_t> to) const;

  private:
    static constexpr size_t kMostPages = 1u << 16;  // further pages are not kept
    static constexpr uint64_t kPage = 4096;

    std::map<uint64_t, std::array<uint8_t, kPage>> pages_;  // by page number
};

}  // namespace pib::hca::replay
