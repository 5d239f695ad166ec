// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "base/config.h"

namespace pib::hca {

// Why no device can have this configuration, as one line for the user; empty: it is valid.
std::string config_fault(const Config& config);

}  // namespace pib::hca
