// SPDX-License-Identifier: GPL-2.0-or-later
// Reads the producers of a QP's queues.
#pragma once

#include "base/host.h"
#include "qp/qp.h"
#include "queues/queue_header.h"

namespace pib::hca {

inline QueueRead refresh_sq(Host& host, QueuePair& qp) {
    return refresh_send_producer(host, qp.buffer, qp.sq, qp.window.size());
}

inline QueueRead refresh_rq(Host& host, QueuePair& qp) {
    return refresh_receive_producer(host, qp.buffer, qp.rq,
                                    qp.rq.present && qp.resp.recv.valid ? 1 : 0);
}

}  // namespace pib::hca
