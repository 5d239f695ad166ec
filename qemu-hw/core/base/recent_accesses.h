// SPDX-License-Identifier: GPL-2.0-or-later
// The last accesses of a driver to registers and doorbells.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace pib::hca {

struct MmioAccess {
    uint64_t value = 0;
    uint64_t offset = 0;
    uint8_t bar = 0;
    uint8_t size = 0;
    bool store = false;
    friend bool operator==(const MmioAccess&, const MmioAccess&) = default;
};

class RecentAccesses {
  public:
    static constexpr size_t kKept = 6;

    // Repeated loads of the same value, as by polling a register, count as one.
    void add(const MmioAccess& access) {
        if (count_ != 0 && !access.store && access == last()) {
            return;
        }
        ring_[count_++ % kKept] = access;
    }
    // The accesses, oldest first; loads have "is", stores "=": "BAR0+0x8 is 0x1, BAR2+0x10 = 0x41".
    std::string text() const;

  private:
    const MmioAccess& last() const { return ring_[(count_ - 1) % kKept]; }

    std::array<MmioAccess, kKept> ring_{};
    uint64_t count_ = 0;
};

}  // namespace pib::hca
