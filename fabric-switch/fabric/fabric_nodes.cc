// SPDX-License-Identifier: GPL-2.0-or-later
#include "fabric/fabric_nodes.h"

#include "base/guid_text.h"

namespace pib::fabric {

FabricNodes::FabricNodes(Topology topology) : topology_(std::move(topology)) {
    nodes_.reserve(topology_.nodes.size());
    for (const TopologyNode& node : topology_.nodes) {
        nodes_.emplace_back();
        nodes_.back().id = node.id;
        nodes_.back().description = node.description;
        nodes_.back().links.assign(node.ports.size(), kNoLink);
        nodes_.back().unlinked.resize(node.ports.size());
    }
}

FabricNodes::FabricNodes(std::unique_ptr<Switch> only) {
    Node& node = nodes_.emplace_back();
    node.id = node.description = only->config().description;
    node.links.assign(only->num_ports(), kNoLink);
    node.unlinked.resize(only->num_ports());
    node.sw = std::move(only);
}

std::optional<uint32_t> FabricNodes::find(std::string_view name) const {
    const auto guid = name.starts_with("0x") ? parse_guid(name) : std::nullopt;
    std::optional<uint32_t> described;
    unsigned matches = 0;
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
        const bool by_guid = guid && has_topology() && topology_.nodes[i].guid == *guid;
        if (nodes_[i].id == name || by_guid) {
            return i;
        }
        if (nodes_[i].description == name) {
            described = i;
            ++matches;
        }
    }
    return matches == 1 ? described : std::nullopt;
}

std::expected<PortId, std::string> FabricNodes::find_port(std::string_view name,
                                                          unsigned port) const {
    const auto node = find(name);
    if (!node) {
        return std::unexpected("no node \"" + std::string(name) +
                               "\", or several of that name: pib-switch ctl nodes lists them");
    }
    if (port < 1 || port > nodes_[*node].links.size()) {
        return std::unexpected("\"" + std::string(name) + "\" has ports 1 to " +
                               std::to_string(nodes_[*node].links.size()));
    }
    return PortId{*node, static_cast<uint8_t>(port)};
}

std::optional<PortId> FabricNodes::peer(const PortId& port) const {
    if (link_of(port) == kNoLink) {
        return std::nullopt;
    }
    const TopologyPort& entry = topology_.nodes[port.node].port(port.port);
    return PortId{entry.peer_node, entry.peer_port};
}

std::expected<PortId, std::string> FabricNodes::switch_port(std::string_view name,
                                                            unsigned number) const {
    const auto port = find_port(name, number);
    if (!port || nodes_[port->node].sw != nullptr) {
        return port;
    }
    if (nodes_[port->node].remote) {
        return std::unexpected(name_of(*port) + " is in another process: ask that one");
    }
    const auto other = peer(*port);
    if (!other) {
        return std::unexpected("this port has no link: lay one with \"ctl run Link\"");
    }
    return *other;
}

std::vector<Switch*> FabricNodes::switches() const {
    std::vector<Switch*> found;
    for (const Node& node : nodes_) {
        if (node.sw != nullptr) {
            found.push_back(node.sw.get());
        }
    }
    return found;
}

std::string FabricNodes::name_of(const PortId& port) const {
    return "\"" + nodes_[port.node].id + "\"[" + std::to_string(port.port) + "]";
}

LinkUser& FabricNodes::user(const PortId& port) {
    Node& node = nodes_[port.node];
    return node.sw != nullptr ? static_cast<LinkUser&>(node.sw->port(port.port))
                              : node.phantom->port(port.port);
}

void FabricNodes::join(const PortId& a, const PortId& b, uint32_t link) {
    for (const auto& [port, peer] : {std::pair(a, b), std::pair(b, a)}) {
        nodes_[port.node].links[port.port - 1U] = link;
        nodes_[port.node].unlinked[port.port - 1U] = {};
        TopologyPort& entry = topology_.nodes[port.node].port(port.port);
        entry.peer_node = peer.node;
        entry.peer_port = peer.port;
    }
}

void FabricNodes::separate(const PortId& a, const PortId& b) {
    for (const auto& [port, peer] : {std::pair(a, b), std::pair(b, a)}) {
        nodes_[port.node].links[port.port - 1U] = kNoLink;
        nodes_[port.node].unlinked[port.port - 1U] = peer;
        topology_.nodes[port.node].port(port.port).peer_node = TopologyPort::kNobody;
    }
}

}  // namespace pib::fabric
