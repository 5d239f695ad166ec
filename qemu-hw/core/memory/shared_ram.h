// SPDX-License-Identifier: GPL-2.0-or-later
// The guest RAM that one link shares with the switch, and its control data: the registered pages
// and the valid offers (docs/fabric-protocol.md, "Peer copy").
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

// A block of guest RAM as mapped in this process, in the order of MEMORY.
struct RamBlock {
    uint8_t* base;
    uint64_t bytes;
};

// Registered pages: a count per page here, and a bit per page for the switch.
class RegisteredPages {
  public:
    // `bitmaps`: zeroed memory for the bitmaps of all blocks, one after the other.
    RegisteredPages(std::span<const RamBlock> blocks, uint8_t* bitmaps);

    // Ignores memory outside the blocks.
    void add(const HostPiece& piece) { change(piece, true); }
    void remove(const HostPiece& piece) { change(piece, false); }
    void clear();

    // Adds the piece with its block number; false: it is in no block.
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

// The owner of an offer, which says how long the offer is valid.
struct ReferenceOwner {
    uint32_t qpn = 0;
    bool response = false;  // READ response: no packet acknowledges it
    ib::Psn end{};          // request: the PSN after it
    KeySet keys{};
};

// The valid offers of a link, and their slots.
class References {
  public:
    explicit References(link::OneCopyControl& control) : control_(control) {}

    // A new handle. Without a free slot the oldest READ response is revoked. 0: all slots belong to
    // requests.
    uint64_t open(const ReferenceOwner& owner);
    // Revokes a handle. The switch may read the memory until being_read() is false.
    void end(uint64_t handle) { end_slot(handle % link::kReferenceSlots); }
    // Ends the offers for which gone(owner) is true.
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
    // The switch does not answer, so being_read() no longer waits for it.
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
    uint64_t read_ = 0;  // the revoked handle that the switch is reading; it reads one at a time
    uint32_t count_ = 0;
};

}  // namespace pib::hca
