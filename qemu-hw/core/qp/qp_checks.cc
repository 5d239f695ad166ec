// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/qp_checks.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>

#include "queues/queue_header.h"

namespace pib::hca {

namespace {

Subject subject_of(const QueuePair& qp) {
    return {Thing::kQp, qp.qpn};
}

uint64_t end_of(const WorkQueue& queue) {
    return queue.present ? queue.offset + (uint64_t{queue.depth()} << queue.log_stride) : 0;
}

using Refresh = QueueRead (&)(Host&, const GuestBuffer&, WorkQueue&, uint32_t);

// The producer counter of `queue` in guest memory, or the one that the device has read last if the
// memory is not accessible. The QP's queue stays unchanged.
uint32_t producer_in_memory(Refresh refresh, Host& host, const QueuePair& qp, WorkQueue queue) {
    queue.found = queue.producer;
    (void)refresh(host, qp.buffer, queue, 0);
    return queue.found;
}

// Whether the entry of a completed WQE differs from its copy, is not cleared, and holds no later
// WQE. `found`: the producer in guest memory.
bool is_changed(Host& host, const QueuePair& qp, const CompletedWqe& wqe, uint32_t found) {
    std::array<uint8_t, size_t{1} << kMaxLogWqeStride> bytes;
    const auto now = std::span(bytes).first(wqe.bytes.size());
    const uint32_t later = found - wqe.counter;
    return !wqe.bytes.empty() && later != 0 && later < qp.sq.depth() &&
           copy_entry(host, qp.buffer, qp.sq, wqe.counter, now) &&
           !std::ranges::equal(now, wqe.bytes) &&
           std::ranges::any_of(now, [&](uint8_t byte) { return byte != now.front(); });
}

}  // namespace

void check_new_qp(Strict& strict, const QueuePair& qp) {
    if (qp.type != QpType::kXrcTgt) {
        const uint64_t end = std::max(end_of(qp.sq), end_of(qp.rq));
        strict.queue_created(
            subject_of(qp), qp.buffer,
            {.bytes = std::max<uint64_t>(end, kQueueHeaderBytes), .header = kQueueHeaderBytes});
    }
}

void check_header(Host& host, Strict& strict, const QueuePair& qp) {
    if (!header_reserved_is_zero(host, qp.buffer)) {
        strict.broken(Rule::kHeaderReserved, subject_of(qp));
    }
}

uint32_t send_producer_in_memory(Host& host, const QueuePair& qp) {
    return producer_in_memory(refresh_send_producer, host, qp, qp.sq);
}

void check_init(Host& host, Strict& strict, const QueuePair& qp) {
    const uint32_t send = send_producer_in_memory(host, qp);
    const uint32_t recv = producer_in_memory(refresh_receive_producer, host, qp, qp.rq);
    if (send != 0 || recv != 0) {
        strict.broken(Rule::kInitProducers, subject_of(qp), send, recv);
    }
}

void check_producer(Host& host, Strict& strict, QueuePair& qp, const WorkQueue& queue,
                    uint32_t before, QueueRead result) {
    if (!queue.present) {
        return;
    }
    if (result == QueueRead::kMemory) {
        strict.memory_lost(subject_of(qp));
        return;
    }
    check_header(host, strict, qp);
    const bool sends = &queue == &qp.sq;
    if (sends) {
        check_completed(host, strict, qp);
    }
    const uint32_t receiving = qp.resp.recv.valid ? 1 : 0;
    const uint32_t held = sends ? qp.window.size() : receiving;
    strict.producer_moved(subject_of(qp),
                          {.passes = sends ? Rule::kSendPasses : Rule::kRecvPasses,
                           .back = sends ? Rule::kSendBack : Rule::kRecvBack},
                          before, queue.found, result == QueueRead::kOk,
                          queue.consumer - held + queue.depth());
}

void check_unchanged(Host& host, Strict& strict, const QueuePair& qp, const WorkQueue& queue,
                     uint32_t counter, std::span<const uint8_t> copy) {
    std::array<uint8_t, size_t{1} << kMaxLogWqeStride> bytes;
    const auto now = std::span(bytes).first(copy.size());
    if (copy_entry(host, qp.buffer, queue, counter, now) && !std::ranges::equal(now, copy)) {
        const bool sends = &queue == &qp.sq;
        const auto at = std::ranges::mismatch(now, copy).in1 - now.begin();
        strict.broken(sends ? Rule::kSendChanged : Rule::kRecvChanged, subject_of(qp), counter,
                      static_cast<uint64_t>(at));
    }
}

void keep_completed(QueuePair& qp, uint32_t counter, std::span<const uint8_t> copy) {
    if (qp.uar == 0) {
        qp.req.completed.counter = counter;
        qp.req.completed.bytes.assign(copy.begin(), copy.end());
    }
}

void check_completed(Host& host, Strict& strict, QueuePair& qp) {
    CompletedWqe& suspect = qp.req.suspect;
    if (!suspect.bytes.empty() && qp.sq.found != suspect.found) {
        if (is_changed(host, qp, suspect, qp.sq.found)) {
            check_unchanged(host, strict, qp, qp.sq, suspect.counter, suspect.bytes);
        }
        suspect = {};
    }
    const CompletedWqe& last = qp.req.completed;
    if (suspect.bytes.empty() && is_changed(host, qp, last, qp.sq.found)) {
        suspect = last;
        // If software is writing a list of WQEs that has reached the entry, its next store moves
        // the producer from this value beyond the entry.
        std::atomic_thread_fence(std::memory_order_acquire);
        suspect.found = send_producer_in_memory(host, qp);
    }
}

void check_last_completed(Host& host, Strict& strict, const QueuePair& qp) {
    const uint32_t found = send_producer_in_memory(host, qp);
    for (const CompletedWqe* wqe : {&qp.req.suspect, &qp.req.completed}) {
        if (is_changed(host, qp, *wqe, found)) {
            check_unchanged(host, strict, qp, qp.sq, wqe->counter, wqe->bytes);
        }
    }
}

void check_doorbell(Host& host, Strict& strict, const QueuePair& qp) {
    if ((qp.state == QpState::kInit || qp.state == QpState::kRtr) && qp.sq.present) {
        const uint32_t posted = send_producer_in_memory(host, qp);
        if (posted != qp.sq.consumer) {
            strict.broken(Rule::kSendEarly, subject_of(qp), posted);
        }
    }
}

}  // namespace pib::hca
