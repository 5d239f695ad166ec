// SPDX-License-Identifier: GPL-2.0-or-later
// Requests for one switch, and functions that all requests use.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "switch/switch.h"

namespace pib::fabric {

[[nodiscard]] bool is_switch_command(const std::string& name);
// status, counters, traffic, lft, mft, link, fault, journal, vls; see control_commands.cc. Every
// request gets an answer.
[[nodiscard]] nlohmann::json run_switch_command(Switch& sw, const nlohmann::json& request);

// {"ok": false, "error": text}
[[nodiscard]] nlohmann::json control_failure(const std::string& text);
[[nodiscard]] nlohmann::json no_such_command(const std::string& name);
// The counter with this name in "ctl counters"; no value if there is none.
[[nodiscard]] std::optional<ib::Counter> counter_named(std::string_view name);
// "0x" and at least `digits` hexadecimal digits.
[[nodiscard]] std::string hex(uint64_t value, int digits);

}  // namespace pib::fabric
