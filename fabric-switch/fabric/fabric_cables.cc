// SPDX-License-Identifier: GPL-2.0-or-later
#include "fabric/fabric_cables.h"

#include <utility>

namespace pib::fabric {
namespace {

using link::Hello;

// Limits of one deliver(), so that sockets and control commands are served even if a routing loop
// keeps packets moving forever.
constexpr unsigned kCablesPerTurn = 4096;
constexpr unsigned kPacketsPerCable = 16;

Hello hello_of(const TopologyNode& node, unsigned port) {
    return {.features = 0,
            .role = node.is_switch ? link::Role::kSwitch : link::Role::kChannelAdapter,
            .port_number = static_cast<uint8_t>(port),
            .node_guid = node.guid,
            .port_guid = node.is_switch ? node.guid : node.port(port).guid,
            .node_description = node.description};
}

}  // namespace

void FabricCables::lay_all() {
    const auto& listed = nodes_.topology().nodes;
    for (uint32_t node = 0; node < listed.size(); ++node) {
        for (unsigned number = 1; number <= listed[node].ports.size(); ++number) {
            const PortId here{node, static_cast<uint8_t>(number)};
            const TopologyPort& port = listed[node].port(number);
            if (!port.joined() || nodes_.link_of(here) != FabricNodes::kNoLink ||
                (nodes_[node].remote && nodes_[port.peer_node].remote)) {
                continue;
            }
            join(here, {port.peer_node, port.peer_port});
        }
    }
}

void FabricCables::lay(Link& link) {
    tell_neighbours(link);
    CableScheduler& scheduler = *this;
    link.cable = std::make_unique<Cable>(nodes_.user(link.a), nodes_.user(link.b), receive_blocks_,
                                         pool_, scheduler);
}

void FabricCables::cut(Link& link) {
    if (link.cable) {
        std::erase(ready_, link.cable.get());
        link.cable.reset();
    }
}

void FabricCables::cut_node(uint32_t node) {
    for (const uint32_t link : nodes_[node].links) {
        if (link != FabricNodes::kNoLink) {
            cut(links_[link]);
        }
    }
}

// Tells each switch its neighbour, for status displays. A packet from a switch of this process is
// not captured again when it arrives at another one.
void FabricCables::tell_neighbours(const Link& link) {
    Switch* a = nodes_[link.a.node].sw.get();
    Switch* b = nodes_[link.b.node].sw.get();
    if (a != nullptr) {
        a->admission().set_neighbour(link.a.port,
                                     hello_of(nodes_.topology().nodes[link.b.node], link.b.port));
        a->port(link.a.port).set_captured(b == nullptr);
    }
    if (b != nullptr) {
        b->admission().set_neighbour(link.b.port,
                                     hello_of(nodes_.topology().nodes[link.a.node], link.a.port));
        b->port(link.b.port).set_captured(a == nullptr);
    }
}

uint32_t FabricCables::free_index() {
    if (free_links_.empty()) {
        links_.emplace_back();
        return static_cast<uint32_t>(links_.size() - 1);
    }
    const uint32_t index = free_links_.back();
    free_links_.pop_back();
    return index;
}

// Joins two ports that have no link.
void FabricCables::join(const PortId& a, const PortId& b) {
    const uint32_t index = free_index();
    Link& link = links_[index];
    link.a = a;
    link.b = b;
    nodes_.join(a, b, index);
    if (nodes_[a.node].remote || nodes_[b.node].remote) {
        tell_neighbours(link);
        trunks_.add(a, b);
    } else {
        lay(link);
    }
}

// ---- the operator

// The switch port at which the link of `port` ends, if a connection carries that link; nullptr:
// `port` has a cable or no link.
SwitchPort* FabricCables::connection_port(const PortId& port) {
    if (!nodes_.has_topology()) {
        return &nodes_[0].sw->port(port.port);
    }
    const uint32_t index = nodes_.link_of(port);
    if (index == FabricNodes::kNoLink || links_[index].cable != nullptr) {
        return nullptr;
    }
    const PortId& end =
        nodes_[links_[index].a.node].sw != nullptr ? links_[index].a : links_[index].b;
    return &nodes_[end.node].sw->port(end.port);
}

// Writes a change of a cable into the journal of each end that is a switch of this process.
void FabricCables::note(const PortId& port, LinkChange change) {
    const auto write = [this, change](const PortId& end) {
        if (Switch* sw = nodes_[end.node].sw.get()) {
            sw->journal().add(sw->now_ns(), end.port, change);
        }
    };
    if (!nodes_.has_topology()) {
        write({0, port.port});
        return;
    }
    const uint32_t index = nodes_.link_of(port);
    if (index != FabricNodes::kNoLink) {
        write(links_[index].a);
        write(links_[index].b);
    }
}

std::expected<void, std::string> FabricCables::link(const PortId& a, const PortId& b) {
    if (!nodes_.has_topology()) {
        return std::unexpected("a single switch has no links to lay: start it with --topology");
    }
    for (const PortId& port : {a, b}) {
        if (nodes_.link_of(port) != FabricNodes::kNoLink) {
            return std::unexpected(nodes_.name_of(port) + " has a link: unlink it first");
        }
        if (nodes_[port.node].sw == nullptr && nodes_[port.node].phantom == nullptr) {
            return std::unexpected(nodes_.name_of(port) +
                                   " is a virtual machine's or another process's: change its "
                                   "link in the topology file");
        }
    }
    if (a == b) {
        return std::unexpected("a port cannot be joined to itself: name two ports");
    }
    if (nodes_[a.node].sw == nullptr && nodes_[b.node].sw == nullptr) {
        return std::unexpected("neither end is a switch: name a port of one");
    }
    join(a, b);
    return {};
}

std::expected<void, std::string> FabricCables::unlink(const PortId& port) {
    if (SwitchPort* way = connection_port(port)) {
        if (way->cable().is_plugged()) {
            note(port, LinkChange::kCablePulled);
            way->cable().plug(false);
        }
        return {};
    }
    const uint32_t index = nodes_.link_of(port);
    if (index == FabricNodes::kNoLink) {
        return std::unexpected(nodes_.name_of(port) + " has no link: lay one with Link");
    }
    note(port, LinkChange::kCablePulled);
    Link& link = links_[index];
    cut(link);
    free_links_.push_back(index);
    nodes_.separate(link.a, link.b);
    return {};
}

std::expected<void, std::string> FabricCables::relink(const PortId& port) {
    if (SwitchPort* way = connection_port(port)) {
        if (!way->cable().is_plugged()) {
            way->cable().plug(true);
            note(port, LinkChange::kCableBack);
        }
        return {};
    }
    const PortId other = nodes_[port.node].unlinked[port.port - 1U];
    if (other.port == 0) {
        return std::unexpected(nodes_.name_of(port) +
                               " has not been unlinked: lay a link with Link");
    }
    const auto linked = link(port, other);
    if (linked) {
        note(port, LinkChange::kCableBack);
    }
    return linked;
}

// ---- packets

bool FabricCables::deliver() {
    for (unsigned i = 0; i < kCablesPerTurn && !ready_.empty(); ++i) {
        Cable& cable = *ready_.front();
        ready_.pop_front();
        cable.run(kPacketsPerCable);
    }
    return !ready_.empty();
}

}  // namespace pib::fabric
