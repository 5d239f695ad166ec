// SPDX-License-Identifier: GPL-2.0-or-later
#include "fabric/topology_place.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

namespace pib::fabric {
namespace {

using link::Hello;
using link::Refuse;

std::string_view first_word(std::string_view text) {
    return text.substr(0, text.find(' '));
}

std::unexpected<Refuse> not_here(const std::string& text) {
    return std::unexpected(Refuse{link::RefuseReason::kNotInTopology, text});
}

// The channel adapter with this NodeDescription or id; else the only one with the same first word,
// because the first word is often the host's name, and the second the device's.
std::optional<uint32_t> find_adapter(const Topology& topology, std::string_view description) {
    std::optional<uint32_t> similar;
    unsigned matches = 0;
    for (uint32_t i = 0; i < topology.nodes.size(); ++i) {
        const TopologyNode& node = topology.nodes[i];
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

}  // namespace

std::expected<PortId, Refuse> find_place(const Topology& topology, const Hello& hello) {
    for (uint32_t i = 0; i < topology.nodes.size(); ++i) {
        const TopologyNode& node = topology.nodes[i];
        if (node.is_switch) {
            continue;
        }
        const auto port = std::ranges::find(node.ports, hello.port_guid, &TopologyPort::guid);
        if (port != node.ports.end()) {
            return PortId{i, static_cast<uint8_t>(port - node.ports.begin() + 1)};
        }
        if (node.guid == hello.node_guid && hello.port_number <= node.ports.size()) {
            return PortId{i, hello.port_number};
        }
    }
    const auto named = find_adapter(topology, hello.node_description);
    if (!named) {
        return not_here("no channel adapter in the topology file has this GUID or the name \"" +
                        hello.node_description +
                        "\": give the device the node-guid and port-guid of one, or its name as "
                        "node-description");
    }
    if (hello.port_number > topology.nodes[*named].ports.size()) {
        return not_here("\"" + topology.nodes[*named].id + "\" has no port " +
                        std::to_string(hello.port_number) +
                        " in the topology file: add it there, or give the device fewer ports");
    }
    return PortId{*named, hello.port_number};
}

}  // namespace pib::fabric
