// SPDX-License-Identifier: GPL-2.0-or-later
// An observer sees all values that one end of a link takes from the link's shared memory, and may
// replace them. A recording of the device keeps these values, and its replay supplies them
// again.
#pragma once

#include <cstdint>
#include <span>

namespace pib::link {

class RingTap {
  public:
    virtual ~RingTap() = default;
    // A position or event index has been loaded; the end uses the result.
    virtual uint32_t position(uint32_t loaded) = 0;
    // Bytes of the ring have been copied, and are checked next.
    virtual void copied(std::span<uint8_t> bytes) = 0;
    // A payload stays in the ring until a handler copies it to its target.
    virtual void payload(std::span<const uint8_t> bytes) = 0;
    // A frame is complete in the ring.
    virtual void sent(std::span<const uint8_t> frame) = 0;
};

}  // namespace pib::link
