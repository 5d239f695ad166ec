// SPDX-License-Identifier: GPL-2.0-or-later
// Commands of the control socket.
//
//   status                            the switch and its ports
//   counters [port] [clear]           port counters, 64 bits wide
//   lft, mft                          forwarding tables, entries in use
//   link     port, state              "up", "down" (as if the cable were pulled) or "retrain"
//   fault    port [direction] ...     sets the faults of fault_spec_from(), none: as they are
#include "control_commands.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

namespace pib::fabric {
namespace {

using nlohmann::json;
namespace pi = ib::port_info;

constexpr double kNsPerUs = 1000.0;
constexpr std::size_t kMaxLidsShown = 16;

json failure(const std::string& text) {
    return {{"ok", false}, {"error", text}};
}

std::string hex(std::uint64_t value, int digits) {
    char text[19];
    std::snprintf(text, sizeof(text), "0x%0*llx", digits, static_cast<unsigned long long>(value));
    return text;
}

// A whole number that fits; what it is beyond that, its user checks.
unsigned number_in(const json& value) {
    const std::int64_t number = value.is_number_integer() ? value.get<std::int64_t>() : -1;
    return number >= 0 && number < UINT32_MAX ? static_cast<unsigned>(number) : UINT32_MAX;
}

// ---- status

const char* state_name(ib::PortState state) {
    static constexpr const char* kNames[] = {"NoChange", "Down", "Initialize", "Armed", "Active"};
    const auto index = static_cast<std::size_t>(state);
    return index < std::size(kNames) ? kNames[index] : "unknown";
}

const char* phys_name(ib::PhysState state) {
    static constexpr const char* kNames[] = {"NoChange", "Sleep",  "Polling",           "Disabled",
                                             "Training", "LinkUp", "LinkErrorRecovery", "PhyTest"};
    const auto index = static_cast<std::size_t>(state);
    return index < std::size(kNames) ? kNames[index] : "unknown";
}

std::string width_name(std::uint64_t width) {
    switch (width) {
        case ib::link_width::k1x:
            return "1X";
        case ib::link_width::k2x:
            return "2X";
        case ib::link_width::k4x:
            return "4X";
        case ib::link_width::k8x:
            return "8X";
        case ib::link_width::k12x:
            return "12X";
        default:
            return "?";
    }
}

std::string speed_name(std::uint64_t speed, std::uint64_t ext) {
    static constexpr const char* kBasic[] = {"?", "SDR", "DDR", "?", "QDR"};
    static constexpr const char* kExt[] = {"?", "FDR", "EDR", "?", "HDR", "?", "?", "?", "NDR"};
    if (ext != 0) {
        return ext < std::size(kExt) ? kExt[ext] : "?";
    }
    return speed < std::size(kBasic) ? kBasic[speed] : "?";
}

// The LIDs that the LFT sends out of a port: its neighbour's, behind a switch many.
json lids_behind(const SwitchNode& node, unsigned port) {
    json lids = json::array();
    for (unsigned lid = 1; lid <= node.lft.top() && lids.size() < kMaxLidsShown; ++lid) {
        if (node.lft.port(ib::Lid(static_cast<std::uint16_t>(lid))) == port) {
            lids.push_back(lid);
        }
    }
    return lids;
}

json faults_of(const FaultStage& stage) {
    const FaultSpec& spec = stage.spec();
    const FaultCounts& counts = stage.counts();
    json out = {{"drop", spec.drop},
                {"duplicate", spec.duplicate},
                {"reorder", spec.reorder},
                {"reorder_depth", spec.reorder_depth},
                {"corrupt", spec.corrupt},
                {"delay_us", static_cast<double>(spec.delay_ns) / kNsPerUs},
                {"jitter_us", static_cast<double>(spec.jitter_ns) / kNsPerUs},
                {"seed", spec.seed},
                {"vl15", spec.vl15}};
    if (spec.opcode) {
        out["opcode"] = *spec.opcode;
    }
    out["counts"] = {{"seen", counts.seen},
                     {"dropped", counts.dropped},
                     {"duplicated", counts.duplicated},
                     {"reordered", counts.reordered},
                     {"corrupted", counts.corrupted},
                     {"delayed", counts.delayed}};
    return out;
}

json port_status(Switch& sw, unsigned number) {
    SwitchPort& port = sw.port(number);
    const ib::Port& attrs = port.attrs();
    const bool up = attrs.link_is_up();
    json out = {
        {"port", number},
        {"state", state_name(attrs.state())},
        {"phys_state", phys_name(attrs.phys_state())},
        {"connected", port.attached()},
        {"cable", port.cable()},
        {"mtu", ib::mtu_bytes(attrs.neighbor_mtu())},
        {"data_vls", attrs.data_vls()},
        {"queued_packets", port.queued_packets()},
        {"width", up ? width_name(attrs.get(pi::kLinkWidthActive)) : ""},
        {"speed",
         up ? speed_name(attrs.get(pi::kLinkSpeedActive), attrs.get(pi::kLinkSpeedExtActive)) : ""},
        {"lids", lids_behind(sw.node(), number)},
        {"faults", port.ingress_faults().spec().any() || port.egress_faults().spec().any()}};
    if (const auto* who = sw.neighbour(number)) {
        out["neighbour"] = {{"node_guid", hex(who->node_guid.value(), 16)},
                            {"port_guid", hex(who->port_guid.value(), 16)},
                            {"port", who->port_number},
                            {"description", who->node_description}};
    }
    return out;
}

json status(Switch& sw, const json&) {
    ib::Port& port0 = sw.node().port0();
    json ports = json::array();
    for (unsigned number = 1; number <= sw.num_ports(); ++number) {
        ports.push_back(port_status(sw, number));
    }
    return {{"ok", true},
            {"switch",
             {{"guid", hex(sw.config().node_guid.value(), 16)},
              {"description", sw.config().description},
              {"lid", port0.lid().value()},
              {"sm_lid", port0.sm_lid().value()},
              {"ports", sw.num_ports()},
              {"held_packets", sw.held_packets()}}},
            {"ports", ports}};
}

// ---- counters

constexpr const char* kCounterNames[] = {
    "SymbolErrors",
    "LinkErrorRecovery",
    "LinkDowned",
    "PortRcvErrors",
    "PortRcvRemotePhysicalErrors",
    "PortRcvSwitchRelayErrors",
    "PortXmitDiscards",
    "PortXmitConstraintErrors",
    "PortRcvConstraintErrors",
    "LocalLinkIntegrityErrors",
    "ExcessiveBufferOverrunErrors",
    "QP1Dropped",
    "VL15Dropped",
    "PortXmitData",
    "PortRcvData",
    "PortXmitPkts",
    "PortRcvPkts",
    "PortXmitWait",
    "PortUnicastXmitPkts",
    "PortUnicastRcvPkts",
    "PortMulticastXmitPkts",
    "PortMulticastRcvPkts",
    "PortLocalPhysicalErrors",
    "PortMalformedPacketErrors",
    "PortBufferOverrunErrors",
    "PortDLIDMappingErrors",
    "PortVLMappingErrors",
    "PortLoopingErrors",
    "PortInactiveDiscards",
    "PortNeighborMTUDiscards",
    "PortSwLifetimeLimitDiscards",
    "PortSwHOQLifetimeLimitDiscards",
};
static_assert(std::size(kCounterNames) == ib::kCounterCount);

json port_counters(Switch& sw, unsigned number, bool clear) {
    ib::PortCounters& counters = sw.counters(number);
    json out = {{"port", number}};
    for (std::size_t i = 0; i < ib::kCounterCount; ++i) {
        const auto counter = static_cast<ib::Counter>(i);
        out[kCounterNames[i]] = counters.value(counter, ib::CounterView::kExtended);
        if (clear) {
            counters.write(counter, ib::CounterView::kExtended, 0);
        }
    }
    return out;
}

json counters(Switch& sw, const json& request) {
    const bool clear = request.value("clear", false);
    json ports = json::array();
    if (request.contains("port")) {
        const auto number = number_in(request.at("port"));
        if (number > sw.num_ports()) {
            return failure("no such port");
        }
        ports.push_back(port_counters(sw, number, clear));
    } else {
        for (unsigned number = 0; number <= sw.num_ports(); ++number) {
            ports.push_back(port_counters(sw, number, clear));
        }
    }
    return {{"ok", true}, {"ports", ports}};
}

// ---- forwarding tables

json lft(Switch& sw, const json&) {
    json entries = json::array();
    for (unsigned lid = 0; lid <= sw.node().lft.top(); ++lid) {
        const auto port = sw.node().lft.port(ib::Lid(static_cast<std::uint16_t>(lid)));
        if (port != kNoPort) {
            entries.push_back({lid, port});
        }
    }
    return {{"ok", true}, {"top", sw.node().lft.top()}, {"entries", entries}};
}

json mft(Switch& sw, const json&) {
    json entries = json::array();
    for (unsigned i = 0; i < sw.node().mft.cap(); ++i) {
        const auto mlid = static_cast<std::uint16_t>(ib::Lid::kMulticastFirst + i);
        const auto mask = sw.node().mft.ports(ib::Lid(mlid));
        if (!mask) {
            continue;
        }
        json ports = json::array();
        for (unsigned port = 0; port <= sw.num_ports(); ++port) {
            if ((*mask >> port & 1U) != 0) {
                ports.push_back(port);
            }
        }
        entries.push_back({mlid, ports});
    }
    return {{"ok", true}, {"entries", entries}};
}

// ---- links and faults

SwitchPort* external_port(Switch& sw, const json& request) {
    const auto number = number_in(request.at("port"));
    return number >= 1 && number <= sw.num_ports() ? &sw.port(number) : nullptr;
}

json link_command(Switch& sw, const json& request) {
    SwitchPort* port = external_port(sw, request);
    if (port == nullptr) {
        return failure("no such port");
    }
    const auto state = request.at("state").get<std::string>();
    if (state == "up" || state == "down") {
        port->set_cable(state == "up");
    } else if (state == "retrain") {
        port->attributes_changed(ib::PortEvent::kDownRequest);
    } else {
        return failure("link state is up, down or retrain");
    }
    return {{"ok", true}, {"port", port_status(sw, port->number())}};
}

json fault(Switch& sw, const json& request) {
    SwitchPort* port = external_port(sw, request);
    if (port == nullptr) {
        return failure("no such port");
    }
    if (request.contains("set")) {
        const auto spec = fault_spec_from(request.at("set"));
        if (!spec) {
            return failure(spec.error());
        }
        const auto set = set_faults(*port, request.value("direction", "both"), *spec);
        if (!set) {
            return failure(set.error());
        }
    }
    return {{"ok", true},
            {"port", port->number()},
            {"in", faults_of(port->ingress_faults())},
            {"out", faults_of(port->egress_faults())}};
}

struct Command {
    const char* name;
    json (*run)(Switch& sw, const json& request);
};
constexpr Command kCommands[] = {
    {"status", status}, {"counters", counters}, {"lft", lft},
    {"mft", mft},       {"link", link_command}, {"fault", fault},
};

std::expected<double, std::string> probability(const json& value, const std::string& name) {
    const double number = value.get<double>();
    if (!(number >= 0.0 && number <= 1.0)) {
        return std::unexpected(name + " is a probability, 0 to 1");
    }
    return number;
}

std::expected<std::uint64_t, std::string> microseconds(const json& value, const std::string& name) {
    constexpr double kMaxUs = 60e6;
    const double number = value.get<double>();
    if (!(number >= 0.0 && number <= kMaxUs)) {
        return std::unexpected(name + " is 0 to 60,000,000 microseconds");
    }
    return static_cast<std::uint64_t>(std::llround(number * kNsPerUs));
}

std::expected<void, std::string> set_fault_member(FaultSpec& spec, const std::string& name,
                                                  const json& value) {
    struct Probability {
        const char* name;
        double FaultSpec::*member;
    };
    static constexpr Probability kProbabilities[] = {{"drop", &FaultSpec::drop},
                                                     {"duplicate", &FaultSpec::duplicate},
                                                     {"reorder", &FaultSpec::reorder},
                                                     {"corrupt", &FaultSpec::corrupt}};
    for (const Probability& row : kProbabilities) {
        if (name == row.name) {
            const auto p = probability(value, name);
            if (!p) {
                return std::unexpected(p.error());
            }
            spec.*row.member = *p;
            return {};
        }
    }
    if (name == "delay_us" || name == "jitter_us") {
        const auto ns = microseconds(value, name);
        if (!ns) {
            return std::unexpected(ns.error());
        }
        (name == "delay_us" ? spec.delay_ns : spec.jitter_ns) = *ns;
    } else if (name == "seed") {
        if (!value.is_number_integer() || value < 0) {
            return std::unexpected("seed is a whole number, not negative");
        }
        spec.seed = value.get<std::uint64_t>();
    } else if (name == "reorder_depth") {
        spec.reorder_depth = number_in(value);
    } else if (name == "vl15") {
        spec.vl15 = value.get<bool>();
    } else if (name == "opcode") {
        if (number_in(value) > UINT8_MAX) {
            return std::unexpected("opcode is 0 to 255");
        }
        spec.opcode = static_cast<std::uint8_t>(number_in(value));
    } else {
        return std::unexpected("no such fault: " + name);
    }
    return {};
}

}  // namespace

std::expected<FaultSpec, std::string> fault_spec_from(const json& members) {
    FaultSpec spec;
    if (!members.is_object()) {
        return std::unexpected("faults are an object");
    }
    for (const auto& [name, value] : members.items()) {
        if (const auto set = set_fault_member(spec, name, value); !set) {
            return std::unexpected(set.error());
        }
    }
    return spec;
}

std::expected<void, std::string> set_faults(SwitchPort& port, const std::string& direction,
                                            const FaultSpec& spec) {
    const bool in = direction == "in" || direction == "both";
    const bool out = direction == "out" || direction == "both";
    if (!in && !out) {
        return std::unexpected("direction is in, out or both");
    }
    if (in) {
        port.ingress_faults().set(spec);
    }
    if (out) {
        // Another sequence than the other direction has, from the same seed.
        FaultSpec outgoing = spec;
        outgoing.seed ^= in ? 0xA5A5A5A5A5A5A5A5 : 0;
        port.egress_faults().set(outgoing);
    }
    return {};
}

std::expected<void, std::string> apply_fault_option(Switch& sw, const std::string& text) {
    const auto colon = text.find(':');
    if (colon == std::string::npos) {
        return std::unexpected("not PORT:NAME=VALUE,...: " + text);
    }
    const std::string which = text.substr(0, colon);
    const bool all = which == "all";
    const unsigned long first = all ? 1 : std::strtoul(which.c_str(), nullptr, 10);
    json request = {{"command", "fault"}, {"set", json::object()}};
    std::istringstream parts(text.substr(colon + 1));
    for (std::string part; std::getline(parts, part, ',');) {
        const auto equals = std::min(part.find('='), part.size());
        const std::string name = part.substr(0, equals);
        const std::string value = part.substr(std::min(equals + 1, part.size()));
        if (name == "direction") {
            request["direction"] = value;
        } else {
            request["set"][name] = json::parse(value, nullptr, false);
        }
    }
    for (unsigned long port = first; port <= (all ? sw.num_ports() : first); ++port) {
        request["port"] = port;
        const json answer = run_control_command(sw, request);
        if (!answer.at("ok").get<bool>()) {
            return std::unexpected(text + ": " + answer.at("error").get<std::string>());
        }
    }
    return {};
}

json run_control_command(Switch& sw, const json& request) {
    if (!request.is_object()) {
        return failure("a request is one JSON object a line");
    }
    try {
        const auto name = request.at("command").get<std::string>();
        for (const Command& command : kCommands) {
            if (name == command.name) {
                return command.run(sw, request);
            }
        }
        return failure("no such command: " + name);
    } catch (const json::exception& e) {
        return failure(e.what());
    }
}

std::string run_control_line(Switch& sw, std::string_view line) {
    const json request = json::parse(line, nullptr, false);
    return run_control_command(sw, request).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace pib::fabric
