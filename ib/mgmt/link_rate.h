// SPDX-License-Identifier: GPL-2.0-or-later
// Rates of links and paths: the codes of PathRecord:Rate, also used for static rates (IBA
// 15.2.5.16, 9.11), and the active width and speed of a port.
#pragma once

#include <cstdint>

#include "ib/mgmt/port_attrs.h"

namespace pib::ib {

// The code of 600 Gb/s, the highest that has a rate here; faster rates have higher codes.
inline constexpr uint8_t kMaxRateCode = 22;

// Data rate of packets in 10^6 bits a second, without the overhead of 8b/10b and 64b/66b. 0 for a
// code without a rate.
[[nodiscard]] uint32_t data_mbps(uint8_t rate_code);
// The data rate of a port by its LinkWidthActive and its LinkSpeedActive or LinkSpeedExtActive, in
// 10^6 bits a second; 0 for values without a rate.
[[nodiscard]] uint32_t active_data_mbps(const PortAttrs& port);

}  // namespace pib::ib
