// SPDX-License-Identifier: GPL-2.0-or-later
// The memory of a link's two rings: a sealed memfd that the listening side creates and sends to the
// connecting side with WELCOME. Needs Linux; links without shared memory do not use this file.
//
// offset          size   content
// 0               65536  RingControl of ring 0, RingControl of ring 1 at kControlStride
// 65536           ring   bytes of ring 0, from the connecting side to the listening side
// 65536 + ring    ring   bytes of ring 1, from the listening side to the connecting side
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>

#include "ib/link/shared_ring.h"

namespace pib::link {

class SharedMemory {
  public:
    // The largest page size of a kernel, so that the rings can be mapped with every page size.
    static constexpr size_t kControlBytes = 65536;
    static constexpr size_t kControlStride = 1024;
    static constexpr unsigned kMinLogRing = 16;
    static constexpr unsigned kMaxLogRing = 26;

    // Creates memory with two empty rings of 2^log_ring bytes each, kMinLogRing <= log_ring <=
    // kMaxLogRing. The error is one line.
    [[nodiscard]] static std::expected<SharedMemory, std::string> create(unsigned log_ring);
    // Maps the peer's memory. Checks size and seals first, because an access to memory that has
    // shrunk would kill this process. The caller still owns the descriptor. The error is one line.
    [[nodiscard]] static std::expected<SharedMemory, std::string> map(int memfd);

    SharedMemory(SharedMemory&& other) noexcept;
    SharedMemory& operator=(SharedMemory&& other) noexcept;
    ~SharedMemory();

    // The descriptor to send to the peer; -1 after map().
    [[nodiscard]] int memfd() const { return memfd_; }
    // The ring with the number `direction`, 0 or 1.
    [[nodiscard]] RingView ring(unsigned direction) const;
    [[nodiscard]] size_t ring_size() const { return ring_; }

  private:
    SharedMemory() = default;
    [[nodiscard]] static std::expected<SharedMemory, std::string> map_rings(int memfd, size_t ring);
    [[nodiscard]] size_t address_space() const { return kControlBytes + 4 * ring_; }

    uint8_t* base_ = nullptr;
    size_t ring_ = 0;
    int memfd_ = -1;
};

}  // namespace pib::link
