// SPDX-License-Identifier: GPL-2.0-or-later
#include "queues/work_queue.h"

#include <atomic>

namespace pib::hca {

QueueRead refresh_queue(Host& host, const GuestBuffer& buffer, uint64_t producer_offset,
                        WorkQueue& queue, uint32_t held) {
    if (!queue.present) {
        return QueueRead::kOk;
    }
    uint32_t producer;
    if (!buffer.read(host, producer_offset,
                     {reinterpret_cast<uint8_t*>(&producer), sizeof producer})) {
        return QueueRead::kMemory;
    }
    queue.found = producer;
    // Orders the loads of the entries after the load of the producer.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (producer - queue.consumer > queue.depth() - held) {
        return QueueRead::kOverrun;
    }
    queue.producer = producer;
    return QueueRead::kOk;
}

bool copy_entry(Host& host, const GuestBuffer& buffer, const WorkQueue& queue, uint32_t counter,
                std::span<uint8_t> to) {
    return buffer.read(host, entry_offset(queue, counter), to);
}

}  // namespace pib::hca
