// SPDX-License-Identifier: GPL-2.0-or-later
// The cables of a fabric to switches of other processes.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "fabric/fabric_nodes.h"
#include "links/trunk.h"

namespace pib::fabric {

class Trunks {
  public:
    explicit Trunks(FabricNodes& nodes) : nodes_(nodes) {}

    // Adds a trunk. One of the ports is in this process, the other in another process.
    void add(const PortId& a, const PortId& b);
    // The trunks that this side does not connect yet: those to the switches of other processes with
    // these ids, or all if `nodes` is empty. Without a topology, adds a trunk at the highest port
    // that has none. The error is one line for a user.
    [[nodiscard]] std::expected<std::vector<Trunk*>, std::string> to(
        const std::vector<std::string>& nodes);
    // Admits a switch that connects.
    [[nodiscard]] std::expected<Admission::Place, link::Refuse> admit(const link::Hello& hello,
                                                                      const Peer& peer);

  private:
    [[nodiscard]] std::expected<Trunk*, std::string> add_to_single();

    FabricNodes& nodes_;
    std::vector<std::unique_ptr<Trunk>> trunks_;
};

}  // namespace pib::fabric
