// SPDX-License-Identifier: GPL-2.0-or-later
// Peer copy without a switch, for PIB_BURSTS=peer-copy: shares an HCA's memory as with a switch,
// and makes the switch's copies at once.
#pragma once

#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "fake_copy_link.h"
#include "fake_host.h"
#include "memory/peer_copy.h"

namespace pib::hca::test {

inline bool peer_copy_wanted() {
    const char* bursts = std::getenv("PIB_BURSTS");
    return bursts != nullptr && std::string_view(bursts) == "peer-copy";
}

class FakePeerCopy {
  public:
    // Only the first part of guest memory is shared.
    static constexpr uint64_t kSharedBytes = 64ull << 20;

    FakePeerCopy(FakeHost& host, Mpt& mpt, uint32_t min_bytes)
        : base(host.ram(FakeHost::kRamBase, 1)), memory_(kSharedBytes), core(host, mpt, min_bytes) {
        core.set_link(1, link);
        core.attach(1, {.control = memory_.bytes(), .blocks = {{base, kSharedBytes}}});
    }

    link::PeerCopyControl& control() { return memory_.control(); }
    bool is_live(uint64_t handle) {
        return control().slots[handle % link::kOfferSlots].load() == handle;
    }
    bool is_registered(const link::BlockSegment& segment) const;
    std::span<uint8_t> bytes(const link::BlockSegment& segment) const {
        return {base + segment.offset, segment.length};
    }
    // All bytes of some segments, one after the other.
    std::vector<uint8_t> gather(std::span<const link::BlockSegment> segments) const;
    void scatter(std::span<const link::BlockSegment> segments, std::span<const uint8_t> from) const;

    uint8_t* const base;
    FakeCopyLink link;

  private:
    FakeControlMemory memory_;

  public:
    PeerCopy core;
};

}  // namespace pib::hca::test
