// SPDX-License-Identifier: GPL-2.0-or-later
// A fabric described by a file in the syntax that ibnetdiscover writes and ibsim reads: nodes, and
// the links of their ports. Plain data, complete and consistent after parsing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/link_modes.h"
#include "ib/wire/types.h"

namespace pib::fabric {

// A port of a node; ports of a switch have no GUID.
struct TopologyPort {
    static constexpr uint32_t kNobody = std::numeric_limits<uint32_t>::max();

    uint32_t peer_node = kNobody;  // index into Topology::nodes
    uint8_t peer_port = 0;
    ib::Guid guid{};
    LinkModes modes;
    unsigned line = 0;  // line of the port's link; 0: the node's record does not list the port

    [[nodiscard]] bool joined() const { return peer_node != kNobody; }
};

struct TopologyNode {
    bool is_switch = false;
    std::string id;           // text between quotation marks, unique in the file
    std::string description;  // NodeDescription: the comment after the id, or the id
    ib::Guid guid{};
    ib::Guid system_image_guid{};
    uint32_t vendor_id = 0;  // 24 bits; 0: not in the file
    uint16_t device_id = 0;
    std::vector<TopologyPort> ports;  // [0] is port 1
    unsigned line = 0;

    [[nodiscard]] TopologyPort& port(unsigned number) { return ports[number - 1]; }
    [[nodiscard]] const TopologyPort& port(unsigned number) const { return ports[number - 1]; }
};

struct Topology {
    std::vector<TopologyNode> nodes;
};

// Limits of a file; larger ones are refused. A subnet has no more unicast LIDs than
// kMaxTopologyNodes.
inline constexpr size_t kMaxTopologyNodes = 0xBFFF;
inline constexpr size_t kMaxTopologyBytes = size_t{64} << 20;
inline constexpr size_t kMaxTopologyLine = 4096;
inline constexpr size_t kMaxNodeId = 127;

// The error is a one-line message, "FILE:LINE: mistake: remedy", without LINE if it is about the
// whole file. `file` is used in messages only.
[[nodiscard]] std::expected<Topology, std::string> parse_topology(std::string_view text,
                                                                  const std::string& file);
// Reads a file and parses it.
[[nodiscard]] std::expected<Topology, std::string> load_topology(const std::string& path);

}  // namespace pib::fabric
