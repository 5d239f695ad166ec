// SPDX-License-Identifier: GPL-2.0-or-later
#include "fabric/trunks.h"

#include <algorithm>

namespace pib::fabric {

using link::Hello;
using link::Refuse;
using link::RefuseReason;

void Trunks::add(const PortId& a, const PortId& b) {
    const bool a_is_here = !nodes_[a.node].remote;
    const PortId& near = a_is_here ? a : b;
    const PortId& far = a_is_here ? b : a;
    const TopologyNode& node = nodes_.topology().nodes[far.node];
    trunks_.push_back(std::make_unique<Trunk>(*nodes_[near.node].sw, near.port,
                                              Trunk::Far{node.guid, far.port, node.id}));
}

// Adds a trunk to any peer, at the only switch's highest port that has no trunk.
std::expected<Trunk*, std::string> Trunks::add_to_single() {
    const size_t taken = trunks_.size();
    if (taken >= nodes_[0].sw->num_ports()) {
        return std::unexpected(
            "more --connect than the switch has ports: start it with more --ports");
    }
    const auto port = static_cast<uint8_t>(nodes_[0].sw->num_ports() - taken);
    nodes_[0].sw->admission().reserve(port);
    trunks_.push_back(std::make_unique<Trunk>(*nodes_[0].sw, port, Trunk::Far{}));
    return trunks_.back().get();
}

std::expected<std::vector<Trunk*>, std::string> Trunks::to(const std::vector<std::string>& nodes) {
    if (!nodes_.has_topology()) {
        const auto made = add_to_single();
        return made ? std::expected<std::vector<Trunk*>, std::string>({*made})
                    : std::unexpected(made.error());
    }
    std::vector<Trunk*> found;
    for (const auto& trunk : trunks_) {
        const bool named =
            nodes.empty() || std::ranges::find(nodes, trunk->far().id) != nodes.end();
        if (named && !trunk->connects()) {
            found.push_back(trunk.get());
        }
    }
    for (const std::string& name : nodes) {
        if (std::ranges::find(found, name, [](Trunk* c) { return c->far().id; }) == found.end()) {
            return std::unexpected(
                "no cable leads from here to \"" + name +
                "\" in another process, or an earlier --connect has all of them: "
                "correct --connect");
        }
    }
    if (found.empty()) {
        return std::unexpected(
            "no cable leads from here to another process: --only says which "
            "switches are here");
    }
    return found;
}

std::expected<Admission::Place, Refuse> Trunks::admit(const Hello& hello, const Peer& peer) {
    for (const auto& trunk : trunks_) {
        if (trunk->is_end_of(hello)) {
            return trunk->admit(hello, peer);
        }
    }
    return std::unexpected(
        Refuse{RefuseReason::kNotInTopology,
               "no cable leads from here to port " + std::to_string(hello.port_number) + " of \"" +
                   hello.node_description + "\": do both processes have the same topology file?"});
}

}  // namespace pib::fabric
