// SPDX-License-Identifier: GPL-2.0-or-later
// One line of a topology file, divided into its values. topology.cc combines the lines.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/link_modes.h"
#include "ib/wire/types.h"

namespace pib::fabric {

// vendid=0x2c9, switchguid=0x2c90200400110(2c90200400110), …
struct AssignmentLine {
    std::string_view key;
    uint64_t value = 0;
};

// Switch 36 "S-0002c90200400110"  # "leaf 1" base port 0 lid 2 lmc 0
struct NodeLine {
    bool is_switch = false;
    unsigned ports = 0;
    std::string_view id;
    std::string_view description;  // empty: none
};

// [1](2c903000e0b73)  "S-0002c90200400110"[4](…)  w=2 s=7  # lid 5 lmc 0 "leaf 1" lid 2 4xQDR
struct PortLine {
    unsigned port = 0;
    std::optional<ib::Guid> guid;
    std::string_view peer_id;
    unsigned peer_port = 1;  // ibsim's default
    std::optional<ib::Guid> peer_guid;
    LinkModes modes;
};

struct BlankLine {};    // ends a node's record
struct CommentLine {};  // does not end a record

using TopologyLine = std::variant<BlankLine, CommentLine, AssignmentLine, NodeLine, PortLine>;

// The result has views into `line`, which has no newline. The error is a message without file and
// line number.
[[nodiscard]] std::expected<TopologyLine, std::string> parse_topology_line(std::string_view line);

// Parses "4xEDR": that width with 1x (8x and 12x with 4x as well), and that speed with all lower
// ones. No value if the text has another form.
[[nodiscard]] std::optional<LinkModes> link_modes_of(std::string_view width_and_speed);

}  // namespace pib::fabric
