// SPDX-License-Identifier: GPL-2.0-or-later
#include "fabric/fabric_parts.h"

#include <algorithm>

namespace pib::fabric {
namespace {

// An adapter belongs to the process of the switches that it is joined to. Its ports share one SMA,
// so they must not belong to two processes.
std::expected<void, std::string> follow_switches(FabricNodes& nodes) {
    for (uint32_t i = 0; i < nodes.all().size(); ++i) {
        const TopologyNode& node = nodes.topology().nodes[i];
        if (node.is_switch) {
            continue;
        }
        const auto is_here = [&nodes](const TopologyPort& port) {
            return port.joined() && !nodes[port.peer_node].remote;
        };
        const auto cables = std::ranges::count_if(node.ports, &TopologyPort::joined);
        const auto here = std::ranges::count_if(node.ports, is_here);
        if (here != 0 && here != cables) {
            return std::unexpected("line " + std::to_string(node.line) + " of the topology: \"" +
                                   node.id +
                                   "\" has ports at switches of several processes: give one "
                                   "process all of its switches");
        }
        nodes[i].remote = here == 0;
    }
    return {};
}

}  // namespace

std::expected<void, std::string> choose_nodes(FabricNodes& nodes,
                                              const std::vector<std::string>& own) {
    if (own.empty()) {
        return {};
    }
    for (uint32_t i = 0; i < nodes.all().size(); ++i) {
        nodes[i].remote = true;
    }
    for (const std::string& name : own) {
        const auto node = nodes.find(name);
        if (!node || !nodes.topology().nodes[*node].is_switch) {
            return std::unexpected("--only: the topology file has no switch \"" + name +
                                   "\", or several of that name: give its id");
        }
        nodes[*node].remote = false;
    }
    return follow_switches(nodes);
}

}  // namespace pib::fabric
