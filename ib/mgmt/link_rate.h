// SPDX-License-Identifier: GPL-2.0-or-later
// How fast links and paths are: the codes of PathRecord:Rate, which static rates are given in too
// (IBA 15.2.5.16, 9.11), and the width and speed that are active at a port.
#pragma once

#include <cstdint>

#include "ib/mgmt/port_attrs.h"

namespace pib::ib {

// Codes above this one are reserved.
inline constexpr std::uint8_t kMaxRateCode = 22;

// Bytes of packets that go at such a rate, in units of 10^6 bits a second: without what 8b/10b and
// 64b/66b add. 0 for a code that says no rate.
[[nodiscard]] std::uint32_t data_mbps(std::uint8_t rate_code);
// The same of LinkWidthActive and LinkSpeedActive, or LinkSpeedExtActive.
[[nodiscard]] std::uint32_t active_data_mbps(const Port& port);

}  // namespace pib::ib
