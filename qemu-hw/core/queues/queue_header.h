// SPDX-License-Identifier: GPL-2.0-or-later
// The header at the start of a QP's buffer in guest memory: producer counters and flags.
#pragma once

#include "base/host.h"
#include "memory/guest_buffer.h"
#include "queues/work_queue.h"

namespace pib::hca {

inline constexpr uint32_t kQueueHeaderBytes = 64;

// Read a producer counter into the queue. If the result is not kOk, the queue's producer is
// unchanged. `held`: number of entries that have been copied and not completed.
QueueRead refresh_send_producer(Host& host, const GuestBuffer& buffer, WorkQueue& sq,
                                uint32_t held);
QueueRead refresh_receive_producer(Host& host, const GuestBuffer& buffer, WorkQueue& rq,
                                   uint32_t held);

// Whether the header's reserved bytes are 0.
[[nodiscard]] bool header_reserved_is_zero(Host& host, const GuestBuffer& buffer);

// Sets whether software must ring a doorbell for each receive WQE that it posts. The store is
// ordered before all later reads of the device.
void request_receive_doorbells(Host& host, GuestBuffer& buffer, bool wanted);

}  // namespace pib::hca
