// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/qp_header.h"

#include <atomic>
#include <cstddef>

namespace pib::hca {

QueueRead refresh_sq(Host& host, QueuePair& qp) {
    return refresh_queue(host, qp.buffer, offsetof(pib_hca_qp_header, sq_producer), qp.sq,
                         qp.window.size());
}

QueueRead refresh_rq(Host& host, QueuePair& qp) {
    return refresh_queue(host, qp.buffer, offsetof(pib_hca_qp_header, rq_producer), qp.rq,
                         qp.rq.present && qp.resp.recv.valid ? 1 : 0);
}

void write_header_flags(Host& host, QueuePair& qp, uint32_t flags) {
    // The next read detects a buffer that has vanished.
    (void)qp.buffer.write(host, offsetof(pib_hca_qp_header, flags),
                          {reinterpret_cast<const uint8_t*>(&flags), sizeof flags});
    host.dma_barrier();
    // The guest stores its producer and then loads the flags; the device stores the flags and then
    // loads the producer. One side must see the other's store, which release ordering alone does
    // not ensure.
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace pib::hca
