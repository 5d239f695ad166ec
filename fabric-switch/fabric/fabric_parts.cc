// SPDX-License-Identifier: GPL-2.0-or-later
// A fabric that several processes share: the nodes of this process, and the trunks to others.
#include <algorithm>

#include "fabric/fabric.h"

namespace pib::fabric {
namespace {

using ib::link::Hello;
using ib::link::Refuse;
using ib::link::RefuseReason;

}  // namespace

std::expected<void, std::string> Fabric::choose(const std::vector<std::string>& own) {
    if (own.empty()) {
        return {};
    }
    for (Node& node : nodes_) {
        node.elsewhere = true;
    }
    for (const std::string& name : own) {
        const auto node = find_node(name);
        if (!node || !topology_.nodes[*node].is_switch) {
            return std::unexpected("the topology file has no switch \"" + name + "\", or several");
        }
        nodes_[*node].elsewhere = false;
    }
    return follow_switches();
}

// An adapter belongs to the process of its switches. Its ports share one agent, so two processes
// cannot share it.
std::expected<void, std::string> Fabric::follow_switches() {
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
        const TopologyNode& node = topology_.nodes[i];
        if (node.is_switch) {
            continue;
        }
        const auto is_here = [this](const TopologyPort& port) {
            return port.joined() && !nodes_[port.peer_node].elsewhere;
        };
        const auto cables = std::ranges::count_if(node.ports, &TopologyPort::joined);
        const auto here = std::ranges::count_if(node.ports, is_here);
        if (here != 0 && here != cables) {
            return std::unexpected("line " + std::to_string(node.line) + " of the topology: \"" +
                                   node.id +
                                   "\" has ports at switches of several processes: give one "
                                   "process all of its switches");
        }
        nodes_[i].elsewhere = here == 0;
    }
    return {};
}

void Fabric::add_crossing(const Link& link) {
    const bool a_is_here = !nodes_[link.a.node].elsewhere;
    const PortId& near = a_is_here ? link.a : link.b;
    const PortId& far = a_is_here ? link.b : link.a;
    const TopologyNode& node = topology_.nodes[far.node];
    crossings_.push_back(std::make_unique<Crossing>(*nodes_[near.node].sw, near.port,
                                                    Crossing::Far{node.guid, far.port, node.id}));
}

// A single switch connects to any peer.
std::expected<Crossing*, std::string> Fabric::trunk() {
    const std::size_t taken = crossings_.size();
    if (taken >= nodes_[0].sw->num_ports()) {
        return std::unexpected("more addresses to connect to than the switch has ports");
    }
    const auto port = static_cast<std::uint8_t>(nodes_[0].sw->num_ports() - taken);
    nodes_[0].sw->reserve(port);
    crossings_.push_back(std::make_unique<Crossing>(*nodes_[0].sw, port, Crossing::Far{}));
    return crossings_.back().get();
}

std::expected<std::vector<Crossing*>, std::string> Fabric::crossings_to(
    const std::vector<std::string>& nodes) {
    if (!has_topology()) {
        const auto made = trunk();
        return made ? std::expected<std::vector<Crossing*>, std::string>({*made})
                    : std::unexpected(made.error());
    }
    std::vector<Crossing*> found;
    for (const auto& crossing : crossings_) {
        const bool named =
            nodes.empty() || std::ranges::find(nodes, crossing->far().id) != nodes.end();
        if (named && !crossing->connects()) {
            found.push_back(crossing.get());
        }
    }
    for (const std::string& name : nodes) {
        if (std::ranges::find(found, name, [](Crossing* c) { return c->far().id; }) ==
            found.end()) {
            return std::unexpected("no cable leads from here to \"" + name +
                                   "\" in another process, or all of them are connected already");
        }
    }
    if (found.empty()) {
        return std::unexpected(
            "no cable leads from here to another process: --only says which "
            "switches are here");
    }
    return found;
}

std::expected<Admission::Place, Refuse> Fabric::admit_switch(const Hello& hello) {
    for (const auto& crossing : crossings_) {
        if (crossing->is_end_of(hello)) {
            return crossing->admit(hello);
        }
    }
    return std::unexpected(
        Refuse{RefuseReason::kNotInTopology,
               "no cable leads from here to port " + std::to_string(hello.port_number) + " of \"" +
                   hello.node_description + "\": do both processes have the same topology file?"});
}

}  // namespace pib::fabric
