// SPDX-License-Identifier: GPL-2.0-or-later
// The time that commands of an adversarial device take. A command has two steps, its execution and
// its completion, and each may wait; both together take no longer than the manual permits.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/adversary.h"
#include "base/host.h"

namespace pib::hca {

class CommandPace {
  public:
    CommandPace(Host& host, Adversary* adversary) : host_(host), adversary_(adversary) {}

    // Whether the next step waits. The command queue calls this again until the result is false.
    [[nodiscard]] bool waits() {
        if (adversary_ == nullptr) [[likely]] {
            return false;
        }
        const uint64_t now = host_.now_ns();
        begun_ns_ = std::min(begun_ns_, now);
        if (until_ns_ == 0) {
            const uint64_t wait = adversary_->command_wait();
            until_ns_ = std::min(now + wait, begun_ns_ + Adversary::kCommandNs);
        }
        if (until_ns_ > now) {
            return true;
        }
        until_ns_ = 0;
        return false;
    }
    // The command is complete. The time of the next command begins at its first waits().
    void completed() { begun_ns_ = kNever; }
    [[nodiscard]] bool is_waiting() const { return until_ns_ != 0; }
    uint64_t next_deadline() const { return is_waiting() ? until_ns_ : kNever; }
    void reset() {
        until_ns_ = 0;
        completed();
    }

  private:
    Host& host_;
    Adversary* const adversary_;  // nullptr: no step waits
    uint64_t until_ns_ = 0;       // end of the wait; 0: no step waits
    uint64_t begun_ns_ = kNever;  // time of the command's first waits()
};

}  // namespace pib::hca
