// SPDX-License-Identifier: GPL-2.0-or-later
// The shared memory of one connection, seen from the listening side, and the ways by which the two
// ends wake each other. No call here can block, whatever the peer writes: this side never reads or
// writes its eventfd, and wakes the peer by a futex.
#pragma once

#include <array>
#include <expected>
#include <string>

#include "base/unique_fd.h"
#include "ib/link/link_endpoint.h"
#include "shared_memory.h"

namespace pib::fabric {

class SharedRings {
  public:
    // Errors (no memory, no descriptors) are one line.
    [[nodiscard]] static std::expected<SharedRings, std::string> create();

    [[nodiscard]] link::LinkRings rings() const {
        return {.out = memory_.ring(1), .in = memory_.ring(0)};
    }
    // Becomes readable when the peer wakes this side; poll it edge-triggered.
    [[nodiscard]] int wake_fd() const { return wake_.get(); }
    // Descriptors to send with WELCOME, in the order of the protocol.
    [[nodiscard]] std::array<int, 2> handed_over() const { return {memory_.memfd(), wake_.get()}; }
    void wake_peer() const;

  private:
    SharedRings(link::SharedMemory memory, UniqueFd wake)
        : memory_(std::move(memory)), wake_(std::move(wake)) {}

    link::SharedMemory memory_;
    UniqueFd wake_;
};

}  // namespace pib::fabric
