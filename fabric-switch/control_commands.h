// SPDX-License-Identifier: GPL-2.0-or-later
// What an operator can ask of a running switch: {"command": NAME, ...} in, {"ok": true, ...} or
// {"ok": false, "error": TEXT} out. The commands and their members are listed in
// control_commands.cc.
#pragma once

#include <expected>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "fault_stage.h"
#include "switch.h"

namespace pib::fabric {

// One line of text in, one line out, whatever the line is.
[[nodiscard]] std::string run_control_line(Switch& sw, std::string_view line);
[[nodiscard]] nlohmann::json run_control_command(Switch& sw, const nlohmann::json& request);

// A fault specification from members drop, duplicate, reorder, corrupt (0..1), reorder_depth,
// delay_us, jitter_us, seed, vl15 (boolean), opcode. The error is one line for a user.
[[nodiscard]] std::expected<FaultSpec, std::string> fault_spec_from(const nlohmann::json& members);

// Sets the faults of a port: "both", "in" (from the neighbour to the switch) or "out".
[[nodiscard]] std::expected<void, std::string> set_faults(SwitchPort& port,
                                                          const std::string& direction,
                                                          const FaultSpec& spec);

// The --fault option: PORT:NAME=VALUE,... with PORT a number or "all", the names of
// fault_spec_from() and "direction". The error is one line for a user.
[[nodiscard]] std::expected<void, std::string> apply_fault_option(Switch& sw,
                                                                  const std::string& text);

}  // namespace pib::fabric
