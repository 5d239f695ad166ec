// SPDX-License-Identifier: GPL-2.0-or-later
// Finds CQEs of a strict device that a driver does not take although no event will tell it of them.
// Only CQs of UAR 0, the driver's, are watched: a process may stop for any time.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "base/host.h"
#include "queues/cq.h"
#include "strict/strict.h"

namespace pib::hca {

class CqeWatch {
  public:
    CqeWatch(Host& host, Strict& strict) : host_(host), strict_(strict) {}

    // The device has been enabled.
    void start() { deadline_ns_ = host_.now_ns() + Strict::kStepNs; }
    // The device has been reset.
    void stop();
    uint64_t next_deadline() const { return deadline_ns_; }
    // If the deadline has passed, looks at all CQs, which `cqs` passes to the function that its
    // for_each() gets. Reports a CQ whose CQEs have waited for more than Strict::kSteps * kStepNs.
    template <typename Cqs>
    void timer(uint64_t now_ns, Cqs& cqs) {
        if (now_ns < deadline_ns_) {
            return;
        }
        deadline_ns_ = now_ns + Strict::kStepNs;
        std::map<uint32_t, Left> found;
        cqs.for_each([&](uint32_t cqn, const CompletionQueue& cq) {
            const uint32_t consumer = consumer_of(cq);
            if (waits(cq, consumer)) {
                found.emplace(cqn, look_again(cqn, cq, consumer));
            }
        });
        left_ = std::move(found);
    }

  private:
    struct Left {
        uint32_t consumer = 0;
        uint32_t armings = 0;  // as counted by the CQ
        unsigned looks = 0;
    };

    uint32_t consumer_of(const CompletionQueue& cq) const;
    [[nodiscard]] static bool waits(const CompletionQueue& cq, uint32_t consumer);
    Left look_again(uint32_t cqn, const CompletionQueue& cq, uint32_t consumer);

    Host& host_;
    Strict& strict_;
    uint64_t deadline_ns_ = kNever;
    std::map<uint32_t, Left> left_;  // by CQ number
};

}  // namespace pib::hca
