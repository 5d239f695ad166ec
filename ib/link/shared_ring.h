// SPDX-License-Identifier: GPL-2.0-or-later
// One direction of a fabric link in shared memory (docs/fabric-protocol.md, "Shared memory"): a
// byte ring with one producer and one consumer that do not trust each other. Each end keeps its own
// position in private memory and publishes copies; it reads a position of the other end once and
// checks it.
//
// An end that sleeps publishes an event index: the peer wakes it when the watched position passes
// that index. A busy end is never woken. The ring's bytes are mapped twice in a row, so every frame
// is contiguous.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "ib/link/ring_tap.h"

namespace pib::link {

// The memory that both ends map. Each cache line has one writer; positions count bytes modulo 2^32.
struct RingControl {
    static constexpr size_t kLine = 64;

    alignas(kLine) std::atomic<uint32_t> produced{0};  // bytes published by the producer
    std::atomic<uint32_t> room_event{0};               // event index of the producer for `consumed`
    uint8_t reserved1[56]{};
    alignas(kLine) std::atomic<uint32_t> consumed{0};  // bytes freed by the consumer
    std::atomic<uint32_t> data_event{0};               // event index of the consumer for `produced`
    uint8_t reserved2[56]{};
    alignas(kLine) std::atomic<uint32_t> wakes{0};  // futex of the connecting side
    uint8_t reserved3[60]{};
};
static_assert(sizeof(RingControl) == 3 * RingControl::kLine);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// A mapped ring. `bytes` points to twice `size` bytes.
struct RingView {
    RingControl* control = nullptr;
    uint8_t* bytes = nullptr;
    uint32_t size = 0;       // a power of two
    RingTap* tap = nullptr;  // nullptr: there is no observer

    // Loads a word that the other end writes.
    [[nodiscard]] uint32_t load(const std::atomic<uint32_t>& word, std::memory_order order) const {
        const uint32_t loaded = word.load(order);
        return tap != nullptr ? tap->position(loaded) : loaded;
    }
};

// Alignment of frames, so that two frames never share a cache line.
constexpr uint32_t kRingAlign = 64;
[[nodiscard]] constexpr uint32_t ring_bytes(size_t frame) {
    return static_cast<uint32_t>((frame + kRingAlign - 1) & ~size_t{kRingAlign - 1});
}

// Whether the move of a position from `before` to `now` has passed `event`.
[[nodiscard]] constexpr bool ring_passed(uint32_t event, uint32_t before, uint32_t now) {
    return now - event - 1 < now - before;
}

class RingProducer {
  public:
    explicit RingProducer(const RingView& view)
        : ring_(view), written_(view.load(view.control->produced, std::memory_order_relaxed)) {
        published_ = consumed_ = kicked_ = written_;
    }

    // Whether `bytes` bytes fit now. Also false if the peer's position is impossible: see broken().
    [[nodiscard]] bool has_room(size_t bytes) const {
        return room() >= bytes || (look() && room() >= bytes);
    }
    // Bytes that fit now. The consumer's position is read again only if fewer than `wanted` fit.
    [[nodiscard]] uint32_t room_for(size_t wanted) const {
        return has_room(wanted) || !broken_ ? room() : 0;  // has_room() may set broken_
    }
    // Room for a frame, or an empty span; commit() appends the frame.
    [[nodiscard]] std::span<uint8_t> reserve(size_t bytes) {
        if (!has_room(ring_bytes(bytes))) {
            return {};
        }
        return {ring_.bytes + (written_ & (ring_.size - 1)), bytes};
    }
    void commit(size_t bytes) {
        if (ring_.tap != nullptr) [[unlikely]] {
            ring_.tap->sent({ring_.bytes + (written_ & (ring_.size - 1)), bytes});
        }
        written_ += ring_bytes(bytes);
    }
    [[nodiscard]] uint32_t unpublished() const { return written_ - published_; }

