// SPDX-License-Identifier: GPL-2.0-or-later
// See fabric.h.
#include "fabric/fabric.h"

#include <algorithm>
#include <cstdlib>

namespace pib::fabric {
namespace {

using ib::link::Hello;
using ib::link::Refuse;
using ib::link::RefuseReason;

// Limit of packets in one turn, so that sockets and control commands get their turns: a routing
// loop keeps packets moving for ever.
constexpr unsigned kCablesPerTurn = 4096;
constexpr unsigned kPacketsPerCable = 16;
// Vendor number of devices that exist only in software, as for the switch.
constexpr std::uint32_t kVendorId = 0x001234;
constexpr std::uint16_t kPhantomDeviceId = 0x1b0e;

std::string_view first_word(std::string_view text) {
    return text.substr(0, text.find(' '));
}

std::string_view description_of(const Hello& hello) {
    return hello.node_description;
}

std::unexpected<Refuse> not_here(const std::string& text) {
    return std::unexpected(Refuse{RefuseReason::kNotInTopology, text});
}

std::string too_many_ports(const TopologyNode& node) {
    return "line " + std::to_string(node.line) + " of the topology: a switch with " +
           std::to_string(node.ports.size()) + " ports: " + std::to_string(kMaxPorts) +
           " are possible, build it of smaller ones";
}

}  // namespace

// ---- making it

Fabric::Fabric(const SwitchConfig& config) : defaults_(config) {
    nodes_.emplace_back();
    nodes_[0].id = nodes_[0].description = config.description;
    nodes_[0].sw = std::make_unique<Switch>(config, &agenda_);
    nodes_[0].links.assign(config.num_ports, kNoLink);
    nodes_[0].unlinked.resize(config.num_ports);
}

std::expected<std::unique_ptr<Fabric>, std::string> Fabric::make(
    Topology topology, const SwitchConfig& defaults, const std::vector<std::string>& own) {
    for (const TopologyNode& node : topology.nodes) {
        if (node.is_switch && node.ports.size() > kMaxPorts) {
            return std::unexpected(too_many_ports(node));
        }
    }
    std::unique_ptr<Fabric> fabric(new Fabric(std::move(topology), defaults));
    if (const auto chosen = fabric->choose(own); !chosen) {
        return std::unexpected(chosen.error());
    }
    fabric->build();
    return fabric;
}

Fabric::Fabric(Topology topology, const SwitchConfig& defaults)
    : topology_(std::move(topology)), defaults_(defaults) {
    nodes_.reserve(topology_.nodes.size());
    for (const TopologyNode& node : topology_.nodes) {
        nodes_.emplace_back();
        nodes_.back().id = node.id;
        nodes_.back().description = node.description;
        nodes_.back().links.assign(node.ports.size(), kNoLink);
        nodes_.back().unlinked.resize(node.ports.size());
    }
}

void Fabric::build() {
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
        if (nodes_[i].elsewhere) {
            continue;
        }
        if (topology_.nodes[i].is_switch) {
            add_switch(nodes_[i], topology_.nodes[i]);
        } else {
            add_phantom(nodes_[i], topology_.nodes[i]);
        }
    }
    add_links();
}

Fabric::~Fabric() = default;

void Fabric::add_switch(Node& at, const TopologyNode& node) {
    SwitchConfig config = defaults_;
    config.node_guid = node.guid;
    config.system_image_guid = node.system_image_guid;
    config.vendor_id = node.vendor_id;
    config.device_id = node.device_id;
    config.description = node.description;
    config.num_ports = static_cast<std::uint8_t>(node.ports.size());
    for (const TopologyPort& port : node.ports) {
        config.port_modes.push_back(port.modes);
    }
    at.sw = std::make_unique<Switch>(config, &agenda_);
}

