// SPDX-License-Identifier: GPL-2.0-or-later
// Commands of the control socket, and what lines that are none do.
#include "control/control_commands.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "control/control_switch.h"
#include "test_fabric.h"

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
    REQUIRE(up.at("lanes").size() == 1U + fabric.sw.port(1).attrs().data_vls());
    CHECK(up.at("lanes").at(0).at("credits") > 0);
    CHECK(up.at("lanes").at(0).at("queued_packets") == 0);
    CHECK(up.at("lanes").back() == json::parse(R"({"vl": 15, "queued_packets": 0})"));
    CHECK(up.at("sl_to_vl").size() == 9);
    CHECK(up.at("sl_to_vl").at(2).size() == 16);
    fabric.sw.port(1).attrs().vl_arb_high = {{.vl = 1, .weight = 9}, {.vl = 2, .weight = 0}};
    const json pull = {{"command", "link"}, {"port", 1}, {"state", "down"}};
    CHECK(fabric::run_switch_command(fabric.sw, pull).at("ok") == true);
    fabric.settle();
    const json down = fabric::run_switch_command(fabric.sw, request);
    CHECK(down.at("high") == json::parse("[[1, 9]]"));
    CHECK(down.at("lanes").at(0).at("credits") == 0);
    CHECK(fabric::run_switch_command(fabric.sw, {{"command", "vls"}, {"port", 9}}).at("ok") ==
          false);
}

TEST_CASE("control: the journal has links, cables and faults in order") {
    TestFabric fabric(2);
    fabric.make_active();
    const auto run = [&](const json& request) {
        return fabric::run_switch_command(fabric.sw, request);
    };
    const auto newest = [&](std::size_t count) {
        json found = json::array();
        const json entries = run({{"command", "journal"}}).at("entries");
        REQUIRE(entries.size() >= count);
        for (std::size_t i = entries.size() - count; i < entries.size(); ++i) {
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
    run({{"command", "fault"}, {"port", 1}});  // shows them
    const json last = run({{"command", "journal"}}).at("entries").back();
    CHECK(last.at("change") == "faults");
    CHECK(last.at("detail") == "drop 0.5, delay 10 us");
    run({{"command", "fault"}, {"port", 1}, {"set", json::object()}});
    CHECK(run({{"command", "journal"}}).at("entries").back().at("detail") == "none");
    fabric.sw.port(1).raise(ib::LinkError::kBufferOverrun);
    CHECK(newest(1) == json::parse(R"([[1,"link error"]])"));
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
