// SPDX-License-Identifier: GPL-2.0-or-later
// The switch's side of a peer copy for tests of the HCA: a link whose pulls the test starts and
// ends, and the control memory.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/peer_copy.h"

namespace pib::hca::test {

// A link that has an unfinished pull while the test keeps `is_pulling` set.
class FakeCopyLink final : public PeerCopyLink {
  public:
    bool pulling() const override { return is_pulling; }
    void cancel_pull() override { ++cancels; }
    void give_up() override {
        ++given_up;
        is_pulling = false;
    }

    bool is_pulling = false;
    unsigned cancels = 0;
    unsigned given_up = 0;
};

// The control memory of a link that shares one block of guest RAM.
class FakeControlMemory {
  public:
    explicit FakeControlMemory(uint64_t block_bytes)
        : lines_((link::kBitmapsOffset + link::bitmap_bytes(block_bytes)) / sizeof(Line)) {}

    uint8_t* bytes() { return reinterpret_cast<uint8_t*>(lines_.data()); }
    link::PeerCopyControl& control() {
        return *reinterpret_cast<link::PeerCopyControl*>(lines_.data());
    }
    const uint64_t* bitmaps() const { return lines_[link::kBitmapsOffset / sizeof(Line)].words; }

  private:
    struct alignas(64) Line {
        uint64_t words[8];
    };
    std::vector<Line> lines_;
};

}  // namespace pib::hca::test
