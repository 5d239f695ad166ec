// SPDX-License-Identifier: GPL-2.0-or-later
// One copy without a switch: an HCA's memory as it would be handed over, and what a switch does
// with it, at once. With PIB_BURSTS=peer-copy.
#pragma once

#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "fake_copy_link.h"
#include "fake_host.h"
#include "memory/one_copy.h"

namespace pib::hca::test {

inline bool one_copy_wanted() {
    const char* runs = std::getenv("PIB_BURSTS");
    return runs != nullptr && std::string_view(runs) == "peer-copy";
}

class FakeOneCopy {
  public:
    // The first part of guest memory is shared, and what lies behind is not.
    static constexpr uint64_t kSharedBytes = 64ull << 20;

    FakeOneCopy(FakeHost& host, Mpt& mpt, uint32_t min_bytes)
        : base(host.ram(FakeHost::kRamBase, 1)), memory_(kSharedBytes), core(host, mpt, min_bytes) {
        core.set_link(1, link);
        core.attach(1, {.control = memory_.bytes(), .blocks = {{base, kSharedBytes}}});
    }

    link::OneCopyControl& control() { return memory_.control(); }
    bool is_live(uint64_t handle) {
        return control().slots[handle % link::kReferenceSlots].load() == handle;
    }
    bool is_registered(const link::RamPiece& piece) const;
    std::span<uint8_t> bytes(const link::RamPiece& piece) const {
        return {base + piece.offset, piece.length};
    }
    // All bytes of some pieces, one after the other.
    std::vector<uint8_t> gather(std::span<const link::RamPiece> pieces) const;
    void scatter(std::span<const link::RamPiece> pieces, std::span<const uint8_t> from) const;

    uint8_t* const base;
    FakeCopyLink link;

  private:
    FakeControlMemory memory_;

  public:
    OneCopy core;
};

}  // namespace pib::hca::test
