// SPDX-License-Identifier: GPL-2.0-or-later
// The cables of a fabric: creation at the start, removal and restoration by an operator. See
// fabric.h.
#include "fabric/fabric.h"

namespace pib::fabric {
namespace {

using ib::link::Hello;

Hello hello_of(const TopologyNode& node, unsigned port) {
    return {.features = 0,
            .role = node.is_switch ? ib::link::Role::kSwitch : ib::link::Role::kChannelAdapter,
            .port_number = static_cast<std::uint8_t>(port),
            .node_guid = node.guid,
            .port_guid = node.is_switch ? node.guid : node.port(port).guid,
            .node_description = node.description};
}

}  // namespace

LinkUser& Fabric::user(const PortId& port) {
    Node& node = nodes_[port.node];
    return node.sw != nullptr ? static_cast<LinkUser&>(node.sw->port(port.port))
                              : node.phantom->port(port.port);
}

void Fabric::lay_cable(Link& link) {
    tell_neighbours(link);
    CableScheduler& scheduler = *this;
    link.cable = std::make_unique<MemoryCable>(user(link.a), user(link.b), defaults_.receive_blocks,
                                               pool_, scheduler);
}

void Fabric::cut(Link& link) {
    if (link.cable) {
        std::erase(ready_, link.cable.get());
        link.cable.reset();
    }
}

// For status displays, and so that a capture has each packet once.
void Fabric::tell_neighbours(const Link& link) {
    Switch* a = nodes_[link.a.node].sw.get();
    Switch* b = nodes_[link.b.node].sw.get();
    if (a != nullptr) {
        a->set_neighbour(link.a.port, hello_of(topology_.nodes[link.b.node], link.b.port));
        a->port(link.a.port).set_captured(b == nullptr);
    }
    if (b != nullptr) {
        b->set_neighbour(link.b.port, hello_of(topology_.nodes[link.a.node], link.a.port));
        b->port(link.b.port).set_captured(a == nullptr);
    }
}

// Both ports are free.
void Fabric::join(const PortId& a, const PortId& b) {
    const auto index =
        free_links_.empty() ? static_cast<std::uint32_t>(links_.size()) : free_links_.back();
    if (free_links_.empty()) {
        links_.emplace_back();
    } else {
        free_links_.pop_back();
    }
    Link& link = links_[index];
    link.a = a;
    link.b = b;
    for (const auto& [port, peer] : {std::pair(a, b), std::pair(b, a)}) {
        nodes_[port.node].links[port.port - 1U] = index;
        nodes_[port.node].unlinked[port.port - 1U] = {};
        TopologyPort& entry = topology_.nodes[port.node].port(port.port);
        entry.peer_node = peer.node;
        entry.peer_port = peer.port;
    }
    if (nodes_[a.node].elsewhere || nodes_[b.node].elsewhere) {
        tell_neighbours(link);
        add_crossing(link);
    } else {
        lay_cable(link);
    }
}

// Removes a cable, and records the peer at both ends.
void Fabric::forget(std::uint32_t index) {
    Link& link = links_[index];
    cut(link);
    free_links_.push_back(index);
    for (const auto& [port, peer] : {std::pair(link.a, link.b), std::pair(link.b, link.a)}) {
        nodes_[port.node].links[port.port - 1U] = kNoLink;
        nodes_[port.node].unlinked[port.port - 1U] = peer;
        topology_.nodes[port.node].port(port.port).peer_node = TopologyPort::kNobody;
    }
}

// ---- the operator

std::string Fabric::name_of(const PortId& port) const {
    return "\"" + nodes_[port.node].id + "\"[" + std::to_string(port.port) + "]";
}

// The switch port of a link to a virtual machine or another process; nullptr: none.
SwitchPort* Fabric::cable_switch(const PortId& port) {
    if (!has_topology()) {
        return &nodes_[0].sw->port(port.port);
    }
    const std::uint32_t index = nodes_[port.node].links[port.port - 1U];
    if (index == kNoLink || links_[index].cable != nullptr) {
        return nullptr;
    }
    const PortId& end =
        nodes_[links_[index].a.node].sw != nullptr ? links_[index].a : links_[index].b;
    return &nodes_[end.node].sw->port(end.port);
}

std::expected<void, std::string> Fabric::link(const PortId& a, const PortId& b) {
    if (!has_topology()) {
        return std::unexpected("a single switch has no links to lay: start it with --topology");
    }
    for (const PortId& port : {a, b}) {
        if (nodes_[port.node].links[port.port - 1U] != kNoLink) {
            return std::unexpected(name_of(port) + " has a link: unlink it first");
        }
        if (nodes_[port.node].sw == nullptr && nodes_[port.node].phantom == nullptr) {
            return std::unexpected(name_of(port) +
                                   " is a virtual machine's or another process's: it cannot be "
                                   "joined to another port than the file says");
        }
    }
    if (a == b) {
        return std::unexpected("a port cannot be joined to itself");
    }
    if (nodes_[a.node].sw == nullptr && nodes_[b.node].sw == nullptr) {
        return std::unexpected("one end has to be a switch");
    }
    join(a, b);
    return {};
}

std::expected<void, std::string> Fabric::unlink(const PortId& port) {
    if (SwitchPort* way = cable_switch(port)) {
        way->cable().plug(false);
        return {};
    }
    const std::uint32_t index = nodes_[port.node].links[port.port - 1U];
    if (index == kNoLink) {
        return std::unexpected(name_of(port) + " is joined to nothing");
    }
    forget(index);
    return {};
}

std::expected<void, std::string> Fabric::relink(const PortId& port) {
    if (SwitchPort* way = cable_switch(port)) {
        way->cable().plug(true);
        return {};
    }
    const PortId other = nodes_[port.node].unlinked[port.port - 1U];
    if (other.port == 0) {
        return std::unexpected(name_of(port) + " was not unlinked");
    }
    return link(port, other);
}

}  // namespace pib::fabric
