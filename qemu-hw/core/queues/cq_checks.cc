// SPDX-License-Identifier: GPL-2.0-or-later
#include "queues/cq_checks.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "pib_hca_hw.h"

namespace pib::hca {

void check_new_cq(Strict& strict, uint32_t cqn, const CompletionQueue& cq) {
    const uint32_t depth = 1u << cq.log_depth;
    strict.queue_created(
        {Thing::kCq, cqn}, cq.buffer,
        {.bytes = PIB_HCA_QUEUE_HEADER_SIZE + uint64_t{sizeof(pib_hca_cqe)} * depth,
         .header = PIB_HCA_QUEUE_HEADER_SIZE,
         .entry_size = sizeof(pib_hca_cqe),
         .entries = depth});
}

void check_cq_header(Host& host, Strict& strict, uint32_t cqn, CompletionQueue& cq) {
    const Subject subject{Thing::kCq, cqn};
    pib_hca_cq_header header;
    if (!cq.buffer.read(host, 0, {reinterpret_cast<uint8_t*>(&header), sizeof header})) {
        strict.memory_lost(subject);
        return;
    }
    if (std::ranges::any_of(header.reserved, [](auto word) { return word != 0; })) {
        strict.broken(Rule::kHeaderReserved, subject);
    }
    if (strict.consumer_moved(subject, cq.consumer, header.consumer, cq.producer)) {
        cq.consumer = header.consumer;
    }
}

void check_cq_arming(Strict& strict, uint32_t cqn, CompletionQueue& cq, uint32_t counter,
                     bool missed) {
    const Subject subject{Thing::kCq, cqn};
    strict.arm_counter(subject, counter, cq.producer);
    ++cq.armings;
    const bool other = std::exchange(cq.armed_at, counter) != counter;
    if (other || !missed) {
        cq.armed_again = 0;
    } else if (cq.armed_again++ == Strict::kMostArmings) {
        strict.broken(Rule::kCqArmedAgain, subject, counter, Strict::kMostArmings);
    }
}

uint32_t consumer_in_memory(Host& host, const CompletionQueue& cq) {
    uint32_t consumer;
    const bool read = cq.buffer.read(host, offsetof(pib_hca_cq_header, consumer),
                                     {reinterpret_cast<uint8_t*>(&consumer), sizeof consumer});
    return read ? consumer : cq.producer;
}

void check_cq_ring(Strict& strict, uint32_t cqn, const CompletionQueue& cq) {
    strict.check_ring({Thing::kCq, cqn},
                      {.buffer = cq.buffer,
                       .header = PIB_HCA_QUEUE_HEADER_SIZE,
                       .entry_size = sizeof(pib_hca_cqe),
                       .log_depth = cq.log_depth},
                      cq.producer);
}

}  // namespace pib::hca
