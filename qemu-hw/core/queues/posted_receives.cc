// SPDX-License-Identifier: GPL-2.0-or-later
#include "queues/posted_receives.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <span>

#include "pib_hca_hw.h"
#include "queues/wqe.h"

namespace pib::hca {
namespace {

PostedReceive decoded(std::span<const uint8_t> wqe, uint32_t counter, bool shared) {
    const auto data = decode_recv_wqe(wqe, shared);
    return {.counter = shared ? recv_wqe_id(wqe) : counter,
            .bytes = data ? data->length : 0,
            .num_sge = data ? data->num_sge : uint8_t{0},
            .valid = data.has_value()};
}

std::optional<uint32_t> producer_in(Host& host, const GuestBuffer& buffer, ReceiveRing ring) {
    const uint64_t offset = ring == ReceiveRing::kShared ? offsetof(pib_hca_srq_header, producer)
                                                         : offsetof(pib_hca_qp_header, rq_producer);
    uint32_t producer;
    if (!buffer.look(host, offset, {reinterpret_cast<uint8_t*>(&producer), sizeof producer})) {
        return std::nullopt;
    }
    // Orders the loads of the entries after the load of the producer.
    std::atomic_thread_fence(std::memory_order_acquire);
    return producer;
}

}  // namespace

std::optional<PostedReceives> posted_receives(Host& host, const GuestBuffer& buffer,
                                              const WorkQueue& queue, ReceiveRing ring,
                                              uint32_t most) {
    if (!queue.present) {
        return PostedReceives{};
    }
    const auto producer = producer_in(host, buffer, ring);
    if (!producer || *producer - queue.consumer > queue.depth()) {
        return std::nullopt;
    }
    PostedReceives found{.count = *producer - queue.consumer, .entries = {}};
    std::array<uint8_t, size_t{1} << kMaxLogWqeStride> bytes;
    const std::span<uint8_t> wqe = std::span(bytes).first(queue.stride());
    for (uint32_t n = 0; n < std::min(found.count, most); ++n) {
        const uint32_t counter = queue.consumer + n;
        if (!buffer.look(host, entry_offset(queue, counter), wqe)) {
            return std::nullopt;
        }
        found.entries.push_back(decoded(wqe, counter, ring == ReceiveRing::kShared));
    }
    return found;
}

}  // namespace pib::hca
