// SPDX-License-Identifier: GPL-2.0-or-later
#include "queues/queue_header.h"

#include <atomic>
#include <cstddef>

#include "pib_hca_hw.h"
#include "strict/queue_memory.h"

namespace pib::hca {

static_assert(sizeof(pib_hca_qp_header) == kQueueHeaderBytes);

QueueRead refresh_send_producer(Host& host, const GuestBuffer& buffer, WorkQueue& sq,
                                uint32_t held) {
    return refresh_queue(host, buffer, offsetof(pib_hca_qp_header, sq_producer), sq, held);
}

QueueRead refresh_receive_producer(Host& host, const GuestBuffer& buffer, WorkQueue& rq,
                                   uint32_t held) {
    return refresh_queue(host, buffer, offsetof(pib_hca_qp_header, rq_producer), rq, held);
}

bool header_reserved_is_zero(Host& host, const GuestBuffer& buffer) {
    constexpr uint32_t kReserved = offsetof(pib_hca_qp_header, reserved);
    return is_zero(host, buffer, kReserved, kQueueHeaderBytes - kReserved);
}

void request_receive_doorbells(Host& host, GuestBuffer& buffer, bool wanted) {
    const uint32_t flags = wanted ? PIB_HCA_QP_HEADER_RECV_NOTIFY : 0;
    // If the buffer is not accessible, the next read fails as well.
    (void)buffer.write(host, offsetof(pib_hca_qp_header, flags),
                       {reinterpret_cast<const uint8_t*>(&flags), sizeof flags});
    host.dma_barrier();
    // The guest stores its producer and then loads the flags; the device stores the flags and then
    // loads the producer. At least one side must see the other's store, which release ordering
    // alone does not ensure.
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace pib::hca
