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

// The QP is new: the device has written only the flags in the header of its buffer.
void check_new_qp(Strict& strict, const QueuePair& qp);
// The QP goes from Reset to Init.
void check_init(Host& host, Strict& strict, const QueuePair& qp);
// The device has read the producer of one of the QP's queues. `before`: the former value.
void check_producer(Host& host, Strict& strict, const QueuePair& qp, const WorkQueue& queue,
                    uint32_t before, QueueRead result);
// A WQE is about to complete. `copy`: the entry as it was executed.
void check_unchanged(Host& host, Strict& strict, const QueuePair& qp, const WorkQueue& queue,
                     uint32_t counter, std::span<const uint8_t> copy);
// Software has rung a doorbell of the QP.
void check_doorbell(Host& host, Strict& strict, const QueuePair& qp);

}  // namespace pib::hca
