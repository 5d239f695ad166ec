// SPDX-License-Identifier: GPL-2.0-or-later
// Divides the nodes of a topology file between several processes.
#pragma once

#include <expected>
#include <string>
#include <vector>

#include "fabric/fabric_nodes.h"

namespace pib::fabric {

// Marks the nodes of other processes. `own`: the switches of this process, by id, description or
// GUID, with their adapters; empty: all. The error is a one-line message for the user.
[[nodiscard]] std::expected<void, std::string> choose_nodes(FabricNodes& nodes,
                                                            const std::vector<std::string>& own);

}  // namespace pib::fabric
