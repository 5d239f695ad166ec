// SPDX-License-Identifier: GPL-2.0-or-later
// The client of the control socket: `pib-switch ctl`.
#pragma once

#include "options.h"

namespace pib::fabric {

// Sends one request and prints the answer, as JSON or for people. The exit status of the program.
[[nodiscard]] int run_ctl(const CtlOptions& options);

}  // namespace pib::fabric
