// SPDX-License-Identifier: GPL-2.0-or-later
#include "mmio/cqe_watch.h"

#include "mmio/device_objects.h"
#include "queues/cq_checks.h"

namespace pib::hca {

// Whether CQEs wait, no event will report them, and the driver has taken no CQE since the last
// event, or ever if there was no event. A driver that has taken a CQE since then polls the CQ, and
// may poll at any time. A CQ that has only sends and was never armed does not count: its driver may
// poll when it needs room, as SRP does before its next send. An impossible consumer breaks another
// rule.
bool CqeWatch::waits(const CompletionQueue& cq, uint32_t consumer) {
    const uint32_t waiting = cq.producer - consumer;
    return waiting != 0 && waiting <= 1u << cq.log_depth && consumer == cq.told_at &&
           cq.arm == CqArm::kNone && !cq.held && !cq.error && (cq.armings != 0 || cq.received);
}

void CqeWatch::look_at(uint32_t cqn, const CompletionQueue& cq) {
    if (cq.uar != kKernelUar) {
        return;
    }
    const uint32_t consumer = consumer_in_memory(host_, cq);
    if (waits(cq, consumer) &&
        looks_.waits_too_long(cqn, {.consumer = consumer, .armings = cq.armings})) {
        strict_.broken(Rule::kCqeLeft, {Thing::kCq, cqn}, consumer, looks_.kSeconds);
    }
}

}  // namespace pib::hca
