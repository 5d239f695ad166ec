// SPDX-License-Identifier: GPL-2.0-or-later
// Decides when an adversarial device stops, is reset, or is gone for a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/adversary.h"
#include "base/host.h"

namespace pib::hca {

class DeviceEnds {
  public:
    DeviceEnds(Host& host, Adversary& adversary) : host_(host), adversary_(adversary) {}

    // How the device ends now; no value: it does not end now.
    [[nodiscard]] std::optional<SuddenEnd> take_due() {
        const uint64_t now = host_.now_ns();
        const bool drawn = next_ns_ != 0;
        if (!drawn) {
            next_ns_ = now + adversary_.next_end();
        }
        if (!drawn || now < next_ns_) {
            return std::nullopt;
        }
        const SuddenEnd end = static_cast<SuddenEnd>(adversary_.below(Adversity::kEnd, 3));
        back_ns_ = end == SuddenEnd::kGone
                       ? now + 1 + adversary_.below(Adversity::kEnd, kLongestGoneNs)
                       : 0;
        next_ns_ = std::max(now, back_ns_) + adversary_.next_end();
        return end;
    }
    [[nodiscard]] bool is_gone() const { return host_.now_ns() < back_ns_; }

  private:
    static constexpr uint64_t kLongestGoneNs = 5'000'000'000;

    Host& host_;
    Adversary& adversary_;
    uint64_t next_ns_ = 0;  // time of the next end; 0: not drawn yet
    uint64_t back_ns_ = 0;
};

}  // namespace pib::hca
