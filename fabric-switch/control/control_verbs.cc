// SPDX-License-Identifier: GPL-2.0-or-later
// The operator's verbs of ibsim, one line each:
//
//   Link "node"[port] "node"[port]          lays a cable between two free ports
//   Unlink "node"[port]                     removes a cable; without [port]: all cables of the
//                                           node
//   ReLink "node"[port]                     restores a cable that Unlink removed; without [port]:
//                                           all cables of the node
//   Clear "node"[port]                      Unlink, and resets the port: LID, counters and faults
//   Error "node"[port] rate [attribute]     loses rate % of the MADs (of one attribute) that the
//                                           port sends; 0: none
//   PerformanceSet "node"[port] name=value  sets a counter, by its name in "ctl counters"
//   Trap "node"[port] number                raises the link error that trap 129, 130 or 131
//                                           reports (not in ibsim)
//   Baselid "node"[port] lid [lmc]          changes LID (and LMC) without the subnet manager
//
// A verb may be in upper or lower case; an ID without white space needs no quotation marks.
#include "control/control_verbs.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>
#include <vector>

#include "control/control_faults.h"
#include "control/control_switch.h"
#include "control/port_reference.h"

namespace pib::fabric {
namespace {

using nlohmann::json;
using Outcome = std::expected<void, std::string>;
using Failure = std::unexpected<std::string>;
using Words = std::vector<std::string_view>;
using PortId = Fabric::PortId;

constexpr double kPercent = 100.0;
constexpr unsigned kMostLmc = 7;

// Splits a line at white space outside of quotation marks.
Words words_of(std::string_view line) {
    Words words;
    size_t start = std::string_view::npos;
    bool quoted = false;
    for (size_t i = 0; i <= line.size(); ++i) {
        const bool end =
            i == line.size() ||
            (!quoted && (line[i] == ' ' || line[i] == '\t' || line[i] == '\r' || line[i] == '\n'));
        if (end && start != std::string_view::npos) {
            words.push_back(line.substr(start, i - start));
            start = std::string_view::npos;
        } else if (!end && start == std::string_view::npos) {
            start = i;
        }
        if (i < line.size() && line[i] == '"') {
            quoted = !quoted;
        }
    }
    return words;
}

bool same_word(std::string_view a, std::string_view b) {
    return std::ranges::equal(
        a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

template <typename T>
std::optional<T> number_of(std::string_view text) {
    const bool hex = text.starts_with("0x");
    text.remove_prefix(hex ? 2 : 0);
    T value = 0;
    const auto [stop, error] =
        std::from_chars(text.data(), text.data() + text.size(), value, hex ? 16 : 10);
    return error == std::errc{} && stop == text.data() + text.size() ? std::optional(value)
                                                                     : std::nullopt;
}

// ---- the ports of a verb

std::expected<PortReference, std::string> reference_of(std::string_view word) {
    const auto reference = PortReference::parse(word);
    if (!reference) {
        return Failure("not a node or port: " + std::string(word) + "; write \"NODE\"[PORT]");
    }
    return *reference;
}

std::expected<PortId, std::string> port_of(const Fabric& fabric, std::string_view word) {
    const auto reference = reference_of(word);
    if (!reference) {
        return Failure(reference.error());
    }
    if (!reference->port) {
        return Failure("which port of " + std::string(word) + "? Write \"NODE\"[PORT]");
    }
    return fabric.find_port(reference->node, *reference->port);
}

// The port, or all ports of the node. `whole` says which.
struct Ports {
    std::vector<PortId> ports;
    bool whole = false;
};
std::expected<Ports, std::string> ports_of(const Fabric& fabric, std::string_view word) {
    const auto reference = reference_of(word);
    if (!reference) {
        return Failure(reference.error());
    }
    const auto first = fabric.find_port(reference->node, reference->port.value_or(1));
    if (!first) {
        return Failure(first.error());
    }
    Ports found{.ports = {*first}, .whole = !reference->port};
    for (size_t i = 2; found.whole && i <= fabric.nodes()[first->node].links.size(); ++i) {
        found.ports.push_back({first->node, static_cast<uint8_t>(i)});
    }
    return found;
}

// A verb for one port must succeed. A verb for a whole node applies to all ports that allow it.
Outcome for_each(Fabric& fabric, std::string_view word,
                 Outcome (Fabric::*change)(const PortId& port)) {
    const auto found = ports_of(fabric, word);
    if (!found) {
        return Failure(found.error());
    }
    for (const PortId& port : found->ports) {
        const auto done = (fabric.*change)(port);
        if (!done && !found->whole) {
            return done;
        }
    }
    return {};
}

// ---- objects of a node's port

ib::PortAttrs* attributes(const Fabric& fabric, const PortId& port) {
    const Fabric::Node& node = fabric.nodes()[port.node];
    if (node.sw != nullptr) {
        return &node.sw->port(port.port).attrs();
    }
    return node.phantom != nullptr ? &node.phantom->node().ports[port.port - 1U] : nullptr;
}

ib::PortCounters* counters(const Fabric& fabric, const PortId& port) {
    const Fabric::Node& node = fabric.nodes()[port.node];
    if (node.sw != nullptr) {
        return &node.sw->counters(port.port);
    }
    return node.phantom != nullptr ? &node.phantom->counters(port.port) : nullptr;
}

Failure not_ours(std::string_view word) {
    return Failure(std::string(word) +
                   " belongs to a virtual machine, which has its state: change it there");
}

// ---- verbs

Outcome link_verb(Fabric& fabric, const Words& words) {
    const auto a = port_of(fabric, words[1]);
    const auto b = a ? port_of(fabric, words[2]) : a;
    return b ? fabric.link(*a, *b) : Failure(b.error());
}

Outcome unlink_verb(Fabric& fabric, const Words& words) {
    return for_each(fabric, words[1], &Fabric::unlink);
}

Outcome relink_verb(Fabric& fabric, const Words& words) {
    return for_each(fabric, words[1], &Fabric::relink);
}

// The switch port that keeps the faults of a link.
struct FaultPlace {
    Switch* sw = nullptr;  // nullptr: the link has no switch port
    uint8_t number = 0;
    bool outgoing = false;  // the verb names this port, not its peer

    [[nodiscard]] SwitchPort& port() const { return sw->port(number); }
    void note(const FaultSpec& spec) const {
        sw->journal().add(sw->now_ns(), number, LinkChange::kFaults, describe_faults(spec));
    }
};

FaultPlace fault_place(Fabric& fabric, const PortId& port) {
    if (Switch* sw = fabric.nodes()[port.node].sw.get()) {
        return {sw, port.port, true};
    }
    const auto other = fabric.peer(port);
    return other ? FaultPlace{fabric.nodes()[other->node].sw.get(), other->port, false}
                 : FaultPlace{};
}

void make_new(Fabric& fabric, const PortId& port) {
    if (const auto place = fault_place(fabric, port); place.sw != nullptr) {
        SwitchPort& at = place.port();
        if (at.ingress_faults().spec().any() || at.egress_faults().spec().any()) {
            place.note({});
        }
        at.ingress_faults().set({});
        at.egress_faults().set({});
        at.queues().data_by_vl() = {};
    }
    if (ib::PortCounters* of = counters(fabric, port)) {
        *of = {};
    }
    if (ib::PortAttrs* attrs = attributes(fabric, port)) {
        attrs->set(ib::port_info::kLid, 0);
        attrs->set(ib::port_info::kLmc, 0);
        attrs->set(ib::port_info::kMasterSmLid, 0);
    }
}

Outcome clear_verb(Fabric& fabric, const Words& words) {
    const auto found = ports_of(fabric, words[1]);
    if (!found) {
        return Failure(found.error());
    }
    for (const PortId& port : found->ports) {
        make_new(fabric, port);
        // unlink() fails if the port has no link, which is not an error here.
        static_cast<void>(fabric.unlink(port));
    }
    return {};
}

Outcome error_verb(Fabric& fabric, const Words& words) {
    const auto found = ports_of(fabric, words[1]);
    const auto rate = number_of<unsigned>(words[2]);
    if (!found) {
        return Failure(found.error());
    }
    if (!rate || *rate > kPercent) {
        return Failure("the error rate is 0 to 100 percent");
    }
    FaultSpec spec{.drop = *rate / kPercent};
    spec.vl15 = true;
    spec.mads_only = true;
    if (words.size() > 3) {
        spec.attribute = number_of<uint16_t>(words[3]);
        if (!spec.attribute) {
            return Failure("an attribute is a number, 17 or 0x11 for NodeInfo");
        }
    }
    for (const PortId& port : found->ports) {
        if (const auto place = fault_place(fabric, port); place.sw != nullptr) {
            SwitchPort& at = place.port();
            (place.outgoing ? at.egress_faults() : at.ingress_faults()).set(spec);
            place.note(spec);
        } else if (!found->whole) {
            return Failure(std::string(words[1]) + " has no link: lay one with Link");
        }
    }
    return {};
}

Outcome performance_set_verb(Fabric& fabric, const Words& words) {
    const auto port = port_of(fabric, words[1]);
    if (!port) {
        return Failure(port.error());
    }
    ib::PortCounters* of = counters(fabric, *port);
    if (of == nullptr) {
        return not_ours(words[1]);
    }
    const auto equals = std::min(words[2].find('='), words[2].size());
    const auto value = number_of<uint64_t>(words[2].substr(std::min(equals + 1, words[2].size())));
    // ibsim's names have the attribute as a prefix: PortCounters.SymbolErrors.
    std::string_view name = words[2].substr(0, equals);
    name.remove_prefix(std::min(name.rfind('.') + 1, name.size()));
    const auto counter = counter_named(name);
    if (!value || !counter) {
        return Failure("not NAME=VALUE with a counter's name: " + std::string(words[2]) +
                       "; \"ctl --json counters\" has the names");
    }
    for (const auto view : {ib::CounterView::kClassic, ib::CounterView::kExtended}) {
        of->write(*counter, view, *value);
    }
    return {};
}

Outcome trap_verb(Fabric& fabric, const Words& words) {
    const auto port = port_of(fabric, words[1]);
    if (!port) {
        return Failure(port.error());
    }
    const auto number = number_of<uint16_t>(words[2]);
    const auto error = number ? ib::link_error_of(*number) : std::nullopt;
    if (!error) {
        return Failure("not 129 (link integrity), 130 (buffer overrun) or 131 (flow control): " +
                       std::string(words[2]));
    }
    const Fabric::Node& node = fabric.nodes()[port->node];
    if (node.sw != nullptr) {
        node.sw->port(port->port).raise(*error);
    } else if (node.phantom != nullptr) {
        node.phantom->raise(port->port, *error);
    } else {
        return not_ours(words[1]);
    }
    return {};
}

Outcome baselid_verb(Fabric& fabric, const Words& words) {
    const auto reference = reference_of(words[1]);
    const auto lid = number_of<uint16_t>(words[2]);
    const auto lmc = words.size() > 3 ? number_of<unsigned>(words[3]) : 0U;
    if (!reference) {
        return Failure(reference.error());
    }
    if (!lid || !lmc || *lmc > kMostLmc || (*lid != 0 && !ib::Lid(*lid).is_unicast())) {
        return Failure("a LID is 0 to 0xBFFF, an LMC 0 to 7");
    }
    const auto node = fabric.find_node(reference->node);
    if (!node) {
        return Failure("no node \"" + reference->node +
                       "\", or several of that name: pib-switch ctl nodes lists them");
    }
    // The LID of a switch is that of its port 0.
    Switch* sw = fabric.nodes()[*node].sw.get();
    const auto port = sw != nullptr
                          ? std::expected<PortId, std::string>(PortId{*node, 0})
                          : fabric.find_port(reference->node, reference->port.value_or(1));
    if (!port) {
        return Failure(port.error());
    }
    ib::PortAttrs* attrs = sw != nullptr ? &sw->node().port0() : attributes(fabric, *port);
    if (attrs == nullptr) {
        return not_ours(words[1]);
    }
    attrs->set(ib::port_info::kLid, *lid);
    attrs->set(ib::port_info::kLmc, sw != nullptr ? 0 : *lmc);
    return {};
}

struct Verb {
    const char* name;
    size_t least_words, most_words;  // the verb itself included
    Outcome (*run)(Fabric& fabric, const Words& words);
    const char* usage;
};
constexpr Verb kVerbs[] = {
    {"Link", 3, 3, link_verb, "Link \"NODE\"[PORT] \"NODE\"[PORT]"},
    {"Unlink", 2, 2, unlink_verb, "Unlink \"NODE\"[PORT]"},
    {"ReLink", 2, 2, relink_verb, "ReLink \"NODE\"[PORT]"},
    {"Clear", 2, 2, clear_verb, "Clear \"NODE\"[PORT]"},
    {"Error", 3, 4, error_verb, "Error \"NODE\"[PORT] PERCENT [ATTRIBUTE]"},
    {"PerformanceSet", 3, 3, performance_set_verb, "PerformanceSet \"NODE\"[PORT] NAME=VALUE"},
    {"Trap", 3, 3, trap_verb, "Trap \"NODE\"[PORT] 129|130|131"},
    {"Baselid", 3, 4, baselid_verb, "Baselid \"NODE\"[PORT] LID [LMC]"},
};

Failure no_such_verb(std::string_view word) {
    std::string known;
    for (const Verb& verb : kVerbs) {
        known += (known.empty() ? "" : ", ") + std::string(verb.name);
    }
    return Failure("no such verb: " + std::string(word) + "; there are " + known);
}

}  // namespace

Outcome run_verb(Fabric& fabric, std::string_view line) {
    const Words words = words_of(line);
    if (words.empty() || words[0].starts_with('#')) {
        return {};
    }
    for (const Verb& verb : kVerbs) {
        if (!same_word(words[0], verb.name)) {
            continue;
        }
        if (words.size() < verb.least_words || words.size() > verb.most_words) {
            return Failure(std::string("usage: ") + verb.usage);
        }
        return verb.run(fabric, words);
    }
    return no_such_verb(words[0]);
}

json verb_command(Fabric& fabric, const json& request) {
    const auto line = request.at("line").get<std::string>();
    const auto done = run_verb(fabric, line);
    return done ? json{{"ok", true}} : control_failure(done.error());
}

}  // namespace pib::fabric
