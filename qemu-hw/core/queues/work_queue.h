// SPDX-License-Identifier: GPL-2.0-or-later
// A work queue in guest memory: its producer counter, and its entries, which the device copies once
// each.
#pragma once

#include <cstdint>
#include <span>

#include "base/host.h"
#include "memory/guest_buffer.h"

namespace pib::hca {

inline constexpr unsigned kMaxWqLogDepth = 14;
inline constexpr unsigned kMinLogSqStride = 6;
inline constexpr unsigned kMinLogRqStride = 5;
inline constexpr unsigned kMaxLogWqeStride = 10;

// A ring of work requests in a buffer of guest memory. Counters count modulo 2^32.
struct WorkQueue {
    uint32_t offset = 0;    // offset of entry 0 in the buffer
    uint32_t consumer = 0;  // counter of the next entry to copy
    // Last valid value read from guest memory: at most depth() entries ahead of the oldest entry
    // that is in use.
    uint32_t producer = 0;
    uint32_t found = 0;  // last value read from guest memory, valid or not
    uint8_t log_depth = 0;
    uint8_t log_stride = 0;
    bool present = false;

    uint32_t depth() const { return present ? 1u << log_depth : 0; }
    uint32_t stride() const { return 1u << log_stride; }
    uint32_t ready() const { return producer - consumer; }
};

enum class [[nodiscard]] QueueRead : uint8_t {
    kOk,
    kMemory,   // the buffer is not accessible
    kOverrun,  // the producer is behind the consumer or too far ahead
};

// Reads the producer counter at `producer_offset` in the buffer. Unless the result is kOk, the
// queue's producer stays unchanged. `held` entries have been copied and not completed, so software
// must not reuse them yet.
QueueRead refresh_queue(Host& host, const GuestBuffer& buffer, uint64_t producer_offset,
                        WorkQueue& queue, uint32_t held);

// Offset of the entry `counter` in the queue's buffer.
inline uint64_t entry_offset(const WorkQueue& queue, uint32_t counter) {
    const uint64_t index = counter & (queue.depth() - 1);
    return queue.offset + (index << queue.log_stride);
}

// Copies the entry `counter` of a queue, one stride, to `to`; false: its memory is not accessible.
[[nodiscard]] bool copy_entry(Host& host, const GuestBuffer& buffer, const WorkQueue& queue,
                              uint32_t counter, std::span<uint8_t> to);

}  // namespace pib::hca