    // Makes committed frames visible to the consumer.
    void publish() {
        if (written_ != published_) {
            ring_.control->produced.store(written_, std::memory_order_release);
            published_ = written_;
        }
    }
    // After publish(): whether the consumer sleeps and needs a wake-up for the new frames.
    [[nodiscard]] bool must_kick() {
        if (kicked_ == published_) {
            return false;
        }
        // The position must be visible before the consumer's event index is read.
        std::atomic_thread_fence(std::memory_order_seq_cst);
        const uint32_t event = ring_.load(ring_.control->data_event, std::memory_order_relaxed);
        return ring_passed(event, std::exchange(kicked_, published_), published_);
    }
    // Asks for a wake-up when half of the used bytes are free. False: the ring has no used bytes,
    // or half of them are free already.
    [[nodiscard]] bool await_room() {
        if (consumed_ == published_) {
            return false;
        }
        const uint32_t half = (published_ - consumed_) / 2;
        const uint32_t event = consumed_ + half;
        ring_.control->room_event.store(event, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_seq_cst);
        const uint32_t before = consumed_;
        return !look() || consumed_ - before <= half;
    }
    // The consumer has published an impossible position.
    [[nodiscard]] bool broken() const { return broken_; }

  private:
    [[nodiscard]] uint32_t room() const { return ring_.size - (written_ - consumed_); }
    [[nodiscard]] bool look() const {
        const uint32_t consumed = ring_.load(ring_.control->consumed, std::memory_order_acquire);
        if (consumed - consumed_ > published_ - consumed_) {
            broken_ = true;
            return false;
        }
        consumed_ = consumed;
        return true;
    }

    RingView ring_;
    uint32_t written_ = 0;
    uint32_t published_ = 0;
    uint32_t kicked_ = 0;            // `published_` at the last must_kick()
    mutable uint32_t consumed_ = 0;  // consumer's position at the last look()
    mutable bool broken_ = false;
};

class RingConsumer {
  public:
    explicit RingConsumer(const RingView& view)
        : ring_(view), read_(view.load(view.control->consumed, std::memory_order_relaxed)) {
        produced_ = returned_ = kicked_ = read_;
    }

    // Bytes to read; 0 if the producer's position is impossible: see broken(). The constructor
    // reads this end's position from shared memory, so available() checks that both positions are
    // multiples of kRingAlign, as frames start and end at such positions.
    [[nodiscard]] uint32_t available() {
        if (produced_ == read_) {
            const uint32_t produced =
                ring_.load(ring_.control->produced, std::memory_order_acquire);
            if (produced - read_ > ring_.size || (produced | read_) % kRingAlign != 0) {
                broken_ = true;
                return 0;
            }
            produced_ = produced;
        }
        return produced_ - read_;
    }
    // The producer may change these bytes at any time: copy first, then check the copy.
    [[nodiscard]] const uint8_t* front() const { return ring_.bytes + (read_ & (ring_.size - 1)); }
    // The observer, or nullptr. The caller reports to the observer the bytes that it copies from
    // front(), and the payload that it leaves there.
    [[nodiscard]] RingTap* tap() const { return ring_.tap; }
    [[nodiscard]] uint32_t size() const { return ring_.size; }
    void skip(size_t frame) { read_ += ring_bytes(frame); }
    [[nodiscard]] uint32_t unreturned() const { return read_ - returned_; }

    // Frees all skipped bytes.
    void give_back() {
        if (returned_ != read_) {
            ring_.control->consumed.store(read_, std::memory_order_release);
            returned_ = read_;
        }
    }
    // After give_back(): whether the producer waits for room and needs a wake-up.
    [[nodiscard]] bool must_kick() {
        if (kicked_ == returned_) {
            return false;
        }
        std::atomic_thread_fence(std::memory_order_seq_cst);
        const uint32_t event = ring_.load(ring_.control->room_event, std::memory_order_relaxed);
        return ring_passed(event, std::exchange(kicked_, returned_), returned_);
    }
    // Asks for a wake-up at the next frame; false if there already is one.
    [[nodiscard]] bool await_data() {
        ring_.control->data_event.store(read_, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_seq_cst);
        return available() == 0 && !broken_;
    }
    [[nodiscard]] bool broken() const { return broken_; }

  private:
    RingView ring_;
    uint32_t read_ = 0;
    uint32_t returned_ = 0;
    uint32_t kicked_ = 0;
    uint32_t produced_ = 0;
    bool broken_ = false;
};

}  // namespace pib::link
