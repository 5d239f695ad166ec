// SPDX-License-Identifier: GPL-2.0-or-later
// The control memory of peer copy (docs/fabric-protocol.md, "Peer copy"). The channel adapter
// creates it, and the switch maps it. Each cache line has one writer; each side checks what the
// other one writes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ib/wire/link_frame.h"

namespace pib::link {

inline constexpr size_t kOfferSlots = 256;
inline constexpr size_t kPageBytes = 4096;  // bytes of memory per bit of a bitmap

// The switch's answer to a PULL.
enum class PullResult : uint8_t {
    kNone = 0,       // the pull has not ended
    kDone = 1,       // all bytes are in place
    kGone = 2,       // the sender has revoked its offer
    kCancelled = 3,  // the receiver has cancelled the pull
    kRefused = 4,    // the target is not registered memory
};

// Values of PeerCopyControl::mapped: whether the switch could map the adapter's memory.
inline constexpr uint32_t kMapped = 1;  // offers may be sent
inline constexpr uint32_t kNotMapped = 2;

struct PeerCopyControl {
    // Written by the switch.
    alignas(64) std::atomic<uint64_t> answer{0};  // sequence of the PULL << 8 | PullResult
    std::atomic<uint32_t> mapped{0};              // 0 at first, then kMapped or kNotMapped
    uint32_t reserved1 = 0;
    std::atomic<uint64_t> reading{0};  // handle of the adapter's offer being read, or 0
    uint8_t reserved2[40]{};
    // Written by the adapter.
    alignas(64) std::atomic<uint32_t> cancel{0};  // sequence of the PULL to cancel
    uint32_t reserved3 = 0;
    std::atomic<uint64_t> finished{0};  // handle of the switch's newest finished offer
    std::atomic<uint32_t> flags{0};     // kAllRegistered
    uint8_t reserved4[44]{};
    // Written by the adapter: slots[handle % kOfferSlots] is the handle while the offer is
    // valid.
    alignas(64) std::atomic<uint64_t> slots[kOfferSlots]{};

    // Bit of `flags`: every page is registered, whatever the bitmaps contain.
    static constexpr uint32_t kAllRegistered = 1;
};
static_assert(sizeof(PeerCopyControl) == 128 + 8 * kOfferSlots);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// Offsets in the control memory, in bytes: PeerCopyControl is followed by the bounce area, then by
// the bitmaps of all blocks.
inline constexpr size_t kBounceOffset = 4096;
inline constexpr size_t kBitmapsOffset = kBounceOffset + kMaxOfferBytes;

// Bytes of a block's bitmap: one bit for each page, in 64-bit words in host order, rounded up to
// cache lines.
[[nodiscard]] constexpr size_t bitmap_bytes(uint64_t block_bytes) {
    const uint64_t pages = (block_bytes + kPageBytes - 1) / kPageBytes;
    return (pages + 511) / 512 * 64;
}
// Bytes of the whole control memory.
[[nodiscard]] constexpr size_t peer_copy_bytes(std::span<const uint64_t> blocks) {
    size_t sum = kBitmapsOffset;
    for (const uint64_t bytes : blocks) {
        sum += bitmap_bytes(bytes);
    }
    return sum;
}

// Whether the segment lies in one of these blocks or, with `bounce`, in the bounce area.
[[nodiscard]] constexpr bool segment_fits(const BlockSegment& segment,
                                          std::span<const uint64_t> blocks, bool bounce) {
    const bool in_block = segment.block < blocks.size();
    const uint64_t bytes = in_block                                  ? blocks[segment.block]
                           : bounce && segment.block == kBounceBlock ? kMaxOfferBytes
                                                                     : 0;
    return segment.length <= bytes && segment.offset <= bytes - segment.length;
}

[[nodiscard]] constexpr uint64_t pull_answer(uint32_t sequence, PullResult result) {
    return uint64_t{sequence} << 8 | static_cast<uint8_t>(result);
}

// Memory for the headers of a burst and the payload of an offer, in one piece.
inline constexpr size_t kOfferRoom = ib::kBurstPayload + kMaxOfferBytes;
// The adapter's room: its bounce area and the bytes before it.
[[nodiscard]] inline std::span<uint8_t> offer_room(uint8_t* control_memory) {
    return {control_memory + kBounceOffset - ib::kBurstPayload, kOfferRoom};
}
static_assert(sizeof(PeerCopyControl) + ib::kBurstPayload <= kBounceOffset);

}  // namespace pib::link
