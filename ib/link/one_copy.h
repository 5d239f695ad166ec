// SPDX-License-Identifier: GPL-2.0-or-later
// The control memory of a link with one copy (docs/fabric-protocol.md, "One copy"): made by the
// channel adapter, mapped by the switch too. Each cache line has one writer; both sides check what
// the other one writes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ib/wire/link_frame.h"

namespace pib::link {

using ib::link::kBounceBlock;
using ib::link::kMaxReferenceBytes;
using ib::link::RamPiece;

inline constexpr std::size_t kReferenceSlots = 256;
inline constexpr std::size_t kPageBytes = 4096;  // that a bit of a bitmap stands for

// How a pull has ended.
enum class PullResult : std::uint8_t {
    kNone = 0,       // it has not
    kDone = 1,       // all bytes are there
    kGone = 2,       // the sender does not stand by its reference any more
    kCancelled = 3,  // by who asked for it
    kRefused = 4,    // it goes to memory that is not registered
};

// Whether the switch could map what it was given.
inline constexpr std::uint32_t kMapped = 1;  // references may be sent
inline constexpr std::uint32_t kNotMapped = 2;

struct OneCopyControl {
    // By the switch.
    alignas(64) std::atomic<std::uint64_t> answer{0};  // sequence of a pull << 8 | PullResult
    std::atomic<std::uint32_t> mapped{0};              // kMapped or kNotMapped, once it is known
    std::uint32_t reserved1 = 0;
    std::atomic<std::uint64_t> reading{0};  // handle of the adapter's that is being read, or 0
    std::uint8_t reserved2[40]{};
    // By the adapter.
    alignas(64) std::atomic<std::uint32_t> cancel{
        0};  // sequence of the pull that is to be given up
    std::uint32_t reserved3 = 0;
    std::atomic<std::uint64_t> finished{0};  // newest handle of the switch's that is done with
    std::atomic<std::uint32_t> flags{0};     // kAllRegistered
    std::uint8_t reserved4[44]{};
    // By the adapter: slots[handle % kReferenceSlots] is the handle as long as the reference holds.
    alignas(64) std::atomic<std::uint64_t> slots[kReferenceSlots]{};

    static constexpr std::uint32_t kAllRegistered = 1;
};
static_assert(sizeof(OneCopyControl) == 128 + 8 * kReferenceSlots);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// Behind it: the bounce area, and the bitmaps of the blocks one after the other.
inline constexpr std::size_t kBounceOffset = 4096;
inline constexpr std::size_t kBitmapsOffset = kBounceOffset + kMaxReferenceBytes;

// Of a block's bitmap: a bit for each page, in words of 64 bits in host order, in whole cache
// lines.
[[nodiscard]] constexpr std::size_t bitmap_bytes(std::uint64_t block_bytes) {
    const std::uint64_t pages = (block_bytes + kPageBytes - 1) / kPageBytes;
    return (pages + 511) / 512 * 64;
}
// Of the whole control memory.
[[nodiscard]] constexpr std::size_t one_copy_bytes(std::span<const std::uint64_t> blocks) {
    std::size_t sum = kBitmapsOffset;
    for (const std::uint64_t bytes : blocks) {
        sum += bitmap_bytes(bytes);
    }
    return sum;
}

// Whether the piece lies in these blocks, or in the bounce area where there is one.
[[nodiscard]] constexpr bool piece_fits(const RamPiece& piece,
                                        std::span<const std::uint64_t> blocks, bool bounce) {
    const bool in_block = piece.block < blocks.size();
    const std::uint64_t bytes = in_block                                ? blocks[piece.block]
                                : bounce && piece.block == kBounceBlock ? kMaxReferenceBytes
                                                                        : 0;
    return piece.length <= bytes && piece.offset <= bytes - piece.length;
}

[[nodiscard]] constexpr std::uint64_t pull_answer(std::uint32_t sequence, PullResult result) {
    return std::uint64_t{sequence} << 8 | static_cast<std::uint8_t>(result);
}

// Memory for the head of a run and the payload that a reference stands for, as one piece.
inline constexpr std::size_t kReferenceRoom = ib::kBurstPayload + kMaxReferenceBytes;
// Of the adapter: its bounce area and what lies before.
[[nodiscard]] inline std::span<std::uint8_t> reference_room(std::uint8_t* control_memory) {
    return {control_memory + kBounceOffset - ib::kBurstPayload, kReferenceRoom};
}
static_assert(sizeof(OneCopyControl) + ib::kBurstPayload <= kBounceOffset);

}  // namespace pib::link
