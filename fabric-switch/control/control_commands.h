// SPDX-License-Identifier: GPL-2.0-or-later
// An operator's commands for a running fabric: {"command": NAME, ...} in, {"ok": true, ...} or
// {"ok": false, "error": TEXT} out. The commands and their members are listed in
// control_commands.cc.
#pragma once

#include <expected>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "fabric/fabric.h"

namespace pib::fabric {

// Parses one line as a request. The result is not an object if the line is not a request.
[[nodiscard]] nlohmann::json parse_control_line(std::string_view line);
// Answers one line of text, valid or not, by one line.
[[nodiscard]] std::string run_control_line(Fabric& fabric, std::string_view line);
[[nodiscard]] nlohmann::json run_control_command(Fabric& fabric, const nlohmann::json& request);

// The --fault option: PORT:NAME=VALUE,... with PORT a number, NODE[NUMBER] or "all", and NAME a
// member of fault_spec_from() or "direction". The error is one line for a user.
[[nodiscard]] std::expected<void, std::string> apply_fault_option(Fabric& fabric,
                                                                  const std::string& text);

}  // namespace pib::fabric
