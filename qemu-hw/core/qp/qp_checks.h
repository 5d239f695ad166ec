// SPDX-License-Identifier: GPL-2.0-or-later
// Checks of a QP's queues in guest memory that only a strict device makes. Each function reports
// broken rules to `strict`.
#pragma once

#include <cstdint>
#include <span>

#include "base/host.h"
#include "qp/qp.h"
#include "queues/work_queue.h"
#include "strict/strict.h"

namespace pib::hca {

// Checks the buffer of a new QP: its header must be zero, and no other queue may own its memory.
void check_new_qp(Strict& strict, const QueuePair& qp);
// Checks the reserved bytes of the header of a QP's buffer.
void check_header(Host& host, Strict& strict, const QueuePair& qp);
// The send producer in guest memory; qp.sq.producer if the memory is not accessible.
uint32_t send_producer_in_memory(Host& host, const QueuePair& qp);
// Checks that both producer counters are 0. Call this when the QP goes from Reset to Init.
void check_init(Host& host, Strict& strict, const QueuePair& qp);
// Checks the producer counter of `queue`, sq or rq of `qp`, and the header's reserved bytes. Call
// this when the device has read the counter. `before`: the producer before that read.
void check_producer(Host& host, Strict& strict, QueuePair& qp, const WorkQueue& queue,
                    uint32_t before, QueueRead result);
// Checks that software has not changed a WQE since the device copied it to `copy`. Call this
// before the WQE completes.
void check_unchanged(Host& host, Strict& strict, const QueuePair& qp, const WorkQueue& queue,
                     uint32_t counter, std::span<const uint8_t> copy);
// Keeps the copy of a completing send WQE if its QP belongs to UAR 0, the driver's. A process may
// give up WQEs that it has written (ibv_wr_abort()), so a change of its entries breaks no rule.
void keep_completed(QueuePair& qp, uint32_t counter, std::span<const uint8_t> copy);
// Finds a send WQE that software has written after its doorbell. Such a WQE leaves a trace in the
// entry of the WQE that was completed last: the entry differs from the device's copy, is not
// cleared (all bytes equal), and the producer has not passed it again. As software may just be
// writing a list of WQEs that reaches the entry, the function reports the entry only if it still
// differs when the producer has moved. Call this when the device has read the producer.
void check_completed(Host& host, Strict& strict, QueuePair& qp);
// Makes the same check before the QP is destroyed, when software no longer writes to the queue.
void check_last_completed(Host& host, Strict& strict, const QueuePair& qp);
// Checks that a doorbell announces no send WQE before the QP is in RTS. Call this when software has
// rung a doorbell of the QP.
void check_doorbell(Host& host, Strict& strict, const QueuePair& qp);

}  // namespace pib::hca
