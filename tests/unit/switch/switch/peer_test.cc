// SPDX-License-Identifier: GPL-2.0-or-later
// A port, a node and a cable belong to the peer that has used them first; a certificate limits what
// a peer may be.
#include "switch/peer.h"

#include <catch2/catch_test_macros.hpp>

#include "topology_net.h"

namespace pib::test {
namespace {

using fabric::Peer;
using link::RefuseReason;

constexpr const char* kTopology = R"(
switchguid=0x100
Switch 4 "left"
[1] "a"[1]
[2] "a"[2]
[3] "b"[1]
[4] "right"[4]

switchguid=0x200
Switch 4 "right"
[4] "left"[4]

caguid=0x1000
Ca 2 "a"
[1] "left"[1]
[2] "left"[2]

caguid=0x2000
Ca 1 "b"
[1] "left"[3]
)";

Peer user(const std::string& number) {
    return {.name = "user " + number, .origin = "user " + number, .grant = {}};
}

Peer certified(const std::string& name, fabric::Grant grant) {
    return {.name = "certificate " + name, .origin = "10.0.0.1", .grant = std::move(grant)};
}

link::Hello switch_hello(uint64_t guid, uint8_t port) {
    auto hello = make_hello(guid, port);
    hello.role = link::Role::kSwitch;
    hello.port_guid = hello.node_guid;
    return hello;
}

link::Hello named(const std::string& name, uint64_t guid, uint8_t port = 1) {
    auto hello = make_hello(guid, port);
    hello.node_description = name;
    return hello;
}

}  // namespace

TEST_CASE("peer: GUIDs of a port are refused to another user, present or absent") {
    fabric::Switch sw(TestFabric::default_config());
    REQUIRE(sw.admission().admit(make_hello(0x1000), user("1")));
    auto same_node = make_hello(0x1000);
    same_node.port_guid = ib::Guid(0x7777);
    auto same_port = make_hello(0x7777);
    same_port.port_guid = ib::Guid(0x1001);
    auto node_of_port = make_hello(0x1001);
    for (const auto& hello : {make_hello(0x1000), same_node, same_port, node_of_port}) {
        const auto refused = sw.admission().admit(hello, user("2"));
        REQUIRE_FALSE(refused);
        CHECK(refused.error().reason == RefuseReason::kNotAllowed);
        CHECK(refused.error().text.find("user 1") != std::string::npos);
        CHECK(refused.error().text.find("another GUID") != std::string::npos);
    }
    CHECK(sw.admission().owner(1) == "user 1");
    REQUIRE(sw.admission().admit(make_hello(0x1000), user("1")));
    CHECK(sw.admission().admit(make_hello(0x3000), user("2"))->number == 2);
}

TEST_CASE("peer: the GUID of a switch to which this one connects is refused to adapters") {
    fabric::Switch sw(TestFabric::default_config());
    sw.admission().reserve(4);
    sw.admission().set_neighbour(4, switch_hello(0x500, 1));
    auto port_of_switch = make_hello(0x1000);
    port_of_switch.port_guid = ib::Guid(0x500);
    for (const auto& hello : {make_hello(0x500), port_of_switch}) {
        const auto refused = sw.admission().admit(hello, user("1"));
        REQUIRE_FALSE(refused);
        CHECK(refused.error().reason == RefuseReason::kNotAllowed);
        CHECK(refused.error().text.find("port 4") != std::string::npos);
    }
    // Both processes may connect cables to the other one.
    CHECK(sw.admission().admit(switch_hello(0x500, 2), user("1")));
}

TEST_CASE("peer: the port of an absent device goes to another device of its user only") {
    auto config = TestFabric::default_config();
    config.num_ports = 1;
    fabric::Switch sw(config);
    REQUIRE(sw.admission().admit(make_hello(0x1000), user("1")));
    const auto refused = sw.admission().admit(make_hello(0x2000), user("2"));
    REQUIRE_FALSE(refused);
    CHECK(refused.error().reason == RefuseReason::kNoFreePort);
    CHECK(sw.admission().owner(1) == "user 1");
    CHECK(sw.admission().admit(make_hello(0x3000), user("1")));
    CHECK(sw.admission().owner(1) == "user 1");
}

TEST_CASE("peer: all ports of a node in a topology belong to the user of the first one") {
    TopologyNet net(kTopology);
    fabric::Fabric& fabric = net.part(0);
    REQUIRE(fabric.admit(named("a", 0x1000), user("1")));
    for (const uint8_t port : {1, 2}) {
        for (const uint64_t guid : {0x1000, 0x9000}) {
            const auto refused = fabric.admit(named("a", guid, port), user("2"));
            REQUIRE_FALSE(refused);
            CHECK(refused.error().reason == RefuseReason::kNotAllowed);
            CHECK(refused.error().text.find("\"a\" belongs to user 1") == 0);
        }
    }
    CHECK(fabric.admit(named("a", 0x1000, 2), user("1")));
    CHECK(fabric.admit(named("b", 0x2000), user("2")));
}

