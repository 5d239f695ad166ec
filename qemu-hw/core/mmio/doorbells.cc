// SPDX-License-Identifier: GPL-2.0-or-later
#include "mmio/doorbells.h"

namespace pib::hca {

bool Doorbells::waits(uint32_t uar, uint32_t qpn, bool send) {
    const QueuePair* qp = transport_.verbs().look_at(qpn);
    if (qp == nullptr || qp->uar != uar) {
        return false;
    }
    if (send) {
        rung_[next_++ % kRemembered] = qpn;
    }
    const uint64_t wait = adversary_->fetch_wait();
    if (wait != 0) {
        late_.set(2 * qpn + (send ? 1 : 0), host_.now_ns() + wait);
    }
    return wait != 0;
}

void Doorbells::look_early() {
    if (!adversary_->looks_early()) {
        return;
    }
    const uint32_t qpn = rung_[adversary_->below(Adversity::kFetches, kRemembered)];
    if (const QueuePair* qp = transport_.verbs().look_at(qpn)) {
        (void)transport_.send_doorbell(qp->uar, qpn);
    }
}

// The QP may have been destroyed meanwhile. If a new QP has its number, the superfluous doorbell is
// harmless.
void Doorbells::timer(uint64_t now_ns) {
    for (uint32_t id = late_.take_due(now_ns); id != Timers::kNone; id = late_.take_due(now_ns)) {
        const uint32_t qpn = id / 2;
        const QueuePair* qp = transport_.verbs().look_at(qpn);
        if (qp == nullptr) {
            continue;
        }
        if (id % 2 != 0) {
            (void)transport_.send_doorbell(qp->uar, qpn);
        } else {
            (void)transport_.recv_doorbell(qp->uar, qpn);
        }
    }
}

}  // namespace pib::hca
