// SPDX-License-Identifier: GPL-2.0-or-later
// The moments at which the link of an adversarial device goes down: a few, soon after each reset.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/adversary.h"
#include "base/host.h"

namespace pib::hca {

class PortFlaps {
  public:
    PortFlaps(Host& host, Adversary* adversary) : host_(host), adversary_(adversary) {}

    void reset() {
        moments_.clear();
        if (adversary_ == nullptr || !adversary_->plays(Adversity::kPorts)) {
            return;
        }
        for (unsigned left = adversary_->flaps(); left > 0; --left) {
            moments_.push_back(host_.now_ns() + adversary_->next_flap());
        }
        std::ranges::sort(moments_, std::greater<>());
    }
    uint64_t next_deadline() const { return moments_.empty() ? kNever : moments_.back(); }
    // Whether the link must go down now. If so, removes the moment.
    [[nodiscard]] bool take_due(uint64_t now_ns) {
        if (next_deadline() > now_ns) {
            return false;
        }
        moments_.pop_back();
        return true;
    }

  private:
    Host& host_;
    Adversary* const adversary_;     // nullptr: the device is not adversarial
    std::vector<uint64_t> moments_;  // latest first; the next moment is at the end
};

}  // namespace pib::hca
