// SPDX-License-Identifier: GPL-2.0-or-later
#include "mmio/doorbell_watch.h"

#include "mmio/device_objects.h"
#include "qp/qp_checks.h"

namespace pib::hca {

namespace {

// States in which only a doorbell makes the device read the producer. It also reads that of a QP in
// SQD when the QP goes back to RTS.
bool needs_doorbells(QpState state) {
    return state == QpState::kRts || state == QpState::kSqe || state == QpState::kErr;
}

}  // namespace

void DoorbellWatch::stop() {
    deadline_ns_ = kNever;
    unrung_.clear();
}

// Number of WQEs that the QP's header announces and that the device does not know. A producer that
// cannot be right breaks another rule.
uint32_t DoorbellWatch::unknown_wqes(const QueuePair& qp) const {
    if (qp.uar != kKernelUar || !qp.sq.present || !needs_doorbells(qp.state)) {
        return 0;
    }
    const uint32_t posted = send_producer_in_memory(host_, qp) - qp.sq.producer;
    return posted <= qp.sq.depth() ? posted : 0;
}

DoorbellWatch::Unrung DoorbellWatch::look_again(const QueuePair& qp, uint32_t posted) {
    Unrung now{.known = qp.sq.producer, .looks = 1};
    const auto before = unrung_.find(qp.qpn);
    if (before != unrung_.end() && before->second.known == now.known) {
        now.looks = before->second.looks + 1;
    }
    if (now.looks > Strict::kSteps) {
        strict_.broken(Rule::kSendUnrung, {Thing::kQp, qp.qpn}, now.known + posted,
                       Strict::kSteps * Strict::kStepNs / 1'000'000'000);
    }
    return now;
}

}  // namespace pib::hca
