// SPDX-License-Identifier: GPL-2.0-or-later
// The syntax of ibnetdiscover's output, with ibsim's additions.
#include "fabric/topology_line.h"

#include <charconv>

#include "ib/wire/mad.h"

namespace pib::fabric {
namespace {

using Failure = std::unexpected<std::string>;

constexpr bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}
constexpr bool is_alpha(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// The rest of a line, consumed from the left.
class Cursor {
  public:
    explicit Cursor(std::string_view text) : text_(text) {}

    void skip_space() {
        while (!text_.empty() && is_space(text_.front())) {
            text_.remove_prefix(1);
        }
    }
    [[nodiscard]] bool at_end() const { return text_.empty(); }
    [[nodiscard]] char peek() const { return text_.empty() ? '\0' : text_.front(); }
    void drop() { text_.remove_prefix(1); }
    [[nodiscard]] std::string_view rest() const { return text_; }
    bool eat(char c) {
        skip_space();
        if (peek() != c) {
            return false;
        }
        drop();
        return true;
    }
    std::string_view word() {
        size_t size = 0;
        while (size < text_.size() && is_alpha(text_[size])) {
            ++size;
        }
        return take(size);
    }
    // The text before `end`, which is consumed too; no value if the line ends before.
    std::optional<std::string_view> until(char end) {
        const size_t size = text_.find(end);
        if (size == std::string_view::npos) {
            return std::nullopt;
        }
        const std::string_view found = take(size);
        drop();
        return found;
    }
    // A number, hexadecimal after 0x or with `base` 16.
    std::optional<uint64_t> number(int base = 10) {
        skip_space();
        if (text_.starts_with("0x") || text_.starts_with("0X")) {
            text_.remove_prefix(2);
            base = 16;
        }
        uint64_t value = 0;
        const auto [end, error] =
            std::from_chars(text_.data(), text_.data() + text_.size(), value, base);
        if (error != std::errc{}) {
            return std::nullopt;
        }
        take(static_cast<size_t>(end - text_.data()));
        return value;
    }

  private:
    std::string_view take(size_t size) {
        const std::string_view taken = text_.substr(0, size);
        text_.remove_prefix(size);
        return taken;
    }
    std::string_view text_;
};

// ---- links

struct SpeedName {
    std::string_view name;
    uint8_t speed;
    uint8_t speed_ext;
};
namespace ls = ib::link_speed;
namespace le = ib::link_speed_ext;
constexpr uint8_t kAllBasic = ls::kSdr | ls::kDdr | ls::kQdr;
constexpr SpeedName kSpeeds[] = {
    {"SDR", ls::kSdr, 0},
    {"DDR", ls::kSdr | ls::kDdr, 0},
    {"QDR", kAllBasic, 0},
    {"FDR10", kAllBasic, 0},  // a speed of one vendor; other ports see a QDR link
    {"FDR", kAllBasic, le::kFdr},
    {"EDR", kAllBasic, le::kFdr | le::kEdr},
    {"HDR", kAllBasic, le::kFdr | le::kEdr | le::kHdr},
    {"NDR", kAllBasic, le::kFdr | le::kEdr | le::kHdr | le::kNdr},
};

uint8_t widths_up_to(uint64_t lanes) {
    namespace lw = ib::link_width;
    switch (lanes) {
        case 1:
            return lw::k1x;
        case 2:
            return lw::k1x | lw::k2x;
        case 4:
            return lw::k1x | lw::k4x;
        case 8:
            return lw::k1x | lw::k4x | lw::k8x;
        case 12:
            return lw::k1x | lw::k4x | lw::k12x;
        default:
            return 0;
    }
}

// The link modes in the comment of a port line. Ignores the quoted description of the neighbour.
LinkModes modes_in_comment(std::string_view comment) {
    LinkModes found;
    bool quoted = false;
    for (size_t begin = 0, i = 0; i <= comment.size(); ++i) {
        const bool ends = i == comment.size() || is_space(comment[i]) || comment[i] == '"';
        if (!ends) {
            continue;
        }
        if (!quoted) {
            found = link_modes_of(comment.substr(begin, i - begin)).value_or(found);
        }
        quoted = quoted != (i < comment.size() && comment[i] == '"');
        begin = i + 1;
    }
    return found;
}

struct Mode {
    std::string_view name;
    uint64_t highest;
    uint8_t LinkModes::* member;
};
constexpr Mode kModes[] = {
    {"w", 31, &LinkModes::width}, {"s", 7, &LinkModes::speed}, {"e", 15, &LinkModes::speed_ext}};

std::expected<void, std::string> parse_mode(Cursor& at, LinkModes& modes) {
    const std::string_view name = at.word();
    const bool equals = at.eat('=');
    const auto value = at.number();
    for (const Mode& mode : kModes) {
        if (equals && value && name.starts_with(mode.name)) {
            if (*value < 1 || *value > mode.highest) {
                return Failure(std::string(name) + "= is a mask of 1 to " +
                               std::to_string(mode.highest) + ", as in PortInfo");
            }
            modes.*mode.member = static_cast<uint8_t>(*value);
            return {};
        }
    }
    return Failure("expected w=MASK, s=MASK, e=MASK or a # comment after the neighbour, found \"" +
                   std::string(name) + "\"");
}

// ---- records

std::expected<std::string_view, std::string> parse_id(Cursor& at, const char* whose) {
    if (!at.eat('"')) {
        return Failure(std::string("expected ") + whose + " id in quotation marks");
    }
    const auto id = at.until('"');
    if (!id || id->empty()) {
        return Failure(std::string("the quotation marks around ") + whose +
                       " id do not close, or hold nothing");
    }
    return *id;
}

std::expected<TopologyLine, std::string> parse_node(std::string_view type, Cursor at) {
    NodeLine node{.is_switch = type == "Switch", .ports = 0, .id = {}, .description = {}};
    const auto ports = at.number();
    if (!ports || *ports < 1 || *ports > 254) {
        return Failure("expected the number of ports, 1 to 254, after " + std::string(type));
    }
    node.ports = static_cast<unsigned>(*ports);
    const auto id = parse_id(at, "the node's");
    if (!id) {
        return Failure(id.error());
    }
    node.id = *id;
    if (at.eat('#') && at.eat('"')) {
        node.description = at.until('"').value_or(std::string_view{});
    }
    return node;
}

std::expected<std::optional<ib::Guid>, std::string> parse_port_guid(Cursor& at) {
    if (!at.eat('(')) {
        return std::nullopt;
    }
    const auto guid = at.number(16);
    if (!guid || *guid == 0 || !at.eat(')')) {
        return Failure("expected a GUID, hexadecimal and not 0, in the parentheses");
    }
    return ib::Guid(*guid);
}

std::expected<unsigned, std::string> parse_port_number(Cursor& at) {
    const auto number = at.number();
    if (!number || *number < 1 || *number > 254 || !at.eat(']')) {
        return Failure("expected a port number, 1 to 254, and ]");
    }
    return static_cast<unsigned>(*number);
}

std::expected<void, std::string> parse_peer(Cursor& at, PortLine& port) {
    const auto id = parse_id(at, "the neighbour's");
    if (!id) {
        return Failure(id.error());
    }
    port.peer_id = *id;
    if (at.eat('[')) {
        const auto number = parse_port_number(at);
        if (!number) {
            return Failure(number.error());
        }
        port.peer_port = *number;
    }
    const auto guid = parse_port_guid(at);
    if (!guid) {
        return Failure(guid.error());
    }
    port.peer_guid = *guid;
    return {};
}

std::expected<TopologyLine, std::string> parse_port(Cursor at) {
    PortLine port;
    const auto number = parse_port_number(at);
    if (!number) {
        return Failure(number.error());
    }
    port.port = *number;
    if (at.eat('[') && !at.until(']')) {  // [ext 7]: the label on the chassis
        return Failure("expected ] after [ext");
    }
    const auto guid = parse_port_guid(at);
    if (!guid) {
        return Failure(guid.error());
    }
    port.guid = *guid;
    if (const auto peer = parse_peer(at, port); !peer) {
        return Failure(peer.error());
    }
    LinkModes given;
    for (at.skip_space(); !at.at_end() && at.peek() != '#'; at.skip_space()) {
        if (const auto mode = parse_mode(at, given); !mode) {
            return Failure(mode.error());
        }
    }
    port.modes = modes_in_comment(at.rest());
    for (const Mode& mode : kModes) {
        if (given.*mode.member != 0) {
            port.modes.*mode.member = given.*mode.member;
        }
    }
    return port;
}

// Keys that topology.cc handles, and words of ibsim and ibnetdiscover that are not supported.
constexpr std::string_view kAssignments[] = {"vendid",     "devid",  "sysimgguid",
                                             "switchguid", "caguid", "hcaguids",
                                             "width",      "speed",  "extspeed"};
struct Unsupported {
    std::string_view word;
    const char* advice;
};
constexpr Unsupported kUnsupported[] = {
    {"include", "include is not supported: put the nodes into this file"},
    {"module", "module prefixes are not supported: give each node an id of its own"},
    {"do", "commands do not belong here: pib-switch ctl script runs them"},
    {"Rt", "routers are not supported: leave them out, and the lines that lead to them"},
    {"rtguid", "routers are not supported: leave them out, and the lines that lead to them"},
    {"Chassis", "chassis are not supported: write the file with ibnetdiscover without -g"},
};

std::expected<TopologyLine, std::string> parse_assignment(std::string_view key, Cursor at) {
    at.eat('=');
    const auto value = at.number();
    if (!value) {
        return Failure("expected a number after " + std::string(key) + "=");
    }
    return AssignmentLine{key, *value};
}

}  // namespace

std::optional<LinkModes> link_modes_of(std::string_view width_and_speed) {
    Cursor at(width_and_speed);
    const auto lanes = at.number();
    if (!lanes || at.peek() != 'x') {
        return std::nullopt;
    }
    at.drop();
    for (const SpeedName& row : kSpeeds) {
        if (at.rest() == row.name && widths_up_to(*lanes) != 0) {
            return LinkModes{widths_up_to(*lanes), row.speed, row.speed_ext};
        }
    }
    return std::nullopt;
}

std::expected<TopologyLine, std::string> parse_topology_line(std::string_view line) {
    Cursor at(line);
    at.skip_space();
    if (at.at_end()) {
        return BlankLine{};
    }
    if (at.peek() == '#') {
        return CommentLine{};
    }
    if (at.eat('[')) {
        return parse_port(at);
    }
    const std::string_view word = at.word();
    if (word == "Switch" || word == "Ca" || word == "Hca") {
        return parse_node(word, at);
    }
    for (const std::string_view key : kAssignments) {
        if (word == key) {
            return parse_assignment(key, at);
        }
    }
    for (const Unsupported& row : kUnsupported) {
        if (word == row.word) {
            return Failure(row.advice);
        }
    }
    return Failure(
        "expected Switch, Ca, a [port], an assignment such as vendid=0x2c9, or a # comment");
}

}  // namespace pib::fabric
