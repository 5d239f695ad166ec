// SPDX-License-Identifier: GPL-2.0-or-later
// The header at the start of a QP's buffer in guest memory: producer counters and flags.
#pragma once

#include "base/host.h"
#include "memory/guest_buffer.h"
#include "queues/work_queue.h"

namespace pib::hca {

inline constexpr uint32_t kQueueHeaderBytes = 64;

// Read a producer counter. Unless kOk, the queue's producer stays what it was. `held` entries have
// been copied and not completed.
QueueRead refresh_send_producer(Host& host, const GuestBuffer& buffer, WorkQueue& sq,
                                uint32_t held);
QueueRead refresh_receive_producer(Host& host, const GuestBuffer& buffer, WorkQueue& rq,
                                   uint32_t held);

// Whether the header's reserved bytes are 0.
bool header_reserved_is_zero(Host& host, const GuestBuffer& buffer);

// Whether software rings a doorbell for each receive WQE that it posts. Software sees it before
// anything that the device reads afterwards.
void request_receive_doorbells(Host& host, GuestBuffer& buffer, bool wanted);

}  // namespace pib::hca
