// SPDX-License-Identifier: GPL-2.0-or-later
// The client of the control socket: `pib-switch ctl`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace pib::fabric {

// Sends one request and prints the answer, as JSON or for people. The exit status of the program.
int run_ctl(const std::string& control_path, const nlohmann::json& request, bool as_json);

}  // namespace pib::fabric
