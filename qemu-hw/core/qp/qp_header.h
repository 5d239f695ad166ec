// SPDX-License-Identifier: GPL-2.0-or-later
// Reads the producer counters and the entries of a QP's queues.
#pragma once

#include <cstdint>
#include <span>

#include "qp/qp_checks.h"
#include "qp/qp_services.h"
#include "queues/queue_header.h"

namespace pib::hca {

inline QueueRead refresh_sq(QpServices& services, QueuePair& qp) {
    const uint32_t before = qp.sq.producer;
    const QueueRead result =
        refresh_send_producer(services.host(), qp.buffer, qp.sq, qp.window.size());
    if (Strict* strict = services.strict(); strict != nullptr) [[unlikely]] {
        check_producer(services.host(), *strict, qp, qp.sq, before, result);
    }
    return result;
}

inline QueueRead refresh_rq(QpServices& services, QueuePair& qp) {
    const uint32_t before = qp.rq.producer;
    const QueueRead result = refresh_receive_producer(services.host(), qp.buffer, qp.rq,
                                                      qp.rq.present && qp.resp.recv.valid ? 1 : 0);
    if (Strict* strict = services.strict(); strict != nullptr) [[unlikely]] {
        check_producer(services.host(), *strict, qp, qp.rq, before, result);
    }
    return result;
}

// Copies the next entry of a queue; false: the entry's memory is no longer accessible.
[[nodiscard]] inline bool copy_wqe(QpServices& services, const QueuePair& qp,
                                   const WorkQueue& queue, std::span<uint8_t> to) {
    const bool copied = copy_entry(services.host(), qp.buffer, queue, queue.consumer, to);
    if (Strict* strict = services.strict(); strict != nullptr && !copied) [[unlikely]] {
        strict->memory_lost({Thing::kQp, qp.qpn});
    }
    return copied;
}

}  // namespace pib::hca
