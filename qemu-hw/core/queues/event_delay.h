// SPDX-License-Identifier: GPL-2.0-or-later
// Delays events of an adversarial device although their queue has room, and chooses the order in
// which they are written.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/adversary.h"
#include "base/host.h"

namespace pib::hca {

class EventDelay {
  public:
    EventDelay(Host& host, Adversary* adversary) : host_(host), adversary_(adversary) {}

    // Whether an event that is raised now must wait.
    [[nodiscard]] bool holds() {
        if (adversary_ == nullptr) [[likely]] {
            return false;
        }
        const uint64_t wait = adversary_->event_wait();
        if (wait != 0) {
            until_ns_ = std::min(until_ns_, host_.now_ns() + wait);
        }
        return wait != 0;
    }
    // The index of the waiting event that is written next.
    size_t choose(size_t waiting) {
        return adversary_ == nullptr
                   ? 0
                   : static_cast<size_t>(adversary_->below(Adversity::kEvents, waiting));
    }
    uint64_t next_deadline() const { return until_ns_; }
    void reset() { until_ns_ = kNever; }

  private:
    Host& host_;
    Adversary* const adversary_;  // nullptr: no event waits
    uint64_t until_ns_ = kNever;
};

}  // namespace pib::hca
