// SPDX-License-Identifier: GPL-2.0-or-later
#include "fabric/fabric.h"

#include <algorithm>

#include "fabric/fabric_parts.h"
#include "fabric/topology_place.h"

namespace pib::fabric {
namespace {

using link::Hello;
using link::Refuse;
using link::RefuseReason;

// NodeInfo:VendorID of a phantom to which the topology file gives none. Switches have the same
// number (switch_sma.cc).
constexpr uint32_t kVendorId = 0x001234;
constexpr uint16_t kPhantomDeviceId = 0x1b0e;

std::unexpected<Refuse> not_here(const std::string& text) {
    return std::unexpected(Refuse{RefuseReason::kNotInTopology, text});
}

std::string too_many_ports(const TopologyNode& node) {
    return "line " + std::to_string(node.line) + " of the topology: a switch with " +
           std::to_string(node.ports.size()) + " ports: " + std::to_string(kMaxPorts) +
           " are possible, build it of smaller ones";
}

SwitchConfig config_of(const TopologyNode& node, const SwitchConfig& defaults) {
    SwitchConfig config = defaults;
    config.node_guid = node.guid;
    config.system_image_guid = node.system_image_guid;
    config.vendor_id = node.vendor_id;
    config.device_id = node.device_id;
    config.description = node.description;
    config.num_ports = static_cast<uint8_t>(node.ports.size());
    for (const TopologyPort& port : node.ports) {
        config.port_modes.push_back(port.modes);
    }
    return config;
}

PhantomHca::Config phantom_config(const TopologyNode& node, const LinkModes& modes) {
    PhantomHca::Config config{.node_guid = node.guid,
                              .system_image_guid = node.system_image_guid,
                              .vendor_id = node.vendor_id != 0 ? node.vendor_id : kVendorId,
                              .device_id = node.device_id != 0 ? node.device_id : kPhantomDeviceId,
                              .description = node.description,
                              .ports = {}};
    for (const TopologyPort& port : node.ports) {
        config.ports.push_back({port.guid, port.modes.or_else(modes)});
    }
    return config;
}

// All ports of a node belong to the peer that has used the node first. A peer's certificate, if it
// has one, must permit the node's GUID or its id.
std::optional<Refuse> refuse_stranger(const TopologyNode& node, const std::string& owner,
                                      const Peer& peer) {
    if (!owner.empty() && owner != peer.name) {
        return owned_by_another("\"" + node.id + "\"", owner);
    }
    if (peer.grant && !peer.grant->has(node.guid) && !peer.grant->has_node(node.id)) {
        return Refuse{RefuseReason::kNotAllowed, "\"" + node.id + "\" is not in " + peer.name +
                                                     ": make a certificate with --node " + node.id +
                                                     " or its GUID"};
    }
    return std::nullopt;
}

// Whether the HELLO has a GUID that the HELLO of a device of this node had.
bool has_guid_of(const FabricNodes& nodes, uint32_t index, const Hello& hello) {
    const auto is_of_port = [&](const TopologyPort& port) {
        Switch* sw = port.joined() ? nodes.all()[port.peer_node].sw.get() : nullptr;
        const Hello* device = sw != nullptr ? sw->admission().neighbour(port.peer_port) : nullptr;
        return device != nullptr && share_a_guid(*device, hello);
    };
    return std::ranges::any_of(nodes.topology().nodes[index].ports, is_of_port);
}

// The GUIDs in the HELLOs of a node's devices belong to the peer that owns the node. Refuses
// another peer that uses one of them, even for a port of another node.
std::optional<Refuse> refuse_foreign_guids(const FabricNodes& nodes, const Hello& hello,
                                           const Peer& peer) {
    for (uint32_t i = 0; i < nodes.all().size(); ++i) {
        const std::string& owner = nodes.all()[i].owner;
        if (!owner.empty() && owner != peer.name && has_guid_of(nodes, i, hello)) {
            return owned_by_another("GUID of \"" + nodes.all()[i].id + "\"", owner);
        }
    }
    return std::nullopt;
}

bool has_guid(const TopologyNode& node, ib::Guid guid) {
    return node.guid == guid ||
           std::ranges::find(node.ports, guid, &TopologyPort::guid) != node.ports.end();
}

// Refuses GUIDs that the file gives to other nodes: they are kept for the devices of those nodes. A
// file may give one GUID to two nodes, as node GUID of the one and as port GUID of the other.
std::optional<Refuse> refuse_listed_guids(const Topology& topology, uint32_t place,
                                          const Hello& hello) {
    for (const ib::Guid guid : {hello.node_guid, hello.port_guid}) {
        const auto is_here = [&](const TopologyNode& node) { return has_guid(node, guid); };
        if (is_here(topology.nodes[place])) {
            continue;
        }
        const auto other = std::ranges::find_if(topology.nodes, is_here);
        if (other != topology.nodes.end()) {
            return Refuse{RefuseReason::kNotAllowed,
                          to_text(guid) + " is a GUID of \"" + other->id +
                              "\" in the topology file: give this device another GUID"};
        }
    }
    return std::nullopt;
}

}  // namespace

// ---- construction

Fabric::Fabric(const SwitchConfig& config)
    : defaults_(config), nodes_(std::make_unique<Switch>(config, &timers_)) {}

Fabric::Fabric(Topology topology, const SwitchConfig& defaults)
    : defaults_(defaults), nodes_(std::move(topology)) {}

Fabric::~Fabric() = default;

std::expected<std::unique_ptr<Fabric>, std::string> Fabric::make(
    Topology topology, const SwitchConfig& defaults, const std::vector<std::string>& own) {
    for (const TopologyNode& node : topology.nodes) {
        if (node.is_switch && node.ports.size() > kMaxPorts) {
            return std::unexpected(too_many_ports(node));
        }
    }
    std::unique_ptr<Fabric> fabric(new Fabric(std::move(topology), defaults));
    if (const auto chosen = choose_nodes(fabric->nodes_, own); !chosen) {
        return std::unexpected(chosen.error());
    }
    fabric->build();
    return fabric;
}

void Fabric::build() {
    const auto& listed = nodes_.topology().nodes;
    for (uint32_t i = 0; i < listed.size(); ++i) {
        Node& node = nodes_[i];
        if (node.remote) {
            continue;
        }
        if (listed[i].is_switch) {
            node.sw = std::make_unique<Switch>(config_of(listed[i], defaults_), &timers_);
        } else {
            node.phantom = std::make_unique<PhantomHca>(phantom_config(listed[i], defaults_.modes),
                                                        timers_, pool_);
        }
    }
    cables_.lay_all();
}

void Fabric::add_tap(PacketTap& tap) {
    taps_.add(tap);
    for (Switch* sw : switches()) {
        sw->set_tap(&taps_);
    }
}

// Switches without a tap forward several packets of a burst at once.
void Fabric::remove_tap(PacketTap& tap) {
    taps_.remove(tap);
    for (Switch* sw : switches()) {
        sw->set_tap(taps_.empty() ? nullptr : &taps_);
    }
}

uint64_t Fabric::next_deadline() {
    timers_.update();
    return cables_.is_idle() ? timers_.next_deadline() : now_ns();
}

// ---- admission

link::LinkEndpoint::Buffers Fabric::link_buffers() const {
    for (const Node& node : nodes()) {
        if (node.sw != nullptr) {
            return node.sw->admission().link_buffers();
        }
    }
    return {};
}

std::expected<Admission::Place, Refuse> Fabric::admit(const Hello& hello, const Peer& peer) {
    if (!has_topology()) {
        return nodes_[0].sw->admission().admit(hello, peer);
    }
    return hello.role == link::Role::kSwitch ? trunks_.admit(hello, peer)
                                             : admit_adapter(hello, peer);
}

// Finds the device's port in the topology. If the node is still a phantom, deletes the phantom with
// all its ports for good.
std::expected<Admission::Place, Refuse> Fabric::admit_adapter(const Hello& hello,
                                                              const Peer& peer) {
    const auto found = find_place(nodes_.topology(), hello);
    if (!found) {
        return std::unexpected(found.error());
    }
    const TopologyNode& node = nodes_.topology().nodes[found->node];
    const std::string what = "port " + std::to_string(found->port) + " of \"" + node.id + "\"";
    const TopologyPort& port = node.port(found->port);
    if (!port.joined()) {
        return not_here(what + " has no link in the topology file: add it there");
    }
    if (nodes_[found->node].remote) {
        return not_here(what + " is in another process: connect to that one");
    }
    Node& adapter = nodes_[found->node];
    if (auto refusal = refuse_stranger(node, adapter.owner, peer)) {
        return std::unexpected(std::move(*refusal));
    }
    if (auto refusal = refuse_foreign_guids(nodes_, hello, peer)) {
        return std::unexpected(std::move(*refusal));
    }
    if (auto refusal = refuse_listed_guids(nodes_.topology(), found->node, hello)) {
        return std::unexpected(std::move(*refusal));
    }
    Switch& sw = *nodes_[port.peer_node].sw;
    if (adapter.phantom == nullptr && sw.port(port.peer_port).cable().attached()) {
        return std::unexpected(Refuse{RefuseReason::kDuplicatePortGuid,
                                      what + " is connected already: give each device its own "
                                             "name and GUIDs"});
    }
    if (adapter.phantom != nullptr) {
        cables_.cut_node(found->node);
        adapter.phantom.reset();
        adapter.owner = peer.name;
        sw.counters(port.peer_port) = {};  // as if the phantom had never existed
    }
    sw.admission().set_neighbour(port.peer_port, hello, peer.name);
    sw.port(port.peer_port).set_captured(true);
    Place place = sw.admission().place(port.peer_port);
    place.name = sw.config().description + " " + place.name;
    return place;
}

}  // namespace pib::fabric
