// SPDX-License-Identifier: GPL-2.0-or-later
// The difference between the time of day and a monotonic clock, for captures.
#pragma once

#include <chrono>
#include <cstdint>

namespace pib::fabric {

// The nanoseconds since 1970 minus `now_ns`, the present time of a monotonic clock.
inline int64_t wall_offset_ns(uint64_t now_ns) {
    const auto wall = std::chrono::system_clock::now().time_since_epoch();
    return wall / std::chrono::nanoseconds(1) - static_cast<int64_t>(now_ns);
}

}  // namespace pib::fabric
