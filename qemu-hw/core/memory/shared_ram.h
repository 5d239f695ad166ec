// SPDX-License-Identifier: GPL-2.0-or-later
// The guest RAM that one link shares with the switch, and its control data: the registered pages,
// and the live references (docs/fabric-protocol.md, "Peer copy").
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/host.h"
#include "ib/link/one_copy.h"
#include "ib/wire/types.h"
#include "memory/located.h"

namespace pib::hca {

// Longest wait of one call for switches that access the guest's memory.
constexpr uint64_t kPatienceNs = 1'000'000'000;

// The waits of one call share kPatienceNs. They are bounded because the guest's processors may wait
// for the lock that the caller holds.
struct Patience {
    uint64_t until_ns = 0;  // 0: the call has not waited yet
};

// Waits while busy(), until the patience ends; true if busy() has ended.
template <typename Busy>
bool wait_while(Host& host, Patience& patience, Busy&& busy) {
    while (busy()) {
        const uint64_t now = host.real_ns();
        if (patience.until_ns == 0) {
            patience.until_ns = now + kPatienceNs;
        }
        if (now > patience.until_ns) {
            return false;
        }
        host.relax();
    }
    return true;
}

// RAM of the guest as it lies in this process, in the order of MEMORY.
struct RamBlock {
    uint8_t* base;
    uint64_t bytes;
};

// The pages that regions cover: counted here, and one bit each for the switch.
class RegisteredPages {
  public:
    // `bitmaps`: of all blocks, one after the other, as kBitmapsOffset has them; zeroed.
    RegisteredPages(std::span<const RamBlock> blocks, uint8_t* bitmaps);

    // Memory outside the blocks is skipped.
    void add(const HostPiece& piece) { change(piece, true); }
    void remove(const HostPiece& piece) { change(piece, false); }
    void clear();

    // Adds the piece as the switch knows it; false when it is not in one of the blocks.
    bool translate(const HostPiece& piece, std::vector<link::RamPiece>& out) const;

  private:
    struct Block {
        RamBlock ram;
        uint64_t* bits;
        std::vector<uint32_t> users;  // registrations of each page
    };
    const Block* find(const HostPiece& piece) const;
    void change(const HostPiece& piece, bool add);

    std::vector<Block> blocks_;
};

// Owner of a reference, which is valid until the owner no longer needs it.
struct ReferenceOwner {
    uint32_t qpn = 0;
    bool response = false;  // READ response: no message acknowledges it
    ib::Psn end{};          // a request's: the PSN behind it
    KeySet keys{};
};

// The live references of a link, and their slots.
class References {
  public:
    References(Host& host, link::OneCopyControl& control) : host_(host), control_(control) {}

    // A new handle; without a free slot the oldest READ response is revoked. 0: no slot.
    uint64_t open(const ReferenceOwner& owner);
    // When it returns, the switch no longer reads the memory of the reference. It waits at most
    // kPatienceNs for a switch that does not answer.
    void end(uint64_t handle) {
        Patience patience;
        end_slot(handle % link::kReferenceSlots, patience);
    }
    // Ends those for which gone(owner) is true.
    template <typename Gone>
    void end_if(Patience& patience, Gone&& gone) {
        for (size_t slot = 0; slot < live_.size(); ++slot) {
            if (live_[slot].handle != 0 && gone(live_[slot].owner)) {
                end_slot(slot, patience);
            }
        }
    }
    uint32_t count() const { return count_; }

  private:
    struct Live {
        uint64_t handle = 0;
        ReferenceOwner owner;
    };
    void end_slot(size_t slot, Patience& patience);
    size_t oldest_response() const;

    Host& host_;
    link::OneCopyControl& control_;
    std::array<Live, link::kReferenceSlots> live_{};
    uint64_t last_ = 0;
    uint32_t count_ = 0;
};

}  // namespace pib::hca
