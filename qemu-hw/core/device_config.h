// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "base/config.h"

namespace pib::hca {

// The reason, one line for a user, why no device can have this configuration; empty if one can.
std::string config_fault(const Config& config);

}  // namespace pib::hca
