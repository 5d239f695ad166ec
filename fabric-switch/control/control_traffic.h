// SPDX-License-Identifier: GPL-2.0-or-later
// The figures of a switch that traffic changes, as rows of numbers: a program that reads a large
// fabric every second takes much less time for them than for "status" and "counters".
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "switch/switch.h"

namespace pib::fabric {

[[nodiscard]] nlohmann::json traffic(Switch& sw, const nlohmann::json& request);

}  // namespace pib::fabric
