// SPDX-License-Identifier: GPL-2.0-or-later
// One fabric in several processes: traffic over the trunks between them, and their admission.
#include <catch2/catch_test_macros.hpp>

#include "topology_net.h"

namespace pib::test {
namespace {

namespace pi = ib::port_info;

constexpr const char* kTopology = R"(
switchguid=0x100
Switch 8 "left"   # "left leaf"
[1] "a"[1]
[2] "b"[1]
[7] "right"[7]
[8] "right"[8]

switchguid=0x200
Switch 8 "right"
[1] "c"[1]
[2] "far"[1]

switchguid=0x300
Switch 4 "far"
[2] "d"[1]

caguid=0x1000
Ca 1 "a"
[1] "left"[1]

caguid=0x2000
Ca 1 "b"
[1] "left"[2]

caguid=0x3000
Ca 1 "c"
[1] "right"[1]

caguid=0x4000
Ca 1 "d"
[1] "far"[2]
)";

// "left" listens; "right" and "far" are another process, which connects.
struct Net : TopologyNet {
    Net() : TopologyNet(kTopology, {{"left"}, {"right", "far"}}) {}

    // Assigns LIDs (a 1, c 3, left 10, right 11) and makes all ports between a and c Active.
    void route_a_to_c() {
        set_port({}, 0, {{pi::kLid, 10}, {pi::kMasterSmLid, 1}});
        set_port({7}, 0, {{pi::kLid, 11}, {pi::kMasterSmLid, 1}});
        set_route({}, {255, 1, 2, 8, 255, 255, 255, 255, 255, 255, 0, 7});
        set_route({7}, {255, 7, 7, 1, 255, 255, 255, 255, 255, 255, 7, 0});
        activate({}, 1);
        for (const unsigned port : {7U, 8U}) {
            activate({}, port);
            activate({7}, port);
        }
        activate({7}, 1);
    }
    void reconnect(unsigned index) {
        cables[index] = std::make_unique<TrunkCarrier>(cables[index]->trunk(), part(0));
        settle();
    }
};

std::string refusal(fabric::Fabric& fabric, const link::Hello& hello) {
    const auto admitted = fabric.admit(hello, {});
    return admitted ? "" : admitted.error().text;
}

link::Hello hello_of_right(uint8_t port) {
    auto hello = make_hello(0x200, port);
    hello.role = link::Role::kSwitch;
    hello.port_guid = hello.node_guid;
    hello.node_description = "right";
    return hello;
}

}  // namespace

TEST_CASE("trunk: directed routes pass through two processes") {
    Net net;
    net.connect("a", 0x9000);
    CHECK(net.node_guid({7}) == 0);
    net.join(1, 0);
    REQUIRE(net.cables.size() == 2);
    CHECK(net.up("left", 7));
    CHECK(net.up("right", 8));
    CHECK(net.node_guid({7}) == 0x200);
    CHECK(net.node_guid({8, 1}) == 0x3000);
    CHECK(net.node_guid({8, 2, 2}) == 0x4000);
    CHECK(net.node_guid({7, 8, 7, 8, 2}) == 0x2000);
    const auto port = net.query(ib::Method::kGet, ib::attr::kPortInfo, 8, {});
    REQUIRE(port);
    CHECK(ib::get(port->smp_data(), pi::kPortState) ==
          static_cast<unsigned>(ib::PortState::kInitialize));
    net.part(0).advance(net.part(0).now_ns());
    CHECK(net.part(0).next_deadline() == UINT64_MAX);
}

TEST_CASE("trunk: packets arrive in another process in order and without loss") {
    Net net;
    FakeHca& a = net.connect("a", 0x9000);
    FakeHca& c = net.connect("c", 0xA000, 1);
    net.join(1, 0);
    net.route_a_to_c();
    for (unsigned i = 0; i < 500; ++i) {
        REQUIRE(a.send_packet(make_packet(0, 3, 4 * (1 + i % 500))));
        if (i % 7 == 0) {
            net.settle();
        }
    }
    net.settle();
    REQUIRE(c.packets.size() == 500);
    for (unsigned i = 0; i < 500; ++i) {
        CHECK(c.packets[i] == make_packet(0, 3, 4 * (1 + i % 500)));
    }
    CHECK(net.sw("left").counters(8).value(ib::Counter::kPortXmitDiscards) == 0);
    CHECK(net.sw("right").counters(8).value(ib::Counter::kPortRcvErrors) == 0);
}

