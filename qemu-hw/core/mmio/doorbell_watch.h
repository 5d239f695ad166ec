// SPDX-License-Identifier: GPL-2.0-or-later
// Finds send WQEs of a strict device for which software has rung no doorbell. Only QPs of UAR 0,
// the driver's, are watched: a process may stop for any time between its store of sq_producer and
// its doorbell.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "base/host.h"
#include "qp/qp.h"
#include "strict/strict.h"

namespace pib::hca {

class DoorbellWatch {
  public:
    DoorbellWatch(Host& host, Strict& strict) : host_(host), strict_(strict) {}

    // The device has been enabled.
    void start() { deadline_ns_ = host_.now_ns() + Strict::kStepNs; }
    // The device has been reset.
    void stop();
    uint64_t next_deadline() const { return deadline_ns_; }
    // If the deadline has passed, looks at all QPs, which `qps` passes to the function that its
    // for_each() gets. Reports a QP whose WQEs have waited for more than Strict::kSteps * kStepNs.
    template <typename Qps>
    void timer(uint64_t now_ns, Qps& qps) {
        if (now_ns < deadline_ns_) {
            return;
        }
        deadline_ns_ = now_ns + Strict::kStepNs;
        std::map<uint32_t, Unrung> found;
        qps.for_each([&](const QueuePair& qp) {
            if (const uint32_t posted = unknown_wqes(qp); posted != 0) {
                found.emplace(qp.qpn, look_again(qp, posted));
            }
        });
        unrung_ = std::move(found);
    }

  private:
    struct Unrung {
        uint32_t known = 0;  // the producer that the device has read
        unsigned looks = 0;
    };

    uint32_t unknown_wqes(const QueuePair& qp) const;
    Unrung look_again(const QueuePair& qp, uint32_t posted);

    Host& host_;
    Strict& strict_;
    uint64_t deadline_ns_ = kNever;
    std::map<uint32_t, Unrung> unrung_;  // by QP number
};

}  // namespace pib::hca
