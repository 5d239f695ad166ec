// SPDX-License-Identifier: GPL-2.0-or-later
// The memory that a channel adapter shares with the switch, and copies between two adapters
// (docs/fabric-protocol.md, "Peer copy"). The adapter can change all of it at any time, so the
// switch reads every value once, and has its own copy of the layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ib/link/peer_copy_control.h"

namespace pib::fabric {

class AdapterMemory {
  public:
    // `control` has the size that peer_copy_bytes() returns for these blocks; `keeper` keeps all
    // the memory mapped.
    AdapterMemory(uint8_t* control, std::vector<std::span<uint8_t>> blocks,
                  std::shared_ptr<const void> keeper);
    AdapterMemory(const AdapterMemory&) = delete;
    AdapterMemory& operator=(const AdapterMemory&) = delete;

    [[nodiscard]] link::PeerCopyControl& control() const { return *control_; }
    // Whether offer `handle` is valid: the adapter has not revoked it.
    [[nodiscard]] bool holds(uint64_t handle) const;
    // Whether every page of the segment is registered. The segment lies in a block or the bounce
    // area.
    [[nodiscard]] bool registered(const link::BlockSegment& segment) const;
    // The segment's address in this process.
    [[nodiscard]] uint8_t* at(const link::BlockSegment& segment) const;

  private:
    link::PeerCopyControl* control_;
    uint8_t* bounce_;
    std::vector<std::span<uint8_t>> blocks_;
    std::vector<uint64_t*> bitmaps_;  // by block
    std::shared_ptr<const void> keeper_;
};

// The switch's record of an offer. `memory` expires when the sender of the offer disconnects.
struct OfferRecord {
    std::weak_ptr<const AdapterMemory> memory;
    uint64_t handle = 0;
    uint32_t bytes = 0;
    std::vector<link::BlockSegment> segments;
};

// A position in a list of segments.
class SegmentCursor {
  public:
    SegmentCursor() = default;
    // `segments` outlive the cursor.
    explicit SegmentCursor(std::span<const link::BlockSegment> segments) : left_(segments) {}

    [[nodiscard]] bool at_end() const { return left_.empty(); }
    // Contiguous bytes at this position, at most `most`. Not valid at the end.
    [[nodiscard]] link::BlockSegment part(uint64_t most) const;
    void advance(uint64_t bytes);

  private:
    std::span<const link::BlockSegment> left_;
    uint32_t done_ = 0;  // consumed bytes of the first remaining segment
};

// Copies `bytes` bytes, or up to the end of either list. kNone: they are copied; kGone: offer
// `handle` is not valid, or a page of `source` is not registered; kRefused: a page of `target` is
// not registered. After an error, a part may have been copied.
[[nodiscard]] link::PullResult copy_part(const AdapterMemory& source, uint64_t handle,
                                         SegmentCursor& from, const AdapterMemory& target,
                                         SegmentCursor& to, uint64_t bytes);
// Copies the whole payload of an offer, to.size() bytes; false: the offer is not valid, its pages
// are not all registered, or its segments have another length.
[[nodiscard]] bool read_offer(const AdapterMemory& source, uint64_t handle,
                              std::span<const link::BlockSegment> from, std::span<uint8_t> to);

}  // namespace pib::fabric
