// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "base/config.h"

namespace pib::hca {

// Checks a configuration. Returns what is wrong with it, as one line for the user, or "".
std::string config_fault(const Config& config);

}  // namespace pib::hca
