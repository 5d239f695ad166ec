// SPDX-License-Identifier: GPL-2.0-or-later
// The values of a switch's ports that traffic changes, as rows of numbers (docs/pib-switch.md): a
// program that polls a large fabric needs much less time for them than for "status" and "counters".
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "switch/switch.h"

namespace pib::fabric {

// Answers the request "traffic": a row for each port that has had a neighbour.
[[nodiscard]] nlohmann::json traffic(Switch& sw, const nlohmann::json& request);

}  // namespace pib::fabric
