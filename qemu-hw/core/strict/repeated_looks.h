// SPDX-License-Identifier: GPL-2.0-or-later
// Looks at all objects of a strict device each Strict::kStepNs, and counts how many looks in a row
// have found an object waiting in the same state.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "base/host.h"
#include "strict/strict.h"

namespace pib::hca {

// `State`: the part of an object that two looks compare by ==; a change of it ends the wait.
template <typename State>
class RepeatedLooks {
  public:
    // Number of seconds for which an object may wait.
    static constexpr uint64_t kSeconds = Strict::kSteps * Strict::kStepNs / 1'000'000'000;

    explicit RepeatedLooks(Host& host) : host_(host) {}

    // The device has been enabled.
    void start() { deadline_ns_ = host_.now_ns() + Strict::kStepNs; }
    // The device has been reset.
    void stop() {
        deadline_ns_ = kNever;
        before_.clear();
        now_.clear();
    }
    [[nodiscard]] uint64_t next_deadline() const { return deadline_ns_; }
    // Begins a look if it is due; false: it is not.
    [[nodiscard]] bool begin(uint64_t now_ns) {
        if (now_ns < deadline_ns_) {
            return false;
        }
        deadline_ns_ = now_ns + Strict::kStepNs;
        before_ = std::exchange(now_, {});
        return true;
    }
    // This look has found the object waiting. True: it has waited for more than kSeconds.
    [[nodiscard]] bool waits_too_long(uint32_t number, const State& state) {
        const auto before = before_.find(number);
        const bool same = before != before_.end() && before->second.state == state;
        const unsigned looks = same ? before->second.looks + 1 : 1;
        now_.emplace(number, Waiting{.state = state, .looks = looks});
        return looks > Strict::kSteps;
    }

  private:
    struct Waiting {
        State state;
        unsigned looks;
    };
    using ByNumber = std::map<uint32_t, Waiting>;

    Host& host_;
    uint64_t deadline_ns_ = kNever;
    ByNumber before_;  // objects that the previous look has found waiting
    ByNumber now_;
};

}  // namespace pib::hca
