// SPDX-License-Identifier: GPL-2.0-or-later
// Finds send WQEs of a strict device for which software has rung no doorbell. Only QPs of UAR 0,
// the driver's, are watched: a process may stop for any time between its store of sq_producer and
// its doorbell.
#pragma once

#include <cstdint>

#include "base/host.h"
#include "qp/qp.h"
#include "strict/repeated_looks.h"
#include "strict/strict.h"

namespace pib::hca {

class DoorbellWatch {
  public:
    DoorbellWatch(Host& host, Strict& strict) : host_(host), strict_(strict), looks_(host) {}

    // The device has been enabled.
    void start() { looks_.start(); }
    // The device has been reset.
    void stop() { looks_.stop(); }
    uint64_t next_deadline() const { return looks_.next_deadline(); }
    // If the deadline has passed, looks at all QPs of `qps`. Reports a QP whose WQEs have waited
    // for more than Strict::kSteps * kStepNs.
    template <typename Qps>
    void timer(uint64_t now_ns, Qps& qps) {
        if (looks_.begin(now_ns)) {
            qps.for_each([&](const QueuePair& qp) { look_at(qp); });
        }
    }

  private:
    void look_at(const QueuePair& qp);
    uint32_t unknown_wqes(const QueuePair& qp) const;

    Host& host_;
    Strict& strict_;
    RepeatedLooks<uint32_t> looks_;  // by QP number: the producer that the device has read
};

}  // namespace pib::hca
