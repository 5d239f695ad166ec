// SPDX-License-Identifier: GPL-2.0-or-later
// Divides the bytes of a link's stream into bytes that the device looks at and payload that it only
// copies. A frame may continue in the next call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ib/wire/link_frame.h"

namespace pib::hca::record {

// Number of bytes of a frame's body that a recording keeps.
size_t kept_bytes(const link::FrameHeader& header);

class StreamCut {
  public:
    // A new connection begins: the next bytes are its first.
    void restart() { *this = {}; }

    // Takes a piece from the start of `bytes`, which is not empty: `kept` bytes to record, then
    // `left_out` bytes.
    struct Piece {
        size_t kept = 0;
        size_t left_out = 0;
    };
    Piece next(std::span<const uint8_t> bytes);

  private:
    size_t take_header(std::span<const uint8_t> bytes);

    std::array<uint8_t, link::kHeaderSize> header_{};
    size_t header_bytes_ = 0;  // bytes of header_ that have arrived
    size_t keep_ = 0;          // bytes of the current frame's body that are still to be kept
    size_t leave_ = 0;         // bytes of the body after those, which are left out
    bool lost_ = false;        // a header was invalid: all bytes after it are kept
};

}  // namespace pib::hca::record
