// SPDX-License-Identifier: GPL-2.0-or-later
#include "mmio/doorbell_watch.h"

#include "mmio/device_objects.h"
#include "qp/qp_checks.h"

namespace pib::hca {

namespace {

// States in which only a doorbell makes the device read the producer. In SQD the device also reads
// it when the QP goes back to RTS.
bool needs_doorbells(QpState state) {
    return state == QpState::kRts || state == QpState::kSqe || state == QpState::kErr;
}

}  // namespace

// Number of WQEs that the QP's header announces and that the device does not know. An impossible
// producer breaks another rule.
uint32_t DoorbellWatch::unknown_wqes(const QueuePair& qp) const {
    if (qp.uar != kKernelUar || !qp.sq.present || !needs_doorbells(qp.state)) {
        return 0;
    }
    const uint32_t posted = send_producer_in_memory(host_, qp) - qp.sq.producer;
    return posted <= qp.sq.depth() ? posted : 0;
}

void DoorbellWatch::look_at(const QueuePair& qp) {
    const uint32_t posted = unknown_wqes(qp);
    if (posted != 0 && looks_.waits_too_long(qp.qpn, qp.sq.producer)) {
        strict_.broken(Rule::kSendUnrung, {Thing::kQp, qp.qpn}, qp.sq.producer + posted,
                       looks_.kSeconds);
    }
}

}  // namespace pib::hca
