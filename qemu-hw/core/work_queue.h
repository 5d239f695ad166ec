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

// Copies the entry `counter` of a queue; false when its memory is gone. `to` is one stride.
bool copy_entry(Host& host, const QueuePair& qp, const WorkQueue& queue, uint32_t counter,
                std::span<uint8_t> to);

// Writes pib_hca_qp_header.flags, visible to the guest before anything that is read afterwards.
void write_header_flags(Host& host, QueuePair& qp, uint32_t flags);

}  // namespace pib::hca
