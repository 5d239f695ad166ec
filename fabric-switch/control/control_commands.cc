// SPDX-License-Identifier: GPL-2.0-or-later
// Commands of the control socket.
//
//   nodes                             all nodes of the fabric
//   run      line                     one of ibsim's verbs, see control_verbs.cc
//   status   [switch]                 a switch and its ports
//   counters [switch] [port] [clear]  port counters, 64 bits wide
//   traffic  [switch]                 counters as rows of numbers, see control_traffic.h
//   lft, mft [switch]                 forwarding tables, entries in use
//   vls      port                     queues and credits by VL, VLArbitration and SLtoVLMapping
//   link     port, state              "up", "down" (as if the cable were pulled) or "retrain"
//   fault    port [direction] ...     sets faults ("set": see fault_spec_from()), and shows them
//   journal  [switch]                 the last changes of links
//   capture  [rules]                  packets until the client closes (control_server.cc)
//
// "switch" is an id, a NodeDescription or a GUID as in the topology file; it may be left out where
// there is only one. "port" is a number, or "ID[NUMBER]" of any node: a port of a channel
// adapter stands for the switch port at the other end of its link.
#include "control/control_commands.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "control/control_fields.h"
#include "control/control_switch.h"
#include "control/control_verbs.h"
#include "control/port_reference.h"

