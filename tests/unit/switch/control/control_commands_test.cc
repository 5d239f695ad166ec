// SPDX-License-Identifier: GPL-2.0-or-later
// Commands of the control socket, and answers to lines that are not commands.
#include "control/control_commands.h"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "control/control_switch.h"
#include "topology_net.h"

namespace pib::test {

using nlohmann::json;

TEST_CASE("control: status names ports, neighbours and LIDs") {
    TestFabric fabric(2);
    fabric.make_active();
    const json answer = fabric::run_switch_command(fabric.sw, {{"command", "status"}});
    REQUIRE(answer.at("ok") == true);
    CHECK(answer.at("switch").at("lid") == TestFabric::kSwitchLid);
    REQUIRE(answer.at("ports").size() == 8);
    const json& port = answer.at("ports").at(1);
    CHECK(port.at("state") == "Active");
    CHECK(port.at("phys_state") == "LinkUp");
    CHECK(port.at("lids") == json::array({2}));
    CHECK(port.at("neighbour").at("description") == "test node");
    CHECK(answer.at("ports").at(4).at("state") == "Down");
    CHECK_FALSE(answer.at("ports").at(4).contains("neighbour"));
}

TEST_CASE("control: requests read counters and tables and set links and faults") {
    TestFabric fabric(2);
    fabric.make_active();
    const auto run = [&](const json& request) {
        return fabric::run_switch_command(fabric.sw, request);
    };
    CHECK(run({{"command", "counters"}, {"port", 1}}).at("ports").at(0).at("PortRcvPkts") > 5);
    CHECK(run({{"command", "counters"}}).at("ports").size() == 9);
    run({{"command", "counters"}, {"clear", true}});
    CHECK(run({{"command", "counters"}, {"port", 1}}).at("ports").at(0).at("PortRcvPkts") == 0);
    CHECK(run({{"command", "lft"}}).at("entries") == json::parse("[[1,1],[2,2]]"));
    CHECK(run({{"command", "mft"}}).at("entries").empty());
    CHECK(run({{"command", "link"}, {"port", 2}, {"state", "down"}}).at("ok") == true);
    fabric.settle();
    CHECK_FALSE(fabric.hca(1).own_end().is_up());
    CHECK(run({{"command", "link"}, {"port", 2}, {"state", "up"}}).at("ok") == true);
    fabric.settle();
    CHECK(fabric.hca(1).own_end().is_up());
    const json faults = run({{"command", "fault"},
                             {"port", 1},
                             {"direction", "in"},
                             {"set", {{"drop", 0.5}, {"seed", 9}, {"delay_us", 10}}}});
    CHECK(faults.at("in").at("drop") == 0.5);
    CHECK(faults.at("out").at("drop") == 0.0);
    CHECK(faults.at("in").at("description") == "drop 0.5, delay 10 us");
    CHECK(fabric.sw.port(1).ingress_faults().spec().delay_ns == 10'000);
}

TEST_CASE("control: a port has queues and credits by VL, and its tables") {
    TestFabric fabric(2);
    fabric.make_active();
    const json request = {{"command", "vls"}, {"port", 1}};
    const json up = fabric::run_switch_command(fabric.sw, request);
    REQUIRE(up.at("by_vl").size() == 1U + fabric.sw.port(1).attrs().data_vls());
    CHECK(up.at("by_vl").at(0).at("credits") == 1024);
    CHECK(up.at("by_vl").at(0).at("queued_packets") == 0);
    CHECK(up.at("by_vl").back() == json::parse(R"({"vl": 15, "queued_packets": 0})"));
    CHECK(up.at("sl_to_vl").size() == 9);
    CHECK(up.at("sl_to_vl").at(2).size() == 16);
    fabric.sw.port(1).attrs().vl_arb_high = {{.vl = 1, .weight = 9}, {.vl = 2, .weight = 0}};
    const json pull = {{"command", "link"}, {"port", 1}, {"state", "down"}};
    CHECK(fabric::run_switch_command(fabric.sw, pull).at("ok") == true);
    fabric.settle();
    const json down = fabric::run_switch_command(fabric.sw, request);
    CHECK(down.at("high") == json::parse("[[1, 9]]"));
    CHECK(down.at("by_vl").at(0).at("credits") == 0);
    CHECK(fabric::run_switch_command(fabric.sw, {{"command", "vls"}, {"port", 9}}).at("ok") ==
          false);
}

TEST_CASE("control: counters have the data of each VL, and can be cleared") {
    TestFabric fabric(2);
    fabric.make_active();
    const auto counters = [&fabric](unsigned port, bool clear) {
        const json request = {{"command", "counters"}, {"port", port}, {"clear", clear}};
        return fabric::run_switch_command(fabric.sw, request).at("ports").at(0);
    };
    const unsigned in = fabric.hca(0).port(), out = fabric.hca(1).port();
    const json sweep = counters(in, true);  // packets of subnet management only
    CHECK(sweep.at("PortRcvDataVL15") == sweep.at("PortRcvData"));
    counters(out, true);
    const Bytes packet = make_packet(0, TestFabric::lid_of(1), 256);
    REQUIRE(fabric.hca(0).send_packet(packet));
    fabric.settle();
    CHECK(counters(in, false).at("PortRcvDataVL0") == counters(in, false).at("PortRcvData"));
    CHECK(counters(out, false).at("PortXmitDataVL0") == counters(out, false).at("PortXmitData"));
    CHECK_FALSE(counters(out, false).contains("PortRcvDataVL0"));
    CHECK_FALSE(counters(in, false).contains("PortRcvDataVL15"));
}

TEST_CASE("control: traffic has a row of numbers for each link") {
    TestFabric fabric(2);
    fabric.make_active();
    const auto run = [&fabric](const json& request) {
        return fabric::run_switch_command(fabric.sw, request);
    };
    const unsigned in = fabric.hca(0).port(), out = fabric.hca(1).port();
    run({{"command", "counters"}, {"clear", true}});
    REQUIRE(fabric.hca(0).send_packet(make_packet(0, TestFabric::lid_of(1), 256)));
    fabric.settle();
    const json counted = run({{"command", "counters"}}).at("ports");
    const auto words = counted.at(in).at("PortRcvData").get<uint64_t>();
    const json before = run({{"command", "traffic"}});
    CHECK(before.at("lid") == TestFabric::kSwitchLid);
    CHECK(before.at("sm_lid") == 1);
    CHECK(before.at("rows") ==
          json::array({json::array({in, 4, 1, 0, words, 0, 1, 0, 0, 0, 0, 0, words}),
                       json::array({out, 4, 1, words, 0, 1, 0, 0, 0, 0, 0, words, 0})}));

    for (const auto counter : {ib::Counter::kVl15Dropped, ib::Counter::kPortXmitDiscards,
                               ib::Counter::kPortRcvSwitchRelayErrors, ib::Counter::kPortRcvErrors,
                               ib::Counter::kSymbolErrors}) {
        fabric.sw.counters(out).add(counter);
    }
    run({{"command", "fault"}, {"port", in}, {"set", {{"drop", 0.5}}}});
    run({{"command", "link"}, {"port", out}, {"state", "down"}});
    fabric.settle();
    const json after = run({{"command", "traffic"}});
    CHECK(after.at("rows").at(0).at(2) == 3);
    CHECK(after.at("rows").at(1).at(1) == 1);
    CHECK(after.at("rows").at(1).at(2) == 0);
    CHECK(after.at("rows").at(1).at(8) == 3);
    CHECK(after.at("rows").at(1).at(9) == 2);
    CHECK(after.at("changes") > before.at("changes"));
    CHECK(run({{"command", "traffic"}}).at("changes") == after.at("changes"));
}

TEST_CASE("control: the number of changes counts changes of the forwarding table") {
    TestFabric fabric(2);
    fabric.make_active();
    const json request = {{"command", "traffic"}};
    const auto changes = [&] {
        return fabric::run_switch_command(fabric.sw, request).at("changes").get<unsigned>();
    };
    auto& lft = fabric.sw.node().lft;
    std::array<uint8_t, ib::kLftEntriesPerBlock> block{};
    const unsigned before = changes();
    REQUIRE(lft.read_block(0, block));
    REQUIRE(lft.write_block(0, block));
    CHECK(changes() == before);
    block[7] = 2;
    REQUIRE(lft.write_block(0, block));
    CHECK(changes() == before + 1);
    lft.set_top(lft.top());
    CHECK(changes() == before + 1);
    lft.set_top(static_cast<uint16_t>(lft.top() + 1));
    CHECK(changes() == before + 2);
}

TEST_CASE("control: the journal has links, cables and faults in order") {
    TestFabric fabric(2);
    fabric.make_active();
    const auto run = [&](const json& request) {
        return fabric::run_switch_command(fabric.sw, request);
    };
    const auto newest = [&](size_t count) {
        json found = json::array();
        const json entries = run({{"command", "journal"}}).at("entries");
        REQUIRE(entries.size() >= count);
        for (size_t i = entries.size() - count; i < entries.size(); ++i) {
            found.push_back({entries[i].at("port"), entries[i].at("change")});
        }
        return found;
    };
    CHECK(newest(1)[0][1] == "up");
    run({{"command", "link"}, {"port", 2}, {"state", "down"}});
    run({{"command", "link"}, {"port", 2}, {"state", "down"}});  // it is down already
    fabric.settle();
    CHECK(newest(2) == json::parse(R"([[2,"cable pulled"],[2,"down"]])"));
    run({{"command", "link"}, {"port", 2}, {"state", "up"}});
    fabric.settle();
    CHECK(newest(2) == json::parse(R"([[2,"cable back"],[2,"up"]])"));
    run({{"command", "fault"}, {"port", 1}, {"set", {{"drop", 0.5}, {"delay_us", 10}}}});
    run({{"command", "fault"}, {"port", 1}});  // shows the faults
    const json last = run({{"command", "journal"}}).at("entries").back();
    CHECK(last.at("change") == "faults");
    CHECK(last.at("detail") == "drop 0.5, delay 10 us");
    run({{"command", "fault"}, {"port", 1}, {"set", json::object()}});
    CHECK(run({{"command", "journal"}}).at("entries").back().at("detail") == "none");
    fabric.sw.port(1).raise(ib::LinkError::kBufferOverrun);
    CHECK(newest(1) == json::parse(R"([[1,"link error"]])"));
}

TEST_CASE("control: all switches of a process report the same journal instance") {
    TestFabric one(1);
    TestFabric other(1);
    const auto instance = [](fabric::Switch& sw) {
        return fabric::run_switch_command(sw, {{"command", "journal"}})
            .at("instance")
            .get<std::string>();
    };
    CHECK(instance(one.sw) == instance(other.sw));
    CHECK(instance(one.sw).size() == std::string("0x0123456789abcdef").size());
}

TEST_CASE("control: each member of a fault is checked and shown") {
    TestFabric fabric(1);
    const auto set = [&](const json& members) {
        return fabric::run_switch_command(
            fabric.sw, {{"command", "fault"}, {"port", 1}, {"direction", "out"}, {"set", members}});
    };
    const json shown = set(
        json::parse(R"({"duplicate":0.25,"reorder":1,"reorder_depth":4,"jitter_us":2,"vl15":true,)"
                    R"("mads_only":true,"attribute":17,"opcode":100,"seed":3})"));
    REQUIRE(shown.at("ok") == true);
    const json& out = shown.at("out");
    CHECK(out.at("description") ==
          "duplicate 0.25, reorder 1, jitter 2 us, only management packets");
    CHECK(out.at("reorder_depth") == 4);
    CHECK(out.at("attribute") == 17);
    CHECK(out.at("opcode") == 100);
    CHECK(out.at("seed") == 3);
    CHECK(out.at("vl15") == true);
    CHECK(shown.at("in").at("description") == "none");
    CHECK_FALSE(shown.at("in").contains("opcode"));
    for (const char* members :
         {R"({"attribute":65536})", R"({"attribute":-1})", R"({"attribute":"PortInfo"})",
          R"({"opcode":1.5})", R"({"delay_us":60000001})", R"({"jitter_us":-1})",
          R"({"corrupt":-0.1})", R"({"vl15":1})", R"({"mads_only":"yes"})", R"({"seed":1.5})"}) {
        INFO(members);
        CHECK(set(json::parse(members)).at("ok") == false);
    }
    CHECK(fabric.sw.port(1).egress_faults().spec().opcode == 100);  // as before the refusals
}

TEST_CASE("control: faults of the command line are set at one port or at all ports") {
    fabric::Fabric one(TestFabric::default_config());
    fabric::Switch& sw = *one.switches().at(0);
    REQUIRE(fabric::apply_fault_option(one, "1:drop=0.5,delay_us=10,direction=in"));
    CHECK(sw.port(1).ingress_faults().spec().drop == 0.5);
    CHECK(sw.port(1).ingress_faults().spec().delay_ns == 10'000);
    CHECK_FALSE(sw.port(1).egress_faults().spec().any());
    CHECK_FALSE(sw.port(2).ingress_faults().spec().any());
    REQUIRE(fabric::apply_fault_option(one, "all:corrupt=1"));
    for (unsigned port = 1; port <= sw.num_ports(); ++port) {
        CHECK(sw.port(port).ingress_faults().spec().corrupt == 1.0);
        CHECK(sw.port(port).egress_faults().spec().corrupt == 1.0);
        CHECK(sw.port(port).ingress_faults().spec().drop == 0.0);
    }
    const auto error = [&](const std::string& text) {
        const auto applied = fabric::apply_fault_option(one, text);
        return applied ? "" : applied.error();
    };
    CHECK(error("drop=1") == "not PORT:NAME=VALUE,...: drop=1");
    CHECK(error("9:drop=1").starts_with("9:drop=1: no such port: the switch has ports 1 to "));
    CHECK(error("all:drop=2") == "drop is a probability, 0 to 1");
    CHECK(error("1:drop") == "1:drop: drop is a probability, 0 to 1");
    CHECK(error("1:jitter_us") == "1:jitter_us: jitter_us is 0 to 60,000,000 microseconds");
    CHECK(error("1:drop=much") == "1:drop=much: drop is a probability, 0 to 1");
    CHECK(error("1:direction=up") == "1:direction=up: direction is in, out or both");
    CHECK(error("1:nothing=1").starts_with("1:nothing=1: no such fault: nothing; there are drop"));
    CHECK(error("leaf:drop=1").starts_with("leaf:drop=1: a port is a number or ID[NUMBER]"));
    CHECK(error("leaf[1]:drop=1").starts_with("leaf[1]:drop=1: no node \"leaf\""));
}

TEST_CASE("control: a retrained link goes down and comes up again") {
    TestFabric fabric(2);
    fabric.make_active();
    const json answer = fabric::run_switch_command(
        fabric.sw, {{"command", "link"}, {"port", 2}, {"state", "retrain"}});
    CHECK(answer.at("ok") == true);
    fabric.settle();
    CHECK(fabric.hca(1).own_end().is_up());
    CHECK(fabric.sw.port(2).attrs().state() == ib::PortState::kInitialize);
    const json entries =
        fabric::run_switch_command(fabric.sw, {{"command", "journal"}}).at("entries");
    REQUIRE(entries.size() >= 3);
    CHECK(entries.at(entries.size() - 3).at("change") == "retrained");
    CHECK(entries.at(entries.size() - 2).at("change") == "down");
    CHECK(entries.at(entries.size() - 1).at("change") == "up");
}

TEST_CASE("control: status names each width and speed of IBA") {
    TestFabric fabric(1);
    fabric.make_active();
    namespace lw = ib::link_width;
    namespace pi = ib::port_info;
    auto& info = fabric.sw.port(1).attrs().info;
    const auto shown = [&](const char* member) {
        return fabric::run_switch_command(fabric.sw, {{"command", "status"}})
            .at("ports")
            .at(0)
            .at(member)
            .get<std::string>();
    };
    const std::pair<unsigned, const char*> widths[] = {{lw::k1x, "1X"},   {lw::k2x, "2X"},
                                                       {lw::k4x, "4X"},   {lw::k8x, "8X"},
                                                       {lw::k12x, "12X"}, {0, "?"}};
    for (const auto& [width, name] : widths) {
        ib::set(info, pi::kLinkWidthActive, width);
        CHECK(shown("width") == name);
    }
    const std::pair<unsigned, const char*> basic[] = {{1, "SDR"}, {2, "DDR"}, {4, "QDR"}, {7, "?"}};
    ib::set(info, pi::kLinkSpeedExtActive, 0);
    for (const auto& [speed, name] : basic) {
        ib::set(info, pi::kLinkSpeedActive, speed);
        CHECK(shown("speed") == name);
    }
    const std::pair<unsigned, const char*> extended[] = {
        {1, "FDR"}, {2, "EDR"}, {4, "HDR"}, {8, "NDR"}, {15, "?"}};
    for (const auto& [speed, name] : extended) {
        ib::set(info, pi::kLinkSpeedExtActive, speed);
        CHECK(shown("speed") == name);
    }
}

TEST_CASE("control: the multicast table has the ports of each group") {
    TestFabric fabric(2);
    fabric.make_active();
    std::array<uint8_t, 64> block{};
    block[3 * 2 + 1] = 0b0110;
    REQUIRE(fabric.query(ib::Method::kSet, ib::attr::kMulticastForwardingTable, 0, block));
    const json table = fabric::run_switch_command(fabric.sw, {{"command", "mft"}});
    CHECK(table.at("entries") == json::parse("[[49155,[1,2]]]"));
}

namespace {

constexpr const char* kTopology = R"(
Switch 4 "left"  # "left leaf"
[1] "a"[1]
[2] "b"[1]
[4] "right"[4]

Switch 4 "right"
[1] "c"[1]
[4] "left"[4]

Ca 2 "a"
[1] "left"[1]

Ca 1 "b"
[1] "left"[2]

Ca 1 "c"
[1] "right"[1]
)";

json node_of(TopologyNet& net, const char* id) {
    const json answer = fabric::run_control_command(*net.fabric, {{"command", "nodes"}});
    for (const json& one : answer.at("nodes")) {
        if (one.at("id") == id) {
            return one;
        }
    }
    return {};
}

}  // namespace

TEST_CASE("control: nodes lists the type of each node, and its ports that are up") {
    TopologyNet net(kTopology, {{"left"}, {"right"}});
    net.connect("b", 0x9000);
    net.settle();
    const auto node = [&](const char* id) { return node_of(net, id); };
    CHECK(node("left").at("type") == "switch");
    CHECK(node("left").at("ports") == 4);
    CHECK(node("left").at("description") == "left leaf");
    CHECK(node("a").at("type") == "phantom");
    CHECK(node("a").at("ports") == 2);
    CHECK(node("a").at("ports_up") == 1);
    CHECK(node("b").at("type") == "virtual machine");
    CHECK(node("right").at("type") == "remote");
    CHECK_FALSE(node("right").contains("ports_up"));
    CHECK(node("left").at("ports_up") == 2);
}

TEST_CASE("control: nodes shows how many SMPs a node has answered, and how full its LFT is") {
    TopologyNet net(kTopology, {{"left"}, {"right"}});
    net.connect("b", 0x9000);
    const auto member = [&](const char* id, const char* name) {
        return node_of(net, id).value(name, json());
    };
    CHECK(member("left", "smps_answered") == 0);
    CHECK(member("a", "smps_answered") == 0);
    CHECK(net.node_guid({1}) != 0);  // passes through "left", which answers no SMP
    CHECK(member("left", "smps_answered") == 0);
    CHECK(member("a", "smps_answered") == 1);
    CHECK(net.query(ib::Method::kSet, ib::attr::kNodeInfo, 0, {}));  // an answer that refuses
    CHECK(member("left", "smps_answered") == 1);
    CHECK(member("left", "lft_top") == 0);
    CHECK(member("left", "lft_used") == 0);
    net.set_route({}, {0, 1, 2});
    CHECK(member("left", "lft_top") == 60);
    CHECK(member("left", "lft_used") == 3);
    CHECK(member("a", "lft_top").is_null());
}

TEST_CASE("control: a command names its switch by id, description, GUID or port") {
    TopologyNet net(kTopology, {{"left", "right"}});
    const auto run = [&](const json& request) {
        return fabric::run_control_command(*net.fabric, request);
    };
    const auto error = [&](const json& request) {
        const json answer = run(request);
        CHECK(answer.at("ok") == false);
        return answer.at("error").get<std::string>();
    };
    CHECK(run({{"command", "status"}, {"switch", "left leaf"}}).at("of") == "left leaf");
    CHECK(run({{"command", "vls"}, {"port", "right[4]"}}).at("of") == "right");
    CHECK(run({{"command", "vls"}, {"port", "c[1]"}}).at("of") == "right");
    CHECK(error({{"command", "status"}}) ==
          "there are 2 switches: name one, or a port as ID[NUMBER]");
    CHECK(error({{"command", "status"}, {"switch", "a"}}).starts_with("no switch \"a\""));
    CHECK(error({{"command", "status"}, {"switch", "nothing"}}).starts_with("no switch"));
    CHECK(error({{"command", "vls"}, {"port", "left"}}).starts_with("a port is a number or ID"));
    CHECK(error({{"command", "vls"}, {"port", "left[5]"}}) == "\"left\" has ports 1 to 4");
    CHECK(error({{"command", "vls"}, {"port", "a[2]"}}) ==
          "this port has no link: lay one with \"ctl run Link\"");
    CHECK(error({{"command", "vls"}, {"port", "nothing[1]"}}).starts_with("no node \"nothing\""));

    TopologyNet parts(kTopology, {{"left"}, {"right"}});
    const json elsewhere =
        fabric::run_control_command(*parts.fabric, {{"command", "vls"}, {"port", "right[1]"}});
    CHECK(
        elsewhere.at("error").get<std::string>().ends_with("is in another process: ask that one"));
}

namespace {

// A field of a request, the JSON types that it takes (b: true and false, n: whole numbers, f:
// numbers, t: text, o: objects), and the answer to all others.
struct TypedField {
    const char* request;
    const char* field;
    const char* types;
    const char* expected;
};

constexpr const char* kPort = "a number, or ID[NUMBER] as text";
constexpr const char* kSwitch = "an id, a description or a GUID as text";
constexpr const char* kFault = R"({"command":"fault","port":1,"set":{}})";
constexpr TypedField kTypedFields[] = {
    {R"({})", "/command", "t", "the name of a command as text"},
    {R"({"command":"run"})", "/line", "t", "a verb of ibsim and its arguments as text"},
    {R"({"command":"status"})", "/switch", "t", kSwitch},
    {R"({"command":"counters"})", "/switch", "t", kSwitch},
    {R"({"command":"traffic"})", "/switch", "t", kSwitch},
    {R"({"command":"lft"})", "/switch", "t", kSwitch},
    {R"({"command":"mft"})", "/switch", "t", kSwitch},
    {R"({"command":"journal"})", "/switch", "t", kSwitch},
    {R"({"command":"vls","port":1})", "/switch", "t", kSwitch},
    {R"({"command":"link","port":1,"state":"up"})", "/switch", "t", kSwitch},
    {R"({"command":"fault","port":1})", "/switch", "t", kSwitch},
    {R"({"command":"counters"})", "/port", "nt", kPort},
    {R"({"command":"counters"})", "/clear", "b", "true or false"},
    {R"({"command":"vls"})", "/port", "nt", kPort},
    {R"({"command":"link","state":"up"})", "/port", "nt", kPort},
    {R"({"command":"link","port":1})", "/state", "t", "up, down or retrain"},
    {R"({"command":"fault"})", "/port", "nt", kPort},
    {R"({"command":"fault","port":1})", "/set", "o", "an object with faults"},
    {R"({"command":"fault","port":1})", "/direction", "t", "in, out or both"},
    {kFault, "/set/drop", "nf", "a probability, 0 to 1"},
    {kFault, "/set/duplicate", "nf", "a probability, 0 to 1"},
    {kFault, "/set/reorder", "nf", "a probability, 0 to 1"},
    {kFault, "/set/corrupt", "nf", "a probability, 0 to 1"},
    {kFault, "/set/reorder_depth", "n", "1 to 65536 packets"},
    {kFault, "/set/delay_us", "nf", "0 to 60,000,000 microseconds"},
    {kFault, "/set/jitter_us", "nf", "0 to 60,000,000 microseconds"},
    {kFault, "/set/seed", "n", "a whole number, not negative"},
    {kFault, "/set/vl15", "b", "true or false"},
    {kFault, "/set/mads_only", "b", "true or false"},
    {kFault, "/set/attribute", "n", "0 to 65535"},
    {kFault, "/set/opcode", "n", "0 to 255"},
};

}  // namespace

TEST_CASE("control: a value of a wrong JSON type is refused by the name of its field") {
    fabric::Fabric one(TestFabric::default_config());
    const std::pair<char, json> values[] = {
        {'-', nullptr},       {'b', true},          {'n', 1}, {'f', 0.5}, {'t', "text"},
        {'a', json::array()}, {'o', json::object()}};
    for (const TypedField& field : kTypedFields) {
        const std::string name = std::string(field.field).substr(1);
        for (const auto& [type, value] : values) {
            json request = json::parse(field.request);
            request[json::json_pointer(field.field)] = value;
            INFO(request.dump());
            const json answer = fabric::run_control_command(one, request);
            if (std::string_view(field.types).find(type) == std::string_view::npos) {
                CHECK(answer ==
                      json{{"ok", false},
                           {"error", name.substr(name.rfind('/') + 1) + " is " + field.expected}});
            }
        }
    }
}

TEST_CASE("control: the answer to a request that lacks a field names the field") {
    fabric::Fabric one(TestFabric::default_config());
    const std::tuple<const char*, const char*, const char*> requests[] = {
        {R"({"switch":"s1"})", "command", "the name of a command as text"},
        {R"({"command":"run"})", "line", "a verb of ibsim and its arguments as text"},
        {R"({"command":"vls"})", "port", kPort},
        {R"({"command":"link","state":"up"})", "port", kPort},
        {R"({"command":"link","port":1})", "state", "up, down or retrain"},
        {R"({"command":"fault"})", "port", kPort},
    };
    for (const auto& [line, name, expected] : requests) {
        CHECK(json::parse(fabric::run_control_line(one, line)) ==
              json{{"ok", false}, {"error", name + std::string(" is missing: ") + expected}});
    }
    CHECK(fabric::run_switch_command(*one.switches().at(0), json::object()).at("error") ==
          "command is missing: the name of a command as text");
    CHECK(fabric::run_switch_command(*one.switches().at(0), {{"command", "nodes"}}).at("error") ==
          "no such command: nodes: pib-switch ctl --help lists them");
}

TEST_CASE("control: a malformed request gets an error") {
    fabric::Fabric one(TestFabric::default_config());
    for (const char* line : {"",
                             "{",
                             "[]",
                             "7",
                             "\"status\"",
                             "{}",
                             R"({"command":7})",
                             R"({"command":"nothing"})",
                             R"({"command":"counters","port":99})",
                             R"({"command":"counters","port":"one"})",
                             R"({"command":"link","port":1})",
                             R"({"command":"link","port":1,"state":"sideways"})",
                             R"({"command":"link","port":0,"state":"up"})",
                             R"({"command":"link","port":-1})",
                             R"({"command":"fault","port":1,"set":{"drop":2}})",
                             R"({"command":"fault","port":1,"set":{"drop":"much"}})",
                             R"({"command":"fault","port":1,"set":{"delay_us":1e300}})",
                             R"({"command":"fault","port":1,"set":{"nothing":1}})",
                             R"({"command":"fault","port":1,"set":{"opcode":256}})",
                             R"({"command":"fault","port":1,"set":{"opcode":-1}})",
                             R"({"command":"fault","port":1,"set":{"seed":-1}})",
                             R"({"command":"fault","port":1e300})",
                             R"({"command":"fault","port":1,"set":[]})",
                             R"({"command":"fault","port":1,"direction":"up","set":{}})",
                             "\xFF\xFE\x00"}) {
        INFO(line);
        const auto answer = json::parse(fabric::run_control_line(one, line));
        CHECK(answer.at("ok") == false);
        CHECK_FALSE(answer.at("error").get<std::string>().empty());
    }
    CHECK(json::parse(fabric::run_control_line(one, std::string(60'000, '['))).at("ok") == false);
    const std::string deep = R"({"command":"status","deep":)" + std::string(30'000, '[') +
                             std::string(30'000, ']') + "}";
    CHECK(json::parse(fabric::run_control_line(one, deep)).at("ok") == false);
}

}  // namespace pib::test
