// SPDX-License-Identifier: GPL-2.0-or-later
// The verbs of ibsim's console, as control_verbs.cc lists them.
#pragma once

#include <expected>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "fabric/fabric.h"

namespace pib::fabric {

// Runs one line. Empty lines and comments (#) do nothing. The error is one line for a user.
[[nodiscard]] std::expected<void, std::string> run_verb(Fabric& fabric, std::string_view line);
// The request {"command": "run", "line": TEXT}.
[[nodiscard]] nlohmann::json verb_command(Fabric& fabric, const nlohmann::json& request);

}  // namespace pib::fabric
