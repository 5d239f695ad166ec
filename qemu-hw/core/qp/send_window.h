// SPDX-License-Identifier: GPL-2.0-or-later
// The send WQEs that a QP has copied and not completed yet, oldest first. A retry uses the copy,
// which the device has checked, even if the guest has changed the entry of its queue since then.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ib/wire/types.h"
#include "queues/segments.h"
#include "queues/wqe.h"

namespace pib::hca {

// Bytes of host memory that the windows of all QPs may still take. When they are used up, a window
// gets kFirstSlots slots and does not grow.
struct SnapshotBudget {
    static constexpr uint64_t kBytes = 1ull << 30;
    uint64_t left = kBytes;
};

struct SendRequest {
    SendWqe wqe = {};
    uint32_t counter = 0;  // counter of the WQE in its send queue
    ib::Psn psn_first = {};
    // READ: the PSN of the newest request packet. A repeated READ asks only for the responses that
    // are missing, so this PSN may come after psn_first.
    ib::Psn psn_asked = {};
    uint32_t ssn = 0;  // number of the message (receive_credits.h)
    // Number of PSNs: of its request packets, or of the response packets of a READ; 0 for an
    // operation on a key.
    uint32_t packets = 0;
    // Success, or the local error with which the request completes, after all requests before it.
    WqeError error{};
    bool started = false;  // the first packet was sent, or the operation on a key was executed

    // All values of a new request, except for `wqe`.
    void start(uint32_t its_counter, ib::Psn first) {
        counter = its_counter;
        psn_first = first;
        psn_asked = {};
        ssn = 0;
        packets = 0;
        error = {};
        started = false;
    }
    ib::Psn psn_end() const { return psn_first + packets; }
    [[nodiscard]] bool failed() const { return error.status != WcStatus::kSuccess; }
};

class SendWindow {
  public:
    static constexpr uint32_t kFirstSlots = 4;
    static constexpr uint32_t kMaxSlots = 128;

    [[nodiscard]] bool empty() const { return count_ == 0; }
    uint32_t size() const { return count_; }
    SendRequest& front() { return requests_[head_]; }
    const SendRequest& front() const { return requests_[head_]; }
    // The request after the n oldest ones, n < size(): at(0) is the oldest.
    SendRequest& at(uint32_t n) { return requests_[slot(n)]; }
    const SendRequest& at(uint32_t n) const { return requests_[slot(n)]; }
    // The data segments of at(n); `user` is the user of their keys.
    SegmentView segments_at(uint32_t n, const KeyUser& user) const {
        return {.wqe = bytes_at(n), .data = requests_[slot(n)].wqe.data, .user = user};
    }
    std::span<const uint8_t> bytes_at(uint32_t n) const {
        return {bytes_.data() + uint64_t{slot(n)} * stride_, stride_};
    }

    // Reserves a slot and returns the `stride` bytes for the copy of the WQE. Empty: the window is
    // full and cannot grow.
    std::span<uint8_t> reserve(uint32_t stride, SnapshotBudget& budget);
    // Appends a request for the WQE in the reserved bytes. The caller decodes the WQE to its `wqe`,
    // which has the values of an earlier request until then.
    SendRequest& push(uint32_t counter, ib::Psn psn_first);
    void pop() {
        head_ = slot(1);
        --count_;
    }
    void clear() { head_ = count_ = 0; }
    // Empties the window and gives its memory back. Call this when the QP is destroyed or reset.
    void release(SnapshotBudget& budget);

  private:
    uint32_t capacity() const { return static_cast<uint32_t>(requests_.size()); }
    // The capacity is a power of two.
    uint32_t slot(uint32_t n) const { return (head_ + n) & (capacity() - 1); }
    [[nodiscard]] bool grow(uint32_t stride, SnapshotBudget& budget);

    std::vector<SendRequest> requests_;
    std::vector<uint8_t> bytes_;
    uint32_t stride_ = 0;
    uint32_t head_ = 0;
    uint32_t count_ = 0;
};

}  // namespace pib::hca
