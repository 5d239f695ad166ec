// SPDX-License-Identifier: GPL-2.0-or-later
// The bytes of guest memory that the recording or writes of the device have shown.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>

namespace pib::hca::replay {

class SeenMemory {
  public:
    void write(uint64_t bus_addr, std::span<const uint8_t> bytes);
    // Bytes that were not seen are 0.
    void read(uint64_t bus_addr, std::span<uint8_t> to) const;

  private:
    static constexpr size_t kMostPages = 1u << 16;
    static constexpr uint64_t kPage = 4096;

    std::map<uint64_t, std::array<uint8_t, kPage>> pages_;  // by page number
};

}  // namespace pib::hca::replay
