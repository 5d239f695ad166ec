// SPDX-License-Identifier: GPL-2.0-or-later
// The memory of a link's two rings: a sealed memfd that the listening side makes and hands to the
// connecting side with its WELCOME. Linux only, as the memfd is; whoever joins ends otherwise does
// not need this file.
//
//   offset           size      what
//   0                4096      RingControl of ring 0, and of ring 1 at kControlStride; the rest is
//   0 4096             ring      bytes of ring 0: connecting side to listening side 4096 + ring
//   ring      bytes of ring 1: listening side to connecting side
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>

#include "ib/link/shared_ring.h"

namespace pib::link {

class SharedMemory {
  public:
    static constexpr std::size_t kControlBytes = 4096;
    static constexpr std::size_t kControlStride = 1024;
    static constexpr unsigned kMinLogRing = 16;
    static constexpr unsigned kMaxLogRing = 26;

    // New memory with two empty rings. Errors are one line.
    [[nodiscard]] static std::expected<SharedMemory, std::string> create(unsigned log_ring);
    // Maps what the peer made, after its size and seals have been checked: memory that could shrink
    // would end this process. The descriptor stays the caller's.
    [[nodiscard]] static std::expected<SharedMemory, std::string> map(int memfd);

    SharedMemory(SharedMemory&& other) noexcept;
    SharedMemory& operator=(SharedMemory&& other) noexcept;
    ~SharedMemory();

    // Of create(): to be handed over; -1 after map().
    [[nodiscard]] int memfd() const { return memfd_; }
    [[nodiscard]] RingView ring(unsigned direction) const;
    [[nodiscard]] std::size_t ring_size() const { return ring_; }

  private:
    SharedMemory() = default;
    [[nodiscard]] static std::expected<SharedMemory, std::string> map_rings(int memfd,
                                                                            std::size_t ring);
    [[nodiscard]] std::size_t address_space() const { return kControlBytes + 4 * ring_; }

    std::uint8_t* base_ = nullptr;
    std::size_t ring_ = 0;
    int memfd_ = -1;
};

}  // namespace pib::link
