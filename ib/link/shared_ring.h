// SPDX-License-Identifier: GPL-2.0-or-later
// One direction of a fabric link in shared memory (docs/fabric-protocol.md, "Shared memory"): a
// ring of bytes with one producer and one consumer, who do not trust each other. Both ends keep
// their own position to themselves and only publish it; what the other end publishes is read once
// and checked.
//
// A peer that sleeps says so by an event index: it is to be woken once the position that it watches
// passes that index, and while it is busy nobody wakes it. The ring's bytes are mapped twice in a
// row, so that a frame is contiguous wherever it starts.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace pib::link {

// What both ends see. Each line is written by one end only; positions count bytes modulo 2^32.
struct RingControl {
    static constexpr std::size_t kLine = 64;

    alignas(kLine) std::atomic<std::uint32_t> produced{0};  // producer: bytes published
    std::atomic<std::uint32_t> room_event{0};  // producer: wake me once `consumed` has passed this
    std::uint8_t reserved1[56]{};
    alignas(kLine) std::atomic<std::uint32_t> consumed{0};  // consumer: bytes given back
    std::atomic<std::uint32_t> data_event{0};  // consumer: wake me once `produced` has passed this
    std::uint8_t reserved2[56]{};
    alignas(kLine) std::atomic<std::uint32_t> wakes{0};  // futex of the connecting side
    std::uint8_t reserved3[60]{};
};
static_assert(sizeof(RingControl) == 3 * RingControl::kLine);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

// A ring as it is mapped; `bytes` has twice its size.
struct RingView {
    RingControl* control = nullptr;
    std::uint8_t* bytes = nullptr;
    std::uint32_t size = 0;  // a power of two
};

// Frames start at multiples of this, so that two of them never share a cache line.
constexpr std::uint32_t kRingAlign = 64;
[[nodiscard]] constexpr std::uint32_t ring_bytes(std::size_t frame) {
    return static_cast<std::uint32_t>((frame + kRingAlign - 1) & ~std::size_t{kRingAlign - 1});
}

// Whether a position that moved from `before` to `now` has passed `event`.
[[nodiscard]] constexpr bool ring_passed(std::uint32_t event, std::uint32_t before,
                                         std::uint32_t now) {
    return now - event - 1 < now - before;
}

class RingProducer {
  public:
    explicit RingProducer(const RingView& view)
        : ring_(view), written_(view.control->produced.load(std::memory_order_relaxed)) {
        published_ = consumed_ = kicked_ = written_;
    }

    // Whether so many bytes fit now. False after nonsense from the peer, too: see broken().
    [[nodiscard]] bool has_room(std::size_t bytes) const {
        return room() >= bytes || (look() && room() >= bytes);
    }
    // Bytes that fit now; looked up anew only when less than `wanted`.
    [[nodiscard]] std::uint32_t room_for(std::size_t wanted) const {
        return has_room(wanted) || !broken_ ? room() : 0;  // has_room() may find it broken
    }
    // Room for a frame, or an empty span; commit() appends it.
    [[nodiscard]] std::span<std::uint8_t> reserve(std::size_t bytes) {
        if (!has_room(ring_bytes(bytes))) {
            return {};
        }
        return {ring_.bytes + (written_ & (ring_.size - 1)), bytes};
    }
    void commit(std::size_t bytes) { written_ += ring_bytes(bytes); }
    [[nodiscard]] std::uint32_t unpublished() const { return written_ - published_; }

    // Makes what was committed visible to the consumer.
    void publish() {
        if (written_ != published_) {
            ring_.control->produced.store(written_, std::memory_order_release);
            published_ = written_;
        }
    }
    // After publish(): whether the consumer sleeps and has not been told of it.
    [[nodiscard]] bool must_kick() {
        if (kicked_ == published_) {
            return false;
        }
        // Our position must be visible before we look whether the consumer went to sleep.
        std::atomic_thread_fence(std::memory_order_seq_cst);
        const std::uint32_t event = ring_.control->data_event.load(std::memory_order_relaxed);
        return ring_passed(event, std::exchange(kicked_, published_), published_);
    }
    // Asks to be woken once half of what is in the ring has been given back; false when it has
    // been.
    [[nodiscard]] bool await_room() {
        const std::uint32_t half = (published_ - consumed_) / 2;
        const std::uint32_t event = consumed_ + half;
        ring_.control->room_event.store(event, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_seq_cst);
        const std::uint32_t before = consumed_;
        return !look() || consumed_ - before <= half;
    }
    // The consumer has published a position that cannot be.
    [[nodiscard]] bool broken() const { return broken_; }

  private:
    [[nodiscard]] std::uint32_t room() const { return ring_.size - (written_ - consumed_); }
    bool look() const {
        const std::uint32_t consumed = ring_.control->consumed.load(std::memory_order_acquire);
        if (consumed - consumed_ > published_ - consumed_) {
            broken_ = true;
            return false;
        }
        consumed_ = consumed;
        return true;
    }

    RingView ring_;
    std::uint32_t written_ = 0;
    std::uint32_t published_ = 0;
    std::uint32_t kicked_ = 0;            // published when must_kick() last looked
    mutable std::uint32_t consumed_ = 0;  // by the consumer, as far as seen
    mutable bool broken_ = false;
};

class RingConsumer {
  public:
    explicit RingConsumer(const RingView& view)
        : ring_(view), read_(view.control->consumed.load(std::memory_order_relaxed)) {
        produced_ = returned_ = kicked_ = read_;
    }

    // Bytes that can be read; more than the ring has is nonsense: see broken().
    [[nodiscard]] std::uint32_t available() {
        if (produced_ == read_) {
            const std::uint32_t produced = ring_.control->produced.load(std::memory_order_acquire);
            if (produced - read_ > ring_.size || produced % kRingAlign != 0) {
                broken_ = true;
                return 0;
            }
            produced_ = produced;
        }
        return produced_ - read_;
    }
    // The producer may write to these bytes at any time: copy first, check the copy.
    [[nodiscard]] const std::uint8_t* front() const {
        return ring_.bytes + (read_ & (ring_.size - 1));
    }
    [[nodiscard]] std::uint32_t size() const { return ring_.size; }
    void skip(std::size_t frame) { read_ += ring_bytes(frame); }
    [[nodiscard]] std::uint32_t unreturned() const { return read_ - returned_; }

    // Gives back what was read.
    void give_back() {
        if (returned_ != read_) {
            ring_.control->consumed.store(read_, std::memory_order_release);
            returned_ = read_;
        }
    }
    // After give_back(): whether the producer waits for room and has not been told.
    [[nodiscard]] bool must_kick() {
        if (kicked_ == returned_) {
            return false;
        }
        std::atomic_thread_fence(std::memory_order_seq_cst);
        const std::uint32_t event = ring_.control->room_event.load(std::memory_order_relaxed);
        return ring_passed(event, std::exchange(kicked_, returned_), returned_);
    }
    // Asks to be woken for what comes next; false when something is there already.
    [[nodiscard]] bool await_data() {
        ring_.control->data_event.store(read_, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_seq_cst);
        return available() == 0 && !broken_;
    }
    [[nodiscard]] bool broken() const { return broken_; }

  private:
    RingView ring_;
    std::uint32_t read_ = 0;
    std::uint32_t returned_ = 0;
    std::uint32_t kicked_ = 0;
    std::uint32_t produced_ = 0;
    bool broken_ = false;
};

}  // namespace pib::link
