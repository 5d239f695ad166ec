// SPDX-License-Identifier: GPL-2.0-or-later
#include "mmio/cqe_watch.h"

#include "mmio/device_objects.h"
#include "queues/cq_checks.h"

namespace pib::hca {

void CqeWatch::stop() {
    deadline_ns_ = kNever;
    left_.clear();
}

uint32_t CqeWatch::consumer_of(const CompletionQueue& cq) const {
    return cq.uar == kKernelUar ? consumer_in_memory(host_, cq) : cq.producer;
}

// Whether CQEs wait of which no event is to come, and the driver has taken none since the last
// event or, without an event, at all. Once it has taken one, it polls the CQ and may do so at any
// time. A driver that never arms a CQ of sends only may also poll it when it needs room: SRP does
// so before its next send. A consumer that cannot be right breaks another rule.
bool CqeWatch::waits(const CompletionQueue& cq, uint32_t consumer) {
    const uint32_t waiting = cq.producer - consumer;
    return waiting != 0 && waiting <= 1u << cq.log_depth && consumer == cq.told_at &&
           cq.arm == CqArm::kNone && !cq.held && !cq.error && (cq.armings != 0 || cq.received);
}

CqeWatch::Left CqeWatch::look_again(uint32_t cqn, const CompletionQueue& cq, uint32_t consumer) {
    Left now{.consumer = consumer, .armings = cq.armings, .looks = 1};
    const auto before = left_.find(cqn);
    if (before != left_.end() && before->second.consumer == now.consumer &&
        before->second.armings == now.armings) {
        now.looks = before->second.looks + 1;
    }
    if (now.looks > Strict::kSteps) {
        strict_.broken(Rule::kCqeLeft, {Thing::kCq, cqn}, consumer,
                       Strict::kSteps * Strict::kStepNs / 1'000'000'000);
    }
    return now;
}

}  // namespace pib::hca
