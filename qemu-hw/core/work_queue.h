// SPDX-License-Identifier: GPL-2.0-or-later
// A QP's queues in guest memory: counters of the QP header, and entries copied once.
#pragma once

#include "host.h"
#include "qp.h"

namespace pib::hca {

enum class QueueRead : uint8_t {
    kOk,
    kMemory,   // the QP's buffer is no longer RAM
    kOverrun,  // a producer that is behind, or further ahead than the queue is deep
};

// Reads the producer counter from the QP header. Unless kOk, the queue's producer stays what it
// was.
QueueRead refresh_sq(Host& host, QueuePair& qp);
QueueRead refresh_rq(Host& host, QueuePair& qp);
// Likewise of any queue, whose producer lies at `producer_offset` in its buffer. `held` entries
// have been copied and not completed: software may not reuse their places yet.
QueueRead refresh_queue(Host& host, const GuestBuffer& buffer, uint64_t producer_offset,
                        WorkQueue& queue, uint32_t held);

// Where the entry `counter` lies in its queue's buffer.
inline uint64_t entry_offset(const WorkQueue& queue, uint32_t counter) {
    const uint64_t index = counter & (queue.depth() - 1);
    return queue.offset + (index << queue.log_stride);
}

// Copies the entry `counter` of a queue; false when its memory is gone. `to` is one stride.
bool copy_entry(Host& host, const GuestBuffer& buffer, const WorkQueue& queue, uint32_t counter,
                std::span<uint8_t> to);

// Writes pib_hca_qp_header.flags, visible to the guest before anything that is read afterwards.
void write_header_flags(Host& host, QueuePair& qp, uint32_t flags);

}  // namespace pib::hca