namespace pib::fabric {
namespace {

using nlohmann::json;
using Failure = std::unexpected<std::string>;

// ---- nodes

json port_counts(std::span<const ib::PortAttrs> ports) {
    return {{"ports", ports.size()},
            {"ports_up", std::ranges::count_if(ports, &ib::PortAttrs::link_is_up)},
            {"ports_active", std::ranges::count_if(ports, &ib::PortAttrs::may_send_data)}};
}

json node_of(const Fabric::Node& node) {
    json out = {{"id", node.id}, {"description", node.description}};
    if (node.sw != nullptr) {
        SwitchNode& own = node.sw->node();
        out.update({{"type", "switch"},
                    {"guid", hex(node.sw->config().node_guid.value(), 16)},
                    {"lid", own.port0().lid().value()},
                    {"lft_top", own.lft.top()},
                    {"lft_used", own.lft.used()},
                    {"smps_answered", own.smps_answered}});
        out.update(port_counts(std::span(own.ports).subspan(1)));
    } else if (node.phantom != nullptr) {
        ib::SmaNode& phantom = node.phantom->node();
        out.update({{"type", "phantom"},
                    {"guid", hex(phantom.node_guid.value(), 16)},
                    {"lid", phantom.ports[0].lid().value()},
                    {"smps_answered", node.phantom->smps_answered()}});
        out.update(port_counts(phantom.ports));
    } else {
        out.update(
            {{"type", node.remote ? "remote" : "virtual machine"}, {"ports", node.links.size()}});
    }
    return out;
}

json nodes(Fabric& fabric, const json&) {
    json found = json::array();
    for (const Fabric::Node& node : fabric.nodes()) {
        found.push_back(node_of(node));
    }
    return {{"ok", true}, {"nodes", found}};
}

// ---- the switch of a request

std::expected<Switch*, std::string> switch_named(Fabric& fabric, const std::string& name) {
    const auto node = fabric.find_node(name);
    if (!node || fabric.nodes()[*node].sw == nullptr) {
        return Failure("no switch \"" + name +
                       "\", or several of that name: pib-switch ctl nodes lists them");
    }
    return fabric.nodes()[*node].sw.get();
}

std::expected<Switch*, std::string> only_switch(Fabric& fabric) {
    const auto switches = fabric.switches();
    if (switches.size() != 1) {
        return Failure("there are " + std::to_string(switches.size()) +
                       " switches: name one, or a port as ID[NUMBER]");
    }
    return switches[0];
}

// The switch that has the port "ID[NUMBER]". Sets "port" of `request` to the number of the switch
// port.
std::expected<Switch*, std::string> switch_of_port(Fabric& fabric, json& request) {
    const auto text = request.at("port").get<std::string>();
    const auto reference = PortReference::parse(text);
    if (!reference || !reference->port) {
        return Failure("a port is a number or ID[NUMBER], not \"" + text + "\"");
    }
    const auto port = fabric.switch_port(reference->node, *reference->port);
    if (!port) {
        return Failure(port.error());
    }
    request["port"] = port->port;
    return fabric.nodes()[port->node].sw.get();
}

std::expected<Switch*, std::string> switch_for(Fabric& fabric, json& request) {
    if (request.contains("port") && request["port"].is_string()) {
        return switch_of_port(fabric, request);
    }
    return request.contains("switch") ? switch_named(fabric, request["switch"].get<std::string>())
                                      : only_switch(fabric);
}

json for_a_switch(Fabric& fabric, json request) {
    const auto sw = switch_for(fabric, request);
    if (!sw) {
        return control_failure(sw.error());
    }
    json answer = run_switch_command(**sw, request);
    if (fabric.has_topology()) {
        answer["of"] = (*sw)->config().description;
    }
    return answer;
}

// Fields that every request may have.
constexpr RequestField kCommonFields[] = {
    kCommandField,
    {"switch", FieldType::kText, "an id, a description or a GUID as text"},
};
constexpr RequestField kRunFields[] = {
    {"line", FieldType::kText, "a verb of ibsim and its arguments as text", true}};

struct Command {
    const char* name;
    json (*run)(Fabric& fabric, const json& request);
    std::span<const RequestField> fields = {};
};
constexpr Command kCommands[] = {
    {"nodes", nodes},
    {"run", verb_command, kRunFields},
};

// ---- faults of the command line

json fault_request(const std::string& text) {
    json request = {{"command", "fault"}, {"set", json::object()}};
    std::istringstream parts(text);
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
    return request;
}

std::expected<void, std::string> result_of(const json& answer) {
    if (!answer.at("ok").get<bool>()) {
        return Failure(answer.at("error").get<std::string>());
    }
    return {};
}

std::expected<void, std::string> fault_everywhere(Fabric& fabric, json request) {
    for (Switch* sw : fabric.switches()) {
        for (unsigned port = 1; port <= sw->num_ports(); ++port) {
            request["port"] = port;
            if (const auto set = result_of(run_switch_command(*sw, request)); !set) {
                return set;
            }
        }
    }
    return {};
}

}  // namespace

// Refuses deeply nested requests, because copying a JSON value recurses.
json parse_control_line(std::string_view line) {
    constexpr int kMaxDepth = 8;
    bool too_deep = false;
    const auto check = [&too_deep](int depth, json::parse_event_t, const json&) {
        too_deep = too_deep || depth > kMaxDepth;
        return !too_deep;
    };
    json request = json::parse(line, check, false);
    return too_deep ? json(json::value_t::discarded) : request;
}

std::expected<void, std::string> apply_fault_option(Fabric& fabric, const std::string& text) {
    const auto colon = text.rfind(':');
    if (colon == std::string::npos) {
        return Failure("not PORT:NAME=VALUE,...: " + text);
    }
    const std::string which = text.substr(0, colon);
    json request = fault_request(text.substr(colon + 1));
    if (which == "all") {
        return fault_everywhere(fabric, request);
    }
    const bool number = which.find_first_not_of("0123456789") == std::string::npos;
    request["port"] = number ? json(std::strtoul(which.c_str(), nullptr, 10)) : json(which);
    const auto set = result_of(run_control_command(fabric, request));
    return set ? set : Failure(text + ": " + set.error());
}

json run_control_command(Fabric& fabric, const json& request) {
    if (!request.is_object()) {
        return control_failure("a request is one JSON object a line");
    }
    if (const auto checked = check_fields(request, kCommonFields); !checked) {
        return control_failure(checked.error());
    }
    const auto name = request.at("command").get<std::string>();
    if (is_switch_command(name)) {
        return for_a_switch(fabric, request);
    }
    const auto* command = std::ranges::find(kCommands, name, &Command::name);
    if (command == std::end(kCommands)) {
        return no_such_command(name);
    }
    const auto checked = check_fields(request, command->fields);
    return checked ? command->run(fabric, request) : control_failure(checked.error());
}

std::string run_control_line(Fabric& fabric, std::string_view line) {
    const json request = parse_control_line(line);
    return run_control_command(fabric, request)
        .dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace pib::fabric
