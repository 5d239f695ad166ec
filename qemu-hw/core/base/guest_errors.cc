// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/guest_errors.h"

namespace pib::hca {

namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;

}  // namespace

bool GuestErrors::admit(LogLevel level) {
    const uint64_t now_ns = host_.now_ns();
    if (now_ns - second_begins_ns_ >= kSecondNs) {
        second_begins_ns_ = now_ns;
        lines_ = 0;
    }
    if (lines_ == kLinesPerSecond) {
        ++left_out_;
        return false;
    }
    if (left_out_ != 0) {
        host_.log(level, "pib-hca: " + std::to_string(left_out_) + " lines were left out");
        left_out_ = 0;
    }
    ++lines_;
    return true;
}

}  // namespace pib::hca
