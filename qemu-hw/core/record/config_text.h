// SPDX-License-Identifier: GPL-2.0-or-later
// The configuration of a device as lines "name=value", for the header of a recording. The text
// leaves out Config::peer_copy, because a recorded device makes no peer copy.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "base/config.h"

namespace pib::hca::record {

std::string config_to_text(const Config& config);
// A value that the text lacks keeps its default. The error is one line for a user: a name in the
// text is unknown, or its value is invalid.
[[nodiscard]] std::expected<Config, std::string> config_from_text(std::string_view text);

}  // namespace pib::hca::record