void Fabric::add_phantom(Node& at, const TopologyNode& node) {
    PhantomHca::Config config{.node_guid = node.guid,
                              .system_image_guid = node.system_image_guid,
                              .vendor_id = node.vendor_id != 0 ? node.vendor_id : kVendorId,
                              .device_id = node.device_id != 0 ? node.device_id : kPhantomDeviceId,
                              .description = node.description,
                              .ports = {}};
    for (const TopologyPort& port : node.ports) {
        config.ports.push_back({port.guid, port.modes.or_else(defaults_.modes)});
    }
    at.phantom = std::make_unique<PhantomHca>(config, agenda_, pool_);
}

void Fabric::add_links() {
    for (std::uint32_t node = 0; node < nodes_.size(); ++node) {
        for (unsigned number = 1; number <= nodes_[node].links.size(); ++number) {
            const TopologyPort& port = topology_.nodes[node].port(number);
            const bool here =
                !nodes_[node].elsewhere || (port.joined() && !nodes_[port.peer_node].elsewhere);
            if (port.joined() && here && nodes_[node].links[number - 1] == kNoLink) {
                join({node, static_cast<std::uint8_t>(number)}, {port.peer_node, port.peer_port});
            }
        }
    }
}

// ---- looking

std::optional<std::uint32_t> Fabric::find_node(std::string_view name) const {
    const std::uint64_t guid =
        name.starts_with("0x") ? std::strtoull(std::string(name).c_str(), nullptr, 16) : 0;
    std::optional<std::uint32_t> described;
    unsigned matches = 0;
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
        const bool by_guid =
            guid != 0 && has_topology() && topology_.nodes[i].guid == ib::Guid(guid);
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

std::expected<Fabric::PortId, std::string> Fabric::find_port(std::string_view name,
                                                             unsigned port) const {
    const auto node = find_node(name);
    if (!node) {
        return std::unexpected("no node \"" + std::string(name) +
                               "\", or several: pib-switch ctl nodes lists them");
    }
    if (port < 1 || port > nodes_[*node].links.size()) {
        return std::unexpected("\"" + std::string(name) + "\" has ports 1 to " +
                               std::to_string(nodes_[*node].links.size()));
    }
    return PortId{*node, static_cast<std::uint8_t>(port)};
}

std::optional<Fabric::PortId> Fabric::peer(const PortId& port) const {
    const std::uint32_t link = nodes_[port.node].links[port.port - 1U];
    if (link == kNoLink) {
        return std::nullopt;
    }
    return links_[link].a == port ? links_[link].b : links_[link].a;
}

std::expected<Fabric::PortId, std::string> Fabric::switch_port(std::string_view name,
                                                               unsigned number) const {
    const auto port = find_port(name, number);
    if (!port || nodes_[port->node].sw != nullptr) {
        return port;
    }
    if (nodes_[port->node].elsewhere) {
        return std::unexpected(name_of(*port) + " is in another process: ask that one");
    }
    const auto other = peer(*port);
    if (!other) {
        return std::unexpected("this port is joined to nothing");
    }
    return *other;
}

std::vector<Switch*> Fabric::switches() const {
    std::vector<Switch*> found;
    for (const Node& node : nodes_) {
        if (node.sw != nullptr) {
            found.push_back(node.sw.get());
        }
    }
    return found;
}

void Fabric::set_tap(PacketTap* tap) {
    for (Switch* sw : switches()) {
        sw->set_tap(tap);
    }
}

// ---- time

bool Fabric::deliver() {
    for (unsigned i = 0; i < kCablesPerTurn && !ready_.empty(); ++i) {
        MemoryCable& cable = *ready_.front();
        ready_.pop_front();
        cable.run(kPacketsPerCable);
    }
    return !ready_.empty();
}

std::uint64_t Fabric::next_deadline() {
    agenda_.update();
    return ready_.empty() ? agenda_.next_deadline() : now_ns();
}

// ---- who connects

link::LinkEndpoint::Buffers Fabric::link_buffers() const {
    for (const Node& node : nodes_) {
        if (node.sw != nullptr) {
            return node.sw->link_buffers();
        }
    }
    return {};
}

// The channel adapter with this NodeDescription or id; else the only one with the same first word,
// because programs append the device's name to the host's.
std::optional<std::uint32_t> Fabric::find_adapter(std::string_view description) const {
    std::optional<std::uint32_t> similar;
    unsigned matches = 0;
    for (std::uint32_t i = 0; i < topology_.nodes.size(); ++i) {
        const TopologyNode& node = topology_.nodes[i];
        if (node.is_switch || description.empty()) {
            continue;
        }
        if (node.description == description || node.id == description) {
            return i;
        }
        const std::string_view word = first_word(description);
        if (first_word(node.description) == word || node.id == word) {
            similar = i;
            ++matches;
        }
    }
    return matches == 1 ? similar : std::nullopt;
}

std::expected<Fabric::PortId, Refuse> Fabric::find_place(const Hello& hello) const {
    for (std::uint32_t i = 0; i < topology_.nodes.size(); ++i) {
        const TopologyNode& node = topology_.nodes[i];
        if (node.is_switch) {
            continue;
        }
        const auto port = std::ranges::find(node.ports, hello.port_guid, &TopologyPort::guid);
        if (port != node.ports.end()) {
            return PortId{i, static_cast<std::uint8_t>(port - node.ports.begin() + 1)};
        }
        if (node.guid == hello.node_guid && hello.port_number <= node.ports.size()) {
            return PortId{i, hello.port_number};
        }
    }
    const auto named = find_adapter(description_of(hello));
    if (!named) {
        return not_here("no channel adapter in the topology file has this GUID or the name \"" +
                        hello.node_description +
                        "\": give the device the node-guid and port-guid of one, or its name as "
                        "node-description");
    }
    if (hello.port_number > topology_.nodes[*named].ports.size()) {
        return not_here("\"" + topology_.nodes[*named].id + "\" has no port " +
                        std::to_string(hello.port_number) + " in the topology file");
    }
    return PortId{*named, hello.port_number};
}

// The phantom is removed for good, with all its ports: the connected device is the node from now
// on.
void Fabric::give_way(std::uint32_t node) {
    for (const std::uint32_t link : nodes_[node].links) {
        if (link != kNoLink) {
            cut(links_[link]);
        }
    }
    nodes_[node].phantom.reset();
}

std::expected<Admission::Place, Refuse> Fabric::admit(const Hello& hello) {
    if (!has_topology()) {
        return nodes_[0].sw->admit(hello);
    }
    if (hello.role == ib::link::Role::kSwitch) {
        return admit_switch(hello);
    }
    const auto found = find_place(hello);
    if (!found) {
        return std::unexpected(found.error());
    }
    const TopologyNode& node = topology_.nodes[found->node];
    const std::string what = "port " + std::to_string(found->port) + " of \"" + node.id + "\"";
    const TopologyPort& port = node.port(found->port);
    if (!port.joined()) {
        return not_here(what + " is joined to nothing in the topology file");
    }
    if (nodes_[found->node].elsewhere) {
        return not_here(what + " is in another process: connect to that one");
    }
    Switch& sw = *nodes_[port.peer_node].sw;
    if (nodes_[found->node].phantom == nullptr && sw.port(port.peer_port).cable().attached()) {
        return std::unexpected(Refuse{RefuseReason::kDuplicatePortGuid,
                                      what + " is connected already: another device has its name "
                                             "or GUID"});
    }
    if (nodes_[found->node].phantom != nullptr) {
        give_way(found->node);
        sw.counters(port.peer_port) = {};  // as if the phantom had never been there
    }
    sw.set_neighbour(port.peer_port, hello);
    sw.port(port.peer_port).set_captured(true);
    Place place = sw.place(port.peer_port);
    place.name = sw.config().description + " " + place.name;
    return place;
}

}  // namespace pib::fabric
