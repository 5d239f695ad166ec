// SPDX-License-Identifier: GPL-2.0-or-later
// Builds a Topology from lines: assigns GUIDs, and checks that both ends of a link agree.
#include "fabric/topology.h"

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <unordered_map>

#include "base/guid_text.h"
#include "fabric/topology_line.h"

namespace pib::fabric {
namespace {

using Failure = std::unexpected<std::string>;
using Result = std::expected<void, std::string>;

// Locally administered EUI-64s for nodes without a GUID in the file. They begin with 0x06, because
// Linux's ib_cm refuses service IDs that begin with 0x02, and SRP targets listen at their GUID.
constexpr uint64_t kFirstSwitchGuid = 0x0650'4942'0001'0000;
constexpr uint64_t kFirstCaGuid = 0x0650'4942'0100'0000;

std::string quoted(std::string_view id) {
    return "\"" + std::string(id) + "\"";
}

std::string hex(uint64_t value) {
    char text[19];
    std::snprintf(text, sizeof(text), "0x%016" PRIx64, value);
    return text;
}

// The GUID in an id of ibnetdiscover's form (S-0002c90200400110, H-0002c903000e0b72); 0: none.
uint64_t guid_in_id(std::string_view id) {
    constexpr size_t kSize = 18;
    const bool made = id.size() == kSize && (id.starts_with("S-") || id.starts_with("H-"));
    const auto guid = made ? parse_guid_digits(id.substr(2)) : std::nullopt;
    return guid ? guid->value() : 0;
}

class Builder {
  public:
    explicit Builder(const std::string& file) : file_(file) {}

    std::expected<Topology, std::string> build(std::string_view text) {
        while (!text.empty()) {
            const size_t size = std::min(text.find('\n'), text.size());
            ++line_;
            if (const auto taken = take_line(text.substr(0, size)); !taken) {
                return Failure(taken.error());
            }
            text.remove_prefix(std::min(size + 1, text.size()));
        }
        if (topology_.nodes.empty()) {
            return Failure(file_ +
                           ": no node in it: a file has records as ibnetdiscover writes them");
        }
        for (const Result& step : {join_all(), check_guids()}) {
            if (!step) {
                return Failure(step.error());
            }
        }
        return std::move(topology_);
    }

  private:
    struct Join {
        uint32_t node = 0;
        unsigned port = 0;
        std::string peer_id;
        unsigned peer_port = 0;
        ib::Guid peer_guid{};
    };

    [[nodiscard]] std::string at(unsigned line, const std::string& text) const {
        return file_ + ":" + std::to_string(line) + ": " + text;
    }

    Result take_line(std::string_view text) {
        if (text.size() > kMaxTopologyLine) {
            return Failure(
                at(line_, "the line is longer than 4096 bytes: is this a topology file?"));
        }
        const auto line = parse_topology_line(text);
        if (!line) {
            return Failure(at(line_, line.error()));
        }
        const auto taken = std::visit([this](const auto& what) { return take(what); }, *line);
        return taken ? taken : Failure(at(line_, taken.error()));
    }

    Result take(const BlankLine&) {
        in_record_ = false;
        return {};
    }
    Result take(const CommentLine&) { return {}; }
    Result take(const AssignmentLine& assignment);
    Result take(const NodeLine& line);
    Result take(const PortLine& line);
    void give_guids(TopologyNode& node);
    Result join_all();
    Result join(const Join& join);
    Result join_end(uint32_t node, unsigned port, uint32_t peer, unsigned peer_port, unsigned line);
    Result check_guids() const;