TEST_CASE("trunk: a lost connection takes both ports Down until it returns") {
    Net net;
    net.connect("a", 0x9000);
    net.join(1, 0);
    const unsigned seven = net.cables[0]->trunk().far().port == 7 ? 0 : 1;
    net.cables[seven]->cut();
    net.settle();
    CHECK_FALSE(net.up("left", 7));
    CHECK_FALSE(net.up("right", 7));
    CHECK(net.up("left", 8));
    CHECK(net.node_guid({7}) == 0);
    CHECK(net.node_guid({8}) == 0x200);
    net.reconnect(seven);
    CHECK(net.up("left", 7));
    CHECK(net.node_guid({7}) == 0x200);
    // The operator's Unlink holds the link down from either side.
    const auto port = net.part(0).find_port("left", 7);
    REQUIRE(port);
    CHECK(net.part(0).unlink(*port));
    net.settle();
    CHECK_FALSE(net.up("right", 7));
    CHECK(net.cables[seven]->is_open());
    CHECK(net.part(0).relink(*port));
    net.settle();
    CHECK(net.up("right", 7));
}

TEST_CASE("trunk: a peer that does not read stops only its own trunk") {
    Net net;
    FakeHca& a = net.connect("a", 0x9000);
    FakeHca& c = net.connect("c", 0xA000, 1);
    net.join(1, 0);
    net.route_a_to_c();
    for (const auto& cable : net.cables) {
        cable->stalled = true;
    }
    unsigned sent = 0;
    for (unsigned i = 0; i < 20'000; ++i) {
        sent += a.send_packet(make_packet(0, 3, 2048)) ? 1 : 0;
        net.settle();
    }
    CHECK(sent < 20'000);  // credits ran out instead of memory
    CHECK(c.packets.empty());
    CHECK(net.node_guid({2}) == 0x2000);
    for (unsigned i = 0; i < 3000; ++i) {
        net.query(ib::Method::kGet, ib::attr::kNodeInfo, 0, {7});
    }
    CHECK(net.sw("left").port(7).queues().size() <= 1024);
    for (const auto& cable : net.cables) {
        cable->stalled = false;
    }
    net.settle();
    CHECK(c.packets.size() == sent);
    CHECK(net.node_guid({7}) == 0x200);
}

TEST_CASE("trunk: only the port of the topology file is admitted") {
    Net net;
    fabric::Fabric& left = net.part(0);
    CHECK(refusal(left, hello_of_right(1)).find("no cable leads from here") != std::string::npos);
    auto stranger = hello_of_right(7);
    stranger.node_guid = ib::Guid(0x999);
    CHECK(refusal(left, stranger).find("no cable leads from here") != std::string::npos);
    auto adapter = make_hello(0x3000);
    CHECK(refusal(left, adapter).find("in another process") != std::string::npos);
    net.join(1, 0);
    CHECK(refusal(left, hello_of_right(7)).find("connected already") != std::string::npos);
    // If both sides open connections, each refuses the other's.
    Net both;
    REQUIRE(both.part(0).trunks_to({"right"}));
    const auto listening = both.part(0).trunks_to({});
    for (fabric::Trunk* trunk : *listening) {
        trunk->set_connects();
    }
    both.join(1, 0);
    for (const auto& cable : both.cables) {
        CHECK_FALSE(cable->is_open());
    }
    CHECK_FALSE(both.up("left", 7));
    CHECK_FALSE(both.part(0).trunks_to({"right"}));
    CHECK_FALSE(both.part(0).trunks_to({"far"}));
}

TEST_CASE("trunk: the answering peer is checked against the topology file") {
    Net net;
    fabric::Trunk* trunk = net.part(1).trunks_to({"left"})->at(0);
    const uint8_t number = trunk->far().port;
    CHECK(trunk->welcomed({.switch_guid = ib::Guid(0x100), .port_number = number}));
    CHECK_FALSE(trunk->welcomed({.switch_guid = ib::Guid(0x101), .port_number = number}));
    CHECK_FALSE(trunk->welcomed({.switch_guid = ib::Guid(0x100), .port_number = 1}));
    CHECK_FALSE(trunk->welcomed({.switch_guid = ib::Guid(0x200), .port_number = number}));
}

TEST_CASE("trunk: a topology that cannot be split is refused with a reason") {
    const auto made = [](const char* text, const std::vector<std::string>& own) {
        auto topology = fabric::parse_topology(text, "net");
        REQUIRE(topology);
        const auto part = fabric::Fabric::make(std::move(*topology), {}, own);
        return part ? "" : part.error();
    };
    CHECK(made(kTopology, {"left"}).empty());
    CHECK(made(kTopology, {"left leaf"}).empty());
    CHECK(made(kTopology, {"0x200"}).empty());
    CHECK(made(kTopology, {"middle"}).find("no switch \"middle\"") != std::string::npos);
    CHECK(made(kTopology, {"a"}).find("no switch \"a\"") != std::string::npos);
    constexpr const char* kTwoRails = R"(
Switch 4 "one"
Switch 4 "two"
Ca 2 "host"
[1] "one"[1]
[2] "two"[1]
)";
    CHECK(made(kTwoRails, {"one"}).find("several processes") != std::string::npos);
    CHECK(made(kTwoRails, {"one", "two"}).empty());
}

