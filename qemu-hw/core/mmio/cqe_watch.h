// SPDX-License-Identifier: GPL-2.0-or-later
// Finds CQEs of a strict device that a driver does not take although no event will tell it of them.
// Only CQs of UAR 0, the driver's, are watched: a process may stop for any time.
#pragma once

#include <cstdint>

#include "base/host.h"
#include "queues/cq.h"
#include "strict/repeated_looks.h"
#include "strict/strict.h"

namespace pib::hca {

class CqeWatch {
  public:
    CqeWatch(Host& host, Strict& strict) : host_(host), strict_(strict), looks_(host) {}

    // The device has been enabled.
    void start() { looks_.start(); }
    // The device has been reset.
    void stop() { looks_.stop(); }
    uint64_t next_deadline() const { return looks_.next_deadline(); }
    // If the deadline has passed, looks at all CQs of `cqs`. Reports a CQ whose CQEs have waited
    // for more than Strict::kSteps * kStepNs.
    template <typename Cqs>
    void timer(uint64_t now_ns, Cqs& cqs) {
        if (looks_.begin(now_ns)) {
            cqs.for_each([&](uint32_t cqn, const CompletionQueue& cq) { look_at(cqn, cq); });
        }
    }

  private:
    struct Left {
        uint32_t consumer;
        uint32_t armings;  // as counted by the CQ
        bool operator==(const Left&) const = default;
    };

    void look_at(uint32_t cqn, const CompletionQueue& cq);
    [[nodiscard]] static bool waits(const CompletionQueue& cq, uint32_t consumer);

    Host& host_;
    Strict& strict_;
    RepeatedLooks<Left> looks_;  // by CQ number
};

}  // namespace pib::hca
