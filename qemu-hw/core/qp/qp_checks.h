// SPDX-License-Identifier: GPL-2.0-or-later
// Checks of a strict device in the memory of a queue pair.
#pragma once

#include <cstdint>
#include <span>

#include "base/host.h"
#include "qp/qp.h"
#include "queues/work_queue.h"
#include "strict/strict.h"

namespace pib::hca {

// A QP has a buffer, of whose header the device has written the flags alone.
void check_new_qp(Strict& strict, const QueuePair& qp);
// The QP goes from Reset to Init.
void check_init(Host& host, Strict& strict, const QueuePair& qp);
// The producer of one of its queues was read. `before`: the one that was known.
void check_producer(Host& host, Strict& strict, const QueuePair& qp, const WorkQueue& queue,
                    uint32_t before, QueueRead result);
// A WQE is about to complete. `copy`: the entry as it was executed.
void check_unchanged(Host& host, Strict& strict, const QueuePair& qp, const WorkQueue& queue,
                     uint32_t counter, std::span<const uint8_t> copy);
// The QP was sent a doorbell.
void check_doorbell(Host& host, Strict& strict, const QueuePair& qp);

}  // namespace pib::hca