TEST_CASE("peer: in a topology, a node of another name cannot take another user's GUIDs") {
    TopologyNet net(kTopology);
    fabric::Fabric& fabric = net.part(0);
    REQUIRE(fabric.admit(named("a", 0x9000), user("1")));
    auto same_node = named("b", 0x9000), same_port = named("b", 0x7777);
    same_node.port_guid = ib::Guid(0x7777);
    same_port.port_guid = ib::Guid(0x9001);
    auto node_of_port = named("b", 0x9001);
    for (const auto& hello : {named("b", 0x9000), same_node, same_port, node_of_port}) {
        const auto refused = fabric.admit(hello, user("2"));
        REQUIRE_FALSE(refused);
        CHECK(refused.error().reason == RefuseReason::kNotAllowed);
        CHECK(refused.error().text.find("\"a\" belongs to user 1") == 8);
    }
    CHECK(fabric.admit(named("b", 0x9000), user("1")));
}

TEST_CASE("peer: a GUID that the topology gives to another node is refused, used or unused") {
    TopologyNet net(kTopology);
    fabric::Fabric& fabric = net.part(0);
    auto port_is_node = named("b", 0x7777), port_is_port = named("b", 0x2000);
    port_is_node.port_guid = ib::Guid(0x1000);
    port_is_port.node_guid = ib::Guid(0x1002);
    for (const auto& hello : {port_is_node, port_is_port}) {
        for (const auto* number : {"1", "2"}) {
            const auto refused = fabric.admit(hello, user(number));
            REQUIRE_FALSE(refused);
            CHECK(refused.error().reason == RefuseReason::kNotAllowed);
            CHECK(refused.error().text.find("\"a\" in the topology file: give this device") !=
                  std::string::npos);
        }
    }
    auto of_switch = named("b", 0x7777);
    of_switch.port_guid = ib::Guid(0x200);
    CHECK_FALSE(fabric.admit(of_switch, user("1")));
    CHECK(fabric.admit(named("a", 0x1000), user("1")));
    CHECK(fabric.admit(named("b", 0x2000), user("2")));
}

TEST_CASE("peer: a GUID that the topology gives to two nodes is permitted to both") {
    TopologyNet net(R"(
Switch 2 "left"
[1] "a"[1]
[2] "b"[1]
caguid=0x1000
Ca 1 "a"
[1] "left"[1]
caguid=0x1001
Ca 1 "b"
[1] "left"[2]
)");
    const auto at_b = net.part(0).admit(named("b", 0x1001), user("1"));
    CHECK(at_b);
    CHECK(net.part(0).admit(named("a", 0x1000), user("1")));
}

TEST_CASE("peer: a trunk belongs to the peer that connected it first") {
    TopologyNet net(kTopology, {{"left"}, {"right"}});
    auto hello = switch_hello(0x200, 4);
    REQUIRE(net.part(0).admit(hello, user("1")));
    const auto refused = net.part(0).admit(hello, user("2"));
    REQUIRE_FALSE(refused);
    CHECK(refused.error().reason == RefuseReason::kNotAllowed);
    CHECK(net.part(0).admit(hello, user("1")));
}

TEST_CASE("peer: a certificate limits GUIDs, role and nodes") {
    const Peer host = certified(
        "host",
        {.is_switch = false, .guids = {{ib::Guid(0x1000), ib::Guid(0x10FF)}}, .nodes = {"b"}});
    CHECK_FALSE(host.objection(make_hello(0x1000)));
    CHECK_FALSE(host.objection(make_hello(0x10FE)));
    CHECK(host.objection(make_hello(0x10FF)));  // its port GUID is 0x1100
    CHECK(host.objection(make_hello(0xFFF)));
    CHECK(host.objection(switch_hello(0x1000, 1)));
    CHECK(host.objection(ib::Guid(0x1000)));

    const Peer leaf = certified(
        "leaf", {.is_switch = true, .guids = {{ib::Guid(0x200), ib::Guid(0x200)}}, .nodes = {}});
    CHECK_FALSE(leaf.objection(switch_hello(0x200, 4)));
    CHECK_FALSE(leaf.objection(ib::Guid(0x200)));
    CHECK(leaf.objection(ib::Guid(0x201)));

    // A certificate admits a node of the topology by its name or by its GUID in the file.
    TopologyNet net(kTopology);
    const auto refused = net.part(0).admit(named("a", 0x10A0), certified("other", {}));
    REQUIRE_FALSE(refused);
    CHECK(refused.error().text.find("--node a") != std::string::npos);
    CHECK(net.part(0).admit(named("b", 0x10A0), host));
    CHECK(net.part(0).admit(named("a", 0x10B0), host));  // 0x1000 is its GUID
}

TEST_CASE("peer: a link is refused by its certificate before it has a port") {
    struct Owner : fabric::SwitchEndpoint::Owner {
        Peer peer = certified("host", {});
        void link_output_ready() override {}
        void link_note(const std::string&) override {}
        const Peer& link_peer() const override { return peer; }
    } owner;
    fabric::Switch sw(TestFabric::default_config());
    fabric::SwitchEndpoint link(sw.admission(), owner);
    LinkRecorder recorder;
    link::LinkEndpoint source(make_hello(0x1000), make_buffers(), recorder);
    recorder.endpoint = &source;
    const auto hello = source.output();
    std::ranges::copy(hello, link.input_space().begin());
    CHECK_FALSE(link.feed_input(hello.size()));
    CHECK_FALSE(feed(source, link.output()));
    REQUIRE(recorder.refusals.size() == 1);
    CHECK(recorder.refusals[0].reason == RefuseReason::kNotAllowed);
    CHECK(sw.admission().neighbour(1) == nullptr);
}

}  // namespace pib::test
