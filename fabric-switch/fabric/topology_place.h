// SPDX-License-Identifier: GPL-2.0-or-later
// Chooses the port of a topology file for a device that connects.
#pragma once

#include <expected>

#include "fabric/fabric_nodes.h"
#include "fabric/topology.h"
#include "ib/wire/link_frame.h"

namespace pib::fabric {

// Finds the port of the HELLO's sender by port GUID, node GUID or name; else refuses it.
[[nodiscard]] std::expected<PortId, link::Refuse> find_place(const Topology& topology,
                                                             const link::Hello& hello);

}  // namespace pib::fabric
