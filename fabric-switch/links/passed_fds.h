// SPDX-License-Identifier: GPL-2.0-or-later
// The descriptors that the peer of a connection passes: those of a MEMORY frame
// (docs/fabric-protocol.md, "Peer copy"), or any others.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <span>

#include "base/fd_closer.h"
#include "base/unique_fd.h"
#include "ib/link/peer_copy_control.h"

namespace pib::fabric {

class PassedFds {
  public:
    // Maximum number of descriptors of a MEMORY frame: the control memory and the blocks.
    static constexpr size_t kMost = 1 + link::kMaxMemoryBlocks;

    // `closer` closes the descriptors. It outlives this object.
    explicit PassedFds(FdCloser& closer) : closer_(closer) {}
    ~PassedFds() { drop(); }
    PassedFds(const PassedFds&) = delete;
    PassedFds& operator=(const PassedFds&) = delete;

    // Does what recvmsg() does, and keeps the descriptors of the message. Keeps none, and refused()
    // returns true from then on, if they are more than kMost or `expected` is false.
    [[nodiscard]] ssize_t receive(int socket, std::span<uint8_t> space, bool expected);
    [[nodiscard]] bool refused() const { return refused_; }
    // Permits or forbids the peer to pass descriptors. No effect on kernels that cannot forbid it.
    void expect(int socket, bool expected);

    // The descriptors, in the order of the message.
    [[nodiscard]] std::span<const UniqueFd> all() const { return std::span(fds_).first(count_); }
    // Closes all descriptors that it keeps.
    void drop();

  private:
    void keep(int fd);

    FdCloser& closer_;
    std::array<UniqueFd, kMost> fds_;
    size_t count_ = 0;
    bool expected_ = false;
    bool refused_ = false;
};

}  // namespace pib::fabric
