// SPDX-License-Identifier: GPL-2.0-or-later
// The guest RAM that one link shares with the switch, and its control data: the registered pages,
// and the live references (docs/fabric-protocol.md, "Peer copy").
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "ib/link/one_copy.h"
#include "ib/wire/types.h"
#include "memory/located.h"

namespace pib::hca {

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
    explicit References(link::OneCopyControl& control) : control_(control) {}

    // A new handle; without a free slot the oldest READ response is revoked. 0: no slot.
    uint64_t open(const ReferenceOwner& owner);
    // Revokes a handle. The switch may still read the memory until being_read() is false.
    void end(uint64_t handle) { end_slot(handle % link::kReferenceSlots); }
    // Ends those for which gone(owner) is true.
    template <typename Gone>
    void end_if(Gone&& gone) {
        for (size_t slot = 0; slot < live_.size(); ++slot) {
            if (live_[slot].handle != 0 && gone(live_[slot].owner)) {
                end_slot(slot);
            }
        }
    }
    // Whether the switch still reads the memory of a revoked reference.
    bool being_read() {
        if (read_ != 0 && control_.reading.load(std::memory_order_acquire) != read_) {
            read_ = 0;
        }
        return read_ != 0;
    }
    // The switch does not answer: nothing waits for it.
    void forget_reader() { read_ = 0; }
    uint32_t count() const { return count_; }

  private:
    struct Live {
        uint64_t handle = 0;
        ReferenceOwner owner;
    };
    void end_slot(size_t slot);
    size_t oldest_response() const;

    link::OneCopyControl& control_;
    std::array<Live, link::kReferenceSlots> live_{};
    uint64_t last_ = 0;
    uint64_t read_ = 0;  // a revoked handle that the switch was reading; it reads one at a time
    uint32_t count_ = 0;
};

}  // namespace pib::hca
