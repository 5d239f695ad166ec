// SPDX-License-Identifier: GPL-2.0-or-later
// The pages of shared guest RAM that the guest has registered. The switch copies from and to these
// pages only (docs/fabric-protocol.md, "Peer copy").
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ib/link/peer_copy_control.h"
#include "memory/sg_list.h"

namespace pib::hca {

// A block of guest RAM as mapped in this process. Blocks have the order of the MEMORY frame.
struct RamBlock {
    uint8_t* base;
    uint64_t bytes;
};

// Registered pages: a count per page here, and a bit per page for the switch.
class RegisteredPages {
  public:
    // `bitmaps`: zeroed memory for the bitmaps of all blocks, one after the other.
    RegisteredPages(std::span<const RamBlock> blocks, uint8_t* bitmaps);

    // add() and remove() count the registrations of each page of the segment. A segment that no
    // block contains is ignored.
    void add(const HostSegment& segment) { change(segment, true); }
    void remove(const HostSegment& segment) { change(segment, false); }
    void clear();

    // Appends the segment to `out` as a part of a block. False: no block contains it, or it has
    // more than UINT32_MAX bytes.
    [[nodiscard]] bool translate(const HostSegment& segment,
                                 std::vector<link::BlockSegment>& out) const;

  private:
    struct Block {
        RamBlock ram;
        uint64_t* bits;
        std::vector<uint32_t> users;  // number of registrations of each page
    };
    const Block* find(const HostSegment& segment) const;
    void change(const HostSegment& segment, bool add);

    std::vector<Block> blocks_;
};

}  // namespace pib::hca
