// SPDX-License-Identifier: GPL-2.0-or-later
// Converts fault specifications of requests, and applies them.
#pragma once

#include <expected>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "switch/switch_port.h"

namespace pib::fabric {

// A fault specification from members drop, duplicate, reorder, corrupt (0..1), reorder_depth,
// delay_us, jitter_us, seed, vl15 and mads_only (boolean), opcode, attribute. The error is one line
// for a user.
[[nodiscard]] std::expected<FaultSpec, std::string> fault_spec_from(const nlohmann::json& members);

inline constexpr const char* kFaultDirections = "in, out or both";

// Sets the faults of a port. `direction`: "in" (from the neighbour to the switch), "out" or "both".
// The error is one line for a user.
[[nodiscard]] std::expected<void, std::string> set_faults(SwitchPort& port,
                                                          const std::string& direction,
                                                          const FaultSpec& spec);

// Describes faults in words: "drop 0.5, delay 10 us", or "none".
[[nodiscard]] std::string describe_faults(const FaultSpec& spec);

}  // namespace pib::fabric
