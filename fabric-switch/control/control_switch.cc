// SPDX-License-Identifier: GPL-2.0-or-later
// Commands that are for one switch.
#include "control/control_switch.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "control/control_faults.h"
#include "control/control_fields.h"
#include "control/control_traffic.h"
#include "links/copier.h"

namespace pib::fabric {
namespace {

using nlohmann::json;
namespace pi = ib::port_info;

constexpr double kNsPerUs = 1000.0;
constexpr size_t kMaxLidsShown = 16;

// ---- status

const char* state_name(ib::PortState state) {
    static constexpr const char* kNames[] = {"NoChange", "Down", "Initialize", "Armed", "Active"};
    const auto index = static_cast<size_t>(state);
    return index < std::size(kNames) ? kNames[index] : "unknown";
}

const char* phys_name(ib::PhysState state) {
    static constexpr const char* kNames[] = {"NoChange", "Sleep",  "Polling",           "Disabled",
                                             "Training", "LinkUp", "LinkErrorRecovery", "PhyTest"};
    const auto index = static_cast<size_t>(state);
    return index < std::size(kNames) ? kNames[index] : "unknown";
}

std::string width_name(uint64_t width) {
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

std::string speed_name(uint64_t speed, uint64_t ext) {
    static constexpr const char* kBasic[] = {"?", "SDR", "DDR", "?", "QDR"};
    static constexpr const char* kExt[] = {"?", "FDR", "EDR", "?", "HDR", "?", "?", "?", "NDR"};
    if (ext != 0) {
        return ext < std::size(kExt) ? kExt[ext] : "?";
    }
    return speed < std::size(kBasic) ? kBasic[speed] : "?";
}

// The first kMaxLidsShown LIDs that the LFT maps to a port.
json lids_behind(const SwitchNode& node, unsigned port) {
    json lids = json::array();
    for (unsigned lid = 1; lid <= node.lft.top() && lids.size() < kMaxLidsShown; ++lid) {
        if (node.lft.port(ib::Lid(static_cast<uint16_t>(lid))) == port) {
            lids.push_back(lid);
        }
    }
    return lids;
}

json faults_of(const FaultStage& stage) {
    const FaultSpec& spec = stage.spec();
    const FaultCounts& counts = stage.counts();
    json out = {{"description", describe_faults(spec)},
                {"drop", spec.drop},
                {"duplicate", spec.duplicate},
                {"reorder", spec.reorder},
                {"reorder_depth", spec.reorder_depth},
                {"corrupt", spec.corrupt},
                {"delay_us", static_cast<double>(spec.delay_ns) / kNsPerUs},
                {"jitter_us", static_cast<double>(spec.jitter_ns) / kNsPerUs},
                {"seed", spec.seed},
                {"vl15", spec.vl15},
                {"mads_only", spec.mads_only}};
    if (spec.attribute) {
        out["attribute"] = *spec.attribute;
    }
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
    const ib::PortAttrs& attrs = port.attrs();
    const bool up = attrs.link_is_up();
    json out = {
        {"port", number},
        {"state", state_name(attrs.state())},
        {"phys_state", phys_name(attrs.phys_state())},
        {"connected", port.cable().attached()},
        {"cable", port.cable().is_plugged()},
        {"mtu", ib::mtu_bytes(attrs.neighbor_mtu())},
        {"data_vls", attrs.data_vls()},
        {"queued_packets", port.queues().size()},
        {"width", up ? width_name(attrs.get(pi::kLinkWidthActive)) : ""},
        {"speed",
         up ? speed_name(attrs.get(pi::kLinkSpeedActive), attrs.get(pi::kLinkSpeedExtActive)) : ""},
        {"lids", lids_behind(sw.node(), number)},
        {"faults", port.ingress_faults().spec().any() || port.egress_faults().spec().any()},
        {"peer_copy", port.cable().copies() != nullptr}};
    if (const auto* who = sw.admission().neighbour(number)) {
        out["neighbour"] = {{"node_guid", hex(who->node_guid.value(), 16)},
                            {"port_guid", hex(who->port_guid.value(), 16)},
                            {"port", who->port_number},
                            {"description", who->node_description},
                            {"owner", sw.admission().owner(number)}};
    }
    return out;
}

json status(Switch& sw, const json&) {
    ib::PortAttrs& port0 = sw.node().port0();
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

namespace es = ib::port_extended_speeds;

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

// Counters of each SL, VL or lane; the number is appended to their name.
struct CounterBlock {
    ib::Counter first;
    size_t count;
    const char* name;
};
constexpr CounterBlock kCounterBlocks[] = {
    {ib::Counter::kPortXmitDataSl, ib::kPerPriority, "PortXmitDataSL"},
    {ib::Counter::kPortRcvDataSl, ib::kPerPriority, "PortRcvDataSL"},
    {ib::Counter::kPortVlXmitWait, ib::kPerPriority, "PortVLXmitWait"},
    {ib::Counter::kPortVlXmitFlowCtlUpdateErrors, ib::kPerPriority,
     "PortVLXmitFlowCtlUpdateErrors"},
    {ib::Counter::kSyncHeaderErrors, 1, "SyncHeaderErrorCounter"},
    {ib::Counter::kUnknownBlocks, 1, "UnknownBlockCounter"},
    {ib::Counter::kErrorDetectionLane, es::kLanes, "ErrorDetectionCounterLane"},
    {ib::Counter::kFecCorrectableBlocksLane, es::kLanes, "FECCorrectableBlockCtrLane"},
    {ib::Counter::kFecUncorrectableBlocksLane, es::kLanes, "FECUncorrectableBlockCtrLane"},
};

constexpr size_t named_counters() {
    size_t count = std::size(kCounterNames);
    for (const CounterBlock& block : kCounterBlocks) {
        count += block.count;
    }
    return count;
}
static_assert(named_counters() == ib::kCounterCount);

std::string counter_name(size_t index) {
    if (index < std::size(kCounterNames)) {
        return kCounterNames[index];
    }
    const auto behind = std::ranges::find_if(kCounterBlocks, [&](const CounterBlock& block) {
        return static_cast<size_t>(block.first) > index;
    });
    const CounterBlock& block = *std::prev(behind);
    const size_t number = index - static_cast<size_t>(block.first);
    return block.count == 1 ? block.name : block.name + std::to_string(number);
}

}  // namespace

std::optional<ib::Counter> counter_named(std::string_view name) {
    for (size_t i = 0; i < ib::kCounterCount; ++i) {
        if (counter_name(i) == name) {
            return static_cast<ib::Counter>(i);
        }
    }
    return std::nullopt;
}

namespace {

// Counters outside IBA: peer copies for a port's adapter since it shared its memory.
void add_copies(json& out, const CopyCounts& counts) {
    out["PeerCopyBytes"] = counts.bytes;
    out["PeerCopyPulls"] = counts.pulls;
    out["PeerCopyPullsUnfinished"] = counts.unfinished;
    out["PeerCopyPullsRefused"] = counts.refused;
    out["PeerCopyOffers"] = counts.forwarded;
    out["PeerCopyOffersSplit"] = counts.split;
    out["PeerCopyOffersLost"] = counts.lost;
}

// Counters outside IBA: a port's data by VL.
void add_data_by_vl(json& out, VlData& data, bool clear) {
    for (unsigned vl = 0; vl < VlData::kVls; ++vl) {
        if (data.sent[vl] != 0) {
            out["PortXmitDataVL" + std::to_string(vl)] = data.sent[vl];
        }
        if (data.received[vl] != 0) {
            out["PortRcvDataVL" + std::to_string(vl)] = data.received[vl];
        }
    }
    if (clear) {
        data = {};
    }
}

// Counters of SLs, VLs and lanes appear only if they are not 0: most are never used.
json port_counters(Switch& sw, unsigned number, bool clear) {
    ib::PortCounters& counters = sw.counters(number);
    if (number != 0) {
        sw.port(number).queues().count_wait();
    }
    json out = {{"port", number}};
    for (size_t i = 0; i < ib::kCounterCount; ++i) {
        const auto counter = static_cast<ib::Counter>(i);
        const uint64_t value = counters.value(counter, ib::CounterView::kExtended);
        if (i < std::size(kCounterNames) || value != 0) {
            out[counter_name(i)] = value;
        }
        if (clear) {
            counters.write(counter, ib::CounterView::kExtended, 0);
        }
    }
    if (const CopyCounts* copies = number != 0 ? sw.port(number).cable().copies() : nullptr) {
        add_copies(out, *copies);
    }
    if (number != 0) {
        add_data_by_vl(out, sw.port(number).queues().data_by_vl(), clear);
    }
    return out;
}

json no_such_port(const Switch& sw) {
    return control_failure("no such port: the switch has ports 1 to " +
                           std::to_string(sw.num_ports()));
}

json counters(Switch& sw, const json& request) {
    const bool clear = request.value("clear", false);
    json ports = json::array();
    if (request.contains("port")) {
        const auto number = control_number(request.at("port"));
        if (number > sw.num_ports()) {
            return no_such_port(sw);
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
        const auto port = sw.node().lft.port(ib::Lid(static_cast<uint16_t>(lid)));
        if (port != kNoPort) {
            entries.push_back({lid, port});
        }
    }
    return {{"ok", true}, {"top", sw.node().lft.top()}, {"entries", entries}};
}

json mft(Switch& sw, const json&) {
    json entries = json::array();
    for (unsigned i = 0; i < sw.node().mft.cap(); ++i) {
        const auto mlid = static_cast<uint16_t>(ib::Lid::kMulticastFirst + i);
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

SwitchPort* external_port(Switch& sw, const json& request) {
    const auto number = control_number(request.at("port"));
    return number >= 1 && number <= sw.num_ports() ? &sw.port(number) : nullptr;
}

// ---- virtual lanes

json vl_arbitration(const std::vector<ib::VlArbEntry>& table) {
    json entries = json::array();
    for (const ib::VlArbEntry& entry : table) {
        if (entry.weight != 0) {
            entries.push_back({entry.vl, entry.weight});
        }
    }
    return entries;
}

// The data VLs of OperationalVLs and VL15; other VLs only while packets wait for them.
json by_vl(SwitchPort& port) {
    const Neighbour* neighbour = port.cable().neighbour();
    json entries = json::array();
    for (unsigned vl = 0; vl <= link::kVl15; ++vl) {
        const size_t queued = port.queues().size(vl);
        if (vl < port.attrs().data_vls()) {
            entries.push_back({{"vl", vl},
                               {"queued_packets", queued},
                               {"credits", neighbour != nullptr ? neighbour->credits(vl) : 0}});
        } else if (vl == link::kVl15 || queued != 0) {
            entries.push_back({{"vl", vl}, {"queued_packets", queued}});
        }
    }
    return entries;
}

json sl_to_vl(const ib::SlToVlTable& table) {
    json rows = json::array();
    for (size_t input = 0; input < table.size(); ++input) {
        rows.push_back(table[input]);
    }
    return rows;
}

json vls(Switch& sw, const json& request) {
    SwitchPort* port = external_port(sw, request);
    if (port == nullptr) {
        return no_such_port(sw);
    }
    const ib::PortAttrs& attrs = port->attrs();
    return {{"ok", true},
            {"port", port->number()},
            {"by_vl", by_vl(*port)},
            {"high", vl_arbitration(attrs.vl_arb_high)},
            {"low", vl_arbitration(attrs.vl_arb_low)},
            {"high_limit", attrs.get(pi::kVlHighLimit)},
            {"sl_to_vl", sl_to_vl(attrs.sl_to_vl)}};
}

// ---- links and faults

void plug(Switch& sw, uint8_t number, bool plugged) {
    CableEnd& cable = sw.port(number).cable();
    if (cable.is_plugged() != plugged) {
        sw.journal().add(sw.now_ns(), number,
                         plugged ? LinkChange::kCableBack : LinkChange::kCablePulled);
    }
    cable.plug(plugged);
}

constexpr const char* kLinkStates = "up, down or retrain";

json link_command(Switch& sw, const json& request) {
    SwitchPort* port = external_port(sw, request);
    if (port == nullptr) {
        return no_such_port(sw);
    }
    const auto state = request.at("state").get<std::string>();
    if (state == "up" || state == "down") {
        plug(sw, port->number(), state == "up");
    } else if (state == "retrain") {
        sw.journal().add(sw.now_ns(), port->number(), LinkChange::kRetrained);
        port->attributes_changed(ib::PortEvent::kDownRequest);
    } else {
        return control_failure(std::string("state is ") + kLinkStates);
    }
    return {{"ok", true}, {"port", port_status(sw, port->number())}};
}

json fault(Switch& sw, const json& request) {
    SwitchPort* port = external_port(sw, request);
    if (port == nullptr) {
        return no_such_port(sw);
    }
    if (request.contains("set")) {
        const auto spec = fault_spec_from(request.at("set"));
        if (!spec) {
            return control_failure(spec.error());
        }
        const auto set = set_faults(*port, request.value("direction", "both"), *spec);
        if (!set) {
            return control_failure(set.error());
        }
        sw.journal().add(sw.now_ns(), port->number(), LinkChange::kFaults, describe_faults(*spec));
    }
    return {{"ok", true},
            {"port", port->number()},
            {"in", faults_of(port->ingress_faults())},
            {"out", faults_of(port->egress_faults())}};
}

// ---- journal

// Names of changes, in the order of LinkChange.
constexpr const char* kChangeNames[] = {
    "up", "down", "cable pulled", "cable back", "retrained", "faults", "link error",
};

// Start of this process, ns since 1970. A new value tells clients that the switch was restarted and
// its journals are lost.
const uint64_t kInstance = static_cast<uint64_t>(
    std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count());

json journal(Switch& sw, const json&) {
    json entries = json::array();
    for (const LinkJournal::Entry& entry : sw.journal().entries()) {
        entries.push_back({{"age_ns", sw.now_ns() - entry.time_ns},
                           {"port", entry.port},
                           {"change", kChangeNames[static_cast<size_t>(entry.change)]},
                           {"times", entry.times},
                           {"detail", entry.detail}});
    }
    return {{"ok", true},
            {"instance", hex(kInstance, 16)},
            {"lost", sw.journal().lost()},
            {"entries", entries}};
}

constexpr const char* kPortExpected = "a number, or ID[NUMBER] as text";
constexpr RequestField kCounterFields[] = {{"port", FieldType::kPort, kPortExpected},
                                           {"clear", FieldType::kFlag, "true or false"}};
constexpr RequestField kVlFields[] = {{"port", FieldType::kPort, kPortExpected, true}};
constexpr RequestField kLinkFields[] = {{"port", FieldType::kPort, kPortExpected, true},
                                        {"state", FieldType::kText, kLinkStates, true}};
constexpr RequestField kFaultFields[] = {{"port", FieldType::kPort, kPortExpected, true},
                                         {"direction", FieldType::kText, kFaultDirections}};

struct Command {
    const char* name;
    json (*run)(Switch& sw, const json& request);
    std::span<const RequestField> fields = {};
};
constexpr Command kSwitchCommands[] = {
    {"status", status},
    {"counters", counters, kCounterFields},
    {"lft", lft},
    {"mft", mft},
    {"link", link_command, kLinkFields},
    {"fault", fault, kFaultFields},
    {"journal", journal},
    {"vls", vls, kVlFields},
    {"traffic", traffic},
};

}  // namespace

std::string hex(uint64_t value, int digits) {
    char text[19];
    std::snprintf(text, sizeof(text), "0x%0*llx", digits, static_cast<unsigned long long>(value));
    return text;
}

json control_failure(const std::string& text) {
    return {{"ok", false}, {"error", text}};
}

json no_such_command(const std::string& name) {
    return control_failure("no such command: " + name + ": pib-switch ctl --help lists them");
}

bool is_switch_command(const std::string& name) {
    return std::ranges::any_of(kSwitchCommands,
                               [&](const Command& command) { return name == command.name; });
}

json run_switch_command(Switch& sw, const json& request) {
    if (const auto checked = check_fields(request, {&kCommandField, 1}); !checked) {
        return control_failure(checked.error());
    }
    const auto name = request.at("command").get<std::string>();
    const auto* command = std::ranges::find(kSwitchCommands, name, &Command::name);
    if (command == std::end(kSwitchCommands)) {
        return no_such_command(name);
    }
    const auto checked = check_fields(request, command->fields);
    return checked ? command->run(sw, request) : control_failure(checked.error());
}

}  // namespace pib::fabric