TEST_CASE("trunk: two switches without a file are joined at the connecting one's last port") {
    fabric::SwitchConfig config;
    config.num_ports = 4;
    config.node_guid = ib::Guid(0x500);
    fabric::Fabric one(config);
    config.node_guid = ib::Guid(0x600);
    fabric::Fabric other(config);
    const auto trunks = other.trunks_to({});
    REQUIRE(trunks);
    TrunkCarrier cable(*trunks->at(0), one);
    while (cable.carry()) {
    }
    CHECK(cable.error.empty());
    CHECK(one.switches()[0]->port(1).attrs().link_is_up());
    CHECK(other.switches()[0]->port(4).attrs().link_is_up());
    REQUIRE(other.switches()[0]->admission().neighbour(4) != nullptr);
    CHECK(other.switches()[0]->admission().neighbour(4)->node_guid == ib::Guid(0x500));
    // The port stays reserved, so four adapters do not fit.
    for (const uint64_t guid : {0x1000, 0x2000, 0x3000}) {
        CHECK(other.admit(make_hello(guid), {}));
    }
    for (unsigned port = 1; port <= 3; ++port) {
        CHECK(other.admit(make_hello(0x1000 * port), {})->number == port);
    }
    const auto twin = other.trunks_to({});
    TrunkCarrier itself(*twin->at(0), other);
    while (itself.carry()) {
    }
    CHECK(itself.error.find("same GUID") != std::string::npos);
}

TEST_CASE("trunk: a switch that answers with the GUID of a connected device is refused") {
    fabric::SwitchConfig config;
    config.num_ports = 4;
    config.node_guid = ib::Guid(0x500);
    fabric::Fabric one(config);
    config.node_guid = ib::Guid(0x600);
    fabric::Fabric other(config);
    auto hello = make_hello(0x1000);
    hello.port_guid = ib::Guid(0x500);
    FakeHca device(other, hello);
    while (device.carry()) {
    }
    REQUIRE(device.port() == 1);
    const auto trunks = other.trunks_to({});
    REQUIRE(trunks);
    TrunkCarrier refused(*trunks->at(0), one);
    while (refused.carry()) {
    }
    CHECK(refused.error.find("the device at port 1 has the GUID") != std::string::npos);

    device.disconnect();
    TrunkCarrier cable(*trunks->at(0), one);
    while (cable.carry()) {
    }
    CHECK(cable.error.empty());
    CHECK(other.switches()[0]->port(4).attrs().link_is_up());
}

}  // namespace pib::test
