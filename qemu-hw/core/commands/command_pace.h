// SPDX-License-Identifier: GPL-2.0-or-later
// The time that commands of an adversarial device take. A command has two steps, its execution and
// its completion, and each may wait.
#pragma once

#include <cstdint>

#include "base/adversary.h"
#include "base/host.h"

namespace pib::hca {

class CommandPace {
  public:
    CommandPace(Host& host, Adversary* adversary) : host_(host), adversary_(adversary) {}

    // Whether the next step waits. The command queue asks until it may go on.
    bool waits() {
        if (adversary_ == nullptr) [[likely]] {
            return false;
        }
        if (until_ns_ == 0) {
            const uint64_t wait = adversary_->command_wait();
            until_ns_ = wait == 0 ? 0 : host_.now_ns() + wait;
        }
        if (until_ns_ > host_.now_ns()) {
            return true;
        }
        until_ns_ = 0;
        return false;
    }
    bool is_waiting() const { return until_ns_ != 0; }
    uint64_t next_deadline() const { return is_waiting() ? until_ns_ : kNever; }
    void reset() { until_ns_ = 0; }

  private:
    Host& host_;
    Adversary* const adversary_;  // nullptr: no step waits
    uint64_t until_ns_ = 0;       // 0: nothing waits
};

}  // namespace pib::hca