    const std::string& file_;
    Topology topology_;
    std::unordered_map<std::string, uint32_t> by_id_;
    std::vector<Join> joins_;
    unsigned line_ = 0;
    bool in_record_ = false;
    // Defaults for the following nodes, as in ibsim.
    uint32_t vendor_id_ = 0;
    uint16_t device_id_ = 0;
    LinkModes modes_;
    // Values for the next node only.
    uint64_t system_image_guid_ = 0;
    uint64_t guid_[2] = {0, 0};  // CA, switch; 0: not in the file
    uint64_t next_guid_[2] = {kFirstCaGuid, kFirstSwitchGuid};
};

Result Builder::take(const AssignmentLine& assignment) {
    const auto& [key, value] = assignment;
    in_record_ = false;
    if (key == "vendid") {
        vendor_id_ = static_cast<uint32_t>(value & 0xFFFFFF);
    } else if (key == "devid") {
        device_id_ = static_cast<uint16_t>(value);
    } else if (key == "sysimgguid") {
        system_image_guid_ = value;
    } else if (key == "switchguid") {
        guid_[1] = value;
    } else if (key == "caguid" || key == "hcaguids") {
        guid_[0] = value;
    } else if (key == "width") {
        modes_.width = static_cast<uint8_t>(value & 0x1F);
    } else if (key == "speed") {
        modes_.speed = static_cast<uint8_t>(value & 0x7);
    } else if (key == "extspeed") {
        modes_.speed_ext = static_cast<uint8_t>(value & 0xF);
    }
    return {};
}

Result Builder::take(const NodeLine& line) {
    if (topology_.nodes.size() >= kMaxTopologyNodes) {
        return Failure("more nodes than a subnet has LIDs (49151): leave some out");
    }
    if (line.id.size() > kMaxNodeId) {
        return Failure("the node's id is longer than 127 bytes: shorten it");
    }
    TopologyNode node;
    node.is_switch = line.is_switch;
    node.id = line.id;
    node.description = line.description.empty() ? line.id : line.description;
    node.vendor_id = vendor_id_;
    node.device_id = device_id_;
    node.line = line_;
    node.ports.assign(line.ports, {.modes = modes_});
    give_guids(node);
    const auto [known, is_new] =
        by_id_.emplace(node.id, static_cast<uint32_t>(topology_.nodes.size()));
    if (!is_new) {
        return Failure("the id " + quoted(node.id) + " is already used in line " +
                       std::to_string(topology_.nodes[known->second].line) +
                       ": give each node its own");
    }
    topology_.nodes.push_back(std::move(node));
    in_record_ = true;
    return {};
}

void Builder::give_guids(TopologyNode& node) {
    uint64_t& said = guid_[node.is_switch ? 1 : 0];
    uint64_t& next = next_guid_[node.is_switch ? 1 : 0];
    uint64_t guid = said != 0 ? said : guid_in_id(node.id);
    if (guid == 0) {
        guid = next;
        next += node.is_switch ? 1 : node.ports.size() + 1;
    }
    said = 0;
    node.guid = ib::Guid(guid);
    node.system_image_guid =
        ib::Guid(system_image_guid_ != 0 ? system_image_guid_ : node.guid.value());
    system_image_guid_ = 0;
    for (size_t i = 0; !node.is_switch && i < node.ports.size(); ++i) {
        node.ports[i].guid = ib::Guid(guid + i + 1);
    }
}

Result Builder::take(const PortLine& line) {
    if (!in_record_) {
        return Failure("a port outside of a node's record: it belongs under a Switch or Ca line");
    }
    const auto index = static_cast<uint32_t>(topology_.nodes.size() - 1);
    TopologyNode& node = topology_.nodes[index];
    if (line.port > node.ports.size()) {
        return Failure("port " + std::to_string(line.port) + " of a node that has " +
                       std::to_string(node.ports.size()) + " ports: correct line " +
                       std::to_string(node.line) + " or this one");
    }
    TopologyPort& port = node.port(line.port);
    if (port.line != 0) {
        return Failure("port " + std::to_string(line.port) + " is joined in line " +
                       std::to_string(port.line) + " already: leave one of the two out");
    }
    port.line = line_;
    port.guid = node.is_switch ? ib::Guid{} : line.guid.value_or(port.guid);
    port.modes = line.modes.or_else(port.modes);
    joins_.push_back({.node = index,
                      .port = line.port,
                      .peer_id = std::string(line.peer_id),
                      .peer_port = line.peer_port,
                      .peer_guid = line.peer_guid.value_or(ib::Guid{})});
    return {};
}

Result Builder::join_all() {
    for (const Join& one : joins_) {
        if (const auto joined = join(one); !joined) {
            return joined;
        }
    }
    return {};
}

Result Builder::join(const Join& join) {
    TopologyNode& node = topology_.nodes[join.node];
    const unsigned line = node.port(join.port).line;
    const auto peer = by_id_.find(join.peer_id);
    if (peer == by_id_.end()) {
        return Failure(at(line, "no node " + quoted(join.peer_id) +
                                    " in this file: add its record, or leave this line out"));
    }
    TopologyNode& other = topology_.nodes[peer->second];
    if (join.peer_port > other.ports.size()) {
        return Failure(at(line, quoted(other.id) + " has " + std::to_string(other.ports.size()) +
                                    " ports: correct its line " + std::to_string(other.line) +
                                    " or this one"));
    }
    if (!node.is_switch && !other.is_switch) {
        return Failure(at(line, "joins two channel adapters: put a switch between them"));
    }
    if (peer->second == join.node && join.peer_port == join.port) {
        return Failure(at(line, "joins a port to itself: name another port"));
    }
    const auto mine = join_end(join.node, join.port, peer->second, join.peer_port, line);
    const auto theirs = join_end(peer->second, join.peer_port, join.node, join.port, line);
    if (join.peer_guid != ib::Guid{} && !other.is_switch && other.port(join.peer_port).line == 0) {
        other.port(join.peer_port).guid = join.peer_guid;
    }
    return mine ? theirs : mine;
}

// A link may appear at either end, or at both with the same values.
Result Builder::join_end(uint32_t node, unsigned port, uint32_t peer, unsigned peer_port,
                         unsigned line) {
    TopologyPort& end = topology_.nodes[node].port(port);
    if (!end.joined()) {
        end.peer_node = peer;
        end.peer_port = static_cast<uint8_t>(peer_port);
        return {};
    }
    if (end.peer_node == peer && end.peer_port == peer_port) {
        return {};
    }
    const TopologyNode& other = topology_.nodes[end.peer_node];
    return Failure(at(line, "port " + std::to_string(port) + " of " +
                                quoted(topology_.nodes[node].id) + " is joined to " +
                                quoted(other.id) + "[" + std::to_string(end.peer_port) +
                                "] elsewhere in the file: make both ends name each other"));
}

Result Builder::check_guids() const {
    std::map<uint64_t, unsigned> node_lines, port_lines;
    for (const TopologyNode& node : topology_.nodes) {
        const auto [known, is_new] = node_lines.emplace(node.guid.value(), node.line);
        if (!is_new) {
            return Failure(
                at(node.line, "the GUID " + hex(node.guid.value()) + " is already used in line " +
                                  std::to_string(known->second) + ": give each node its own"));
        }
        for (const TopologyPort& port : node.ports) {
            const unsigned line = port.line != 0 ? port.line : node.line;
            if (!node.is_switch && !port_lines.emplace(port.guid.value(), line).second) {
                return Failure(at(line, "the port GUID " + hex(port.guid.value()) +
                                            " is already used in line " +
                                            std::to_string(port_lines[port.guid.value()]) +
                                            ": give each port its own"));
            }
        }
    }
    return {};
}

}  // namespace

std::expected<Topology, std::string> parse_topology(std::string_view text,
                                                    const std::string& file) {
    if (text.size() > kMaxTopologyBytes) {
        return Failure(file + ": larger than 64 MiB: is this a topology file?");
    }
    return Builder(file).build(text);
}

std::expected<Topology, std::string> load_topology(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        return Failure(path + ": cannot be read: name a topology file as ibnetdiscover writes it");
    }
    std::string text;
    constexpr size_t kPiece = 1 << 16;
    while (file && text.size() <= kMaxTopologyBytes) {
        const size_t begin = text.size();
        text.resize(begin + kPiece);
        file.read(&text[begin], kPiece);
        text.resize(begin + static_cast<size_t>(file.gcount()));
    }
    return parse_topology(text, path);
}

}  // namespace pib::fabric
