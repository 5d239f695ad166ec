// SPDX-License-Identifier: GPL-2.0-or-later
#include "links/adapter_memory.h"

#include <algorithm>
#include <cstring>

namespace pib::fabric {
namespace {

using link::BlockSegment;
using link::PullResult;

// Announces to the adapter that the switch reads the segments of an offer. An adapter that revokes
// the handle waits for the end of the announcement. Either the switch sees the revocation, or the
// adapter sees the announcement.
class Reading {
  public:
    Reading(const AdapterMemory& source, uint64_t handle) : source_(source), handle_(handle) {
        source_.control().reading.store(handle, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    ~Reading() { source_.control().reading.store(0, std::memory_order_release); }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

    [[nodiscard]] bool holds() const {
        // Acquire fence: orders earlier reads of the payload before this check.
        std::atomic_thread_fence(std::memory_order_acquire);
        return source_.holds(handle_);
    }

  private:
    const AdapterMemory& source_;
    uint64_t handle_;
};

// Whether all bits from `first` to `last` are set; the words can change at any time.
bool all_set(uint64_t* words, uint64_t first, uint64_t last) {
    for (uint64_t bit = first; bit <= last;) {
        const uint64_t word = std::atomic_ref(words[bit / 64]).load(std::memory_order_relaxed);
        const uint64_t end = std::min(last, bit | 63);
        const uint64_t wanted = ~uint64_t{0} >> (63 - (end - bit)) << bit % 64;
        if ((word & wanted) != wanted) {
            return false;
        }
        bit = end + 1;
    }
    return true;
}

}  // namespace

AdapterMemory::AdapterMemory(uint8_t* control, std::vector<std::span<uint8_t>> blocks,
                             std::shared_ptr<const void> keeper)
    : control_(reinterpret_cast<link::PeerCopyControl*>(control)),
      bounce_(control + link::kBounceOffset),
      blocks_(std::move(blocks)),
      keeper_(std::move(keeper)) {
    uint8_t* bitmap = control + link::kBitmapsOffset;
    for (const auto& block : blocks_) {
        bitmaps_.push_back(reinterpret_cast<uint64_t*>(bitmap));
        bitmap += link::bitmap_bytes(block.size());
    }
}

bool AdapterMemory::holds(uint64_t handle) const {
    return control_->slots[handle % link::kOfferSlots].load(std::memory_order_acquire) == handle;
}

bool AdapterMemory::registered(const BlockSegment& segment) const {
    if (segment.block == link::kBounceBlock) {
        return true;
    }
    const uint32_t flags = control_->flags.load(std::memory_order_relaxed);
    return (flags & link::PeerCopyControl::kAllRegistered) != 0 ||
           all_set(bitmaps_[segment.block], segment.offset / link::kPageBytes,
                   (segment.offset + segment.length - 1) / link::kPageBytes);
}

uint8_t* AdapterMemory::at(const BlockSegment& segment) const {
    return (segment.block == link::kBounceBlock ? bounce_ : blocks_[segment.block].data()) +
           segment.offset;
}

BlockSegment SegmentCursor::part(uint64_t most) const {
    const BlockSegment& segment = left_.front();
    return {.offset = segment.offset + done_,
            .block = segment.block,
            .length = static_cast<uint32_t>(std::min<uint64_t>(segment.length - done_, most))};
}

void SegmentCursor::advance(uint64_t bytes) {
    while (bytes != 0 && !left_.empty()) {
        const uint64_t here = std::min<uint64_t>(bytes, left_.front().length - done_);
        done_ += static_cast<uint32_t>(here);
        bytes -= here;
        if (done_ == left_.front().length) {
            left_ = left_.subspan(1);
            done_ = 0;
        }
    }
}

// Two adapters of one VM may share the same memory, so source and target may overlap; the result is
// then unspecified.
PullResult copy_part(const AdapterMemory& source, uint64_t handle, SegmentCursor& from,
                     const AdapterMemory& target, SegmentCursor& to, uint64_t bytes) {
    const Reading reading(source, handle);
    if (!reading.holds()) {
        return PullResult::kGone;
    }
    while (bytes != 0 && !from.at_end() && !to.at_end()) {
        const BlockSegment into = to.part(std::min<uint64_t>(bytes, from.part(bytes).length));
        const BlockSegment out_of = from.part(into.length);
        if (!source.registered(out_of)) {
            return PullResult::kGone;
        }
        if (!target.registered(into)) {
            return PullResult::kRefused;
        }
        std::memmove(target.at(into), source.at(out_of), into.length);
        from.advance(into.length);
        to.advance(into.length);
        bytes -= into.length;
    }
    return reading.holds() ? PullResult::kNone : PullResult::kGone;
}

bool read_offer(const AdapterMemory& source, uint64_t handle, std::span<const BlockSegment> from,
                std::span<uint8_t> to) {
    const Reading reading(source, handle);
    if (!reading.holds()) {
        return false;
    }
    for (const BlockSegment& segment : from) {
        if (segment.length > to.size() || !source.registered(segment)) {
            return false;
        }
        std::memcpy(to.data(), source.at(segment), segment.length);
        to = to.subspan(segment.length);
    }
    return to.empty() && reading.holds();
}

}  // namespace pib::fabric
