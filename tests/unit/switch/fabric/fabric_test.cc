// SPDX-License-Identifier: GPL-2.0-or-later
// Many nodes in one process: switches joined in memory, phantoms, and the places of connecting
// HCAs.
#include <catch2/catch_test_macros.hpp>

#include "base/mad_packets.h"
#include "topology_net.h"

namespace pib::test {
namespace {

namespace pi = ib::port_info;

// Port 1 of "a" and of "b" at leaf "left", port 2 of "c" at leaf "right"; two cables between the
// leaves.
constexpr const char* kTopology = R"(
switchguid=0x100
Switch 8 "left"   # "left leaf"
[1] "a"[1]
[2] "b"[1]
[7] "right"[7]
[8] "right"[8] # "right leaf" lid 1 4xEDR

switchguid=0x200
Switch 8 "right"
[1] "c"[2]
[7] "left"[7]
[8] "left"[8]

caguid=0x1000
Ca 1 "a"
[1](0x1001) "left"[1]

caguid=0x2000
Ca 1 "b" # "node-b hca"
[1] "left"[2]

caguid=0x3000
Ca 2 "c"
[2] "right"[1]
)";

struct Net : TopologyNet {
    Net() : TopologyNet(kTopology) {}
};

// Records the VL of each packet that arrives at port 2 of a switch.
struct Tap final : fabric::PacketTap {
    std::vector<unsigned> vls;
    void packet_seen(std::span<const uint8_t> packet, const fabric::Arrival& arrival) override {
        if (arrival.port == 2) {
            vls.push_back(packet[0] >> 4);
        }
    }
};

// Headers of a request from LID 1 to the PMA at LID 2.
ib::PacketHeaders pma_headers() {
    ib::PacketHeaders headers = fabric::smp_headers(ib::Lid(2), ib::Lid(1), ib::Sl{}, ib::Psn(0));
    headers.lrh.vl = ib::Vl{};
    headers.bth.dest_qp = ib::kQp1;
    headers.deth = {.qkey = ib::kGsiQKey, .src_qp = ib::kQp1};
    return headers;
}

// A Get of the PortCounters of port 1.
Bytes pma_request(const ib::PacketHeaders& headers) {
    ib::Mad request;
    request.set(ib::mad_header::kBaseVersion, ib::kMadBaseVersion);
    request.set(ib::mad_header::kMgmtClass, static_cast<unsigned>(ib::MgmtClass::kPerf));
    request.set(ib::mad_header::kClassVersion, 1);
    request.set(ib::mad_header::kMethod, static_cast<unsigned>(ib::Method::kGet));
    request.set(ib::mad_header::kAttributeId, ib::attr::kPortCounters);
    ib::set(request.gmp_data(), ib::pma::kPortSelect, 1);
    const fabric::MadPacket packet(headers, request);
    return {packet.bytes().begin(), packet.bytes().end()};
}

}  // namespace

TEST_CASE("fabric: all links of a topology are up at once") {
    Net net;
    net.connect("a", 0x9000);
    CHECK(net.node_guid({}) == 0x100);
    CHECK(net.node_guid({2}) == 0x2000);
    CHECK(net.node_guid({7}) == 0x200);
    CHECK(net.node_guid({8, 1}) == 0x3000);
    CHECK(net.node_guid({7, 8, 7, 8, 2}) == 0x2000);
    CHECK(net.node_guid({3}) == 0);
    const auto info = net.query(ib::Method::kGet, ib::attr::kNodeInfo, 0, {8, 1});
    REQUIRE(info);
    CHECK(ib::get(info->smp_data(), ib::node_info::kPortGuid) == 0x3002);
    CHECK(ib::get(info->smp_data(), ib::node_info::kLocalPortNum) == 2);
    const auto port = net.query(ib::Method::kGet, ib::attr::kPortInfo, 8, {});
    REQUIRE(port);
    CHECK(ib::get(port->smp_data(), pi::kLinkSpeedExtActive) == ib::link_speed_ext::kEdr);
    CHECK(ib::get(port->smp_data(), pi::kPortState) ==
          static_cast<unsigned>(ib::PortState::kInitialize));
    // A fabric without work has no deadline, even when its clock stands still.
    net.fabric->advance(net.fabric->now_ns());
    CHECK(net.fabric->next_deadline() == UINT64_MAX);
}

TEST_CASE("fabric: a node is found by its whole GUID") {
    const Net net;
    CHECK(net.fabric->find_node("0x1000") == net.fabric->find_node("a"));
    CHECK(net.fabric->find_node("0x1000").has_value());
    for (const char* text : {"0x1000 ", "0x1000junk", "0x10000000000001000", "0x", "0x-1"}) {
        CHECK_FALSE(net.fabric->find_node(text).has_value());
    }
}

TEST_CASE("fabric: a guest takes the place of its name or GUID in the file") {
    Net net;
    SECTION("name of the description's first word") {
        CHECK(net.connect("node-b mlx5_0", 0x9000).port() == 2);
        CHECK(net.node_guid({1}) == 0x1000);
        CHECK(net.node_guid({2}) == 0x9000);
    }
    SECTION("port GUID") {
        auto hello = make_hello(0x1000);
        CHECK(net.connect(hello).port() == 1);
    }
    SECTION("node GUID and port number") {
        auto hello = make_hello(0x3000, 2);
        hello.port_guid = ib::Guid(0x77);
        CHECK(net.connect(hello).port() == 1);
    }
    SECTION("the switch's port is Down after the guest has left") {
        FakeHca& hca = net.connect("c", 0x9000);
        CHECK(net.fabric->find_node("c"));
        hca.disconnect();
        net.settle();
        net.connect("a", 0x9100);
    }
}

TEST_CASE("fabric: a device that is not in the file is refused with that reason") {
    Net net;
    const auto refused = [&](const std::string& name, uint64_t guid, uint8_t port) {
        auto hello = make_hello(guid, port);
        hello.node_description = name;
        return net.connect(hello).error;
    };
    CHECK(refused("nobody", 0x9000, 1).find("no channel adapter") != std::string::npos);
    CHECK(refused("left", 0x9000, 1).find("no channel adapter") != std::string::npos);
    CHECK(refused("a", 0x9000, 2).find("has no port 2") != std::string::npos);
    CHECK(refused("c", 0x9000, 1).find("has no link") != std::string::npos);
    CHECK(refused("a", 0x9000, 1).empty());
    CHECK(refused("a", 0x9100, 1).find("connected already") != std::string::npos);
}

TEST_CASE("fabric: packets cross switches, and phantoms answer performance queries") {
    Net net;
    FakeHca& a = net.connect("a", 0x9000);
    auto hello = make_hello(0xA000, 2);
    hello.node_description = "c";
    FakeHca& c = net.connect(hello);
    // LIDs: a 1, b 2, c 3, left 10, right 11.
    net.set_port({}, 0, {{pi::kLid, 10}, {pi::kMasterSmLid, 1}});
    net.set_port({7}, 0, {{pi::kLid, 11}, {pi::kMasterSmLid, 1}});
    net.set_port({2}, 1, {{pi::kLid, 2}, {pi::kMasterSmLid, 1}});
    net.set_route({}, {255, 1, 2, 8, 255, 255, 255, 255, 255, 255, 0, 7});
    net.set_route({7}, {255, 7, 7, 1, 255, 255, 255, 255, 255, 255, 7, 0});
    net.activate({}, 1);
    net.activate({}, 2);
    net.activate({}, 7);
    net.activate({}, 8);
    net.activate({7}, 7);
    net.activate({7}, 8);
    net.activate({7}, 1);
    net.activate({2}, 1);

    const auto sent = [&] {
        return net.fabric->switches()[0]->counters(8).value(ib::Counter::kPortXmitPkts);
    };
    const auto before = sent();
    REQUIRE(a.send_packet(make_packet(0, 3, 256)));
    net.settle();
    REQUIRE(c.packets.size() == 1);
    CHECK(c.packets[0] == make_packet(0, 3, 256));
    CHECK(sent() == before + 1);

    // More packets than one link has credits for, one after the other.
    for (unsigned i = 0; i < 500; ++i) {
        REQUIRE(a.send_packet(make_packet(0, 3, 2048)));
        net.settle();
    }
    CHECK(c.packets.size() == 501);

    ib::PacketHeaders headers = pma_headers();
    REQUIRE(a.send_packet(pma_request(headers)));
    // The phantom answers a limited member with the P_Key of its own table, and no multicast LID.
    headers.bth.pkey = ib::PKey(0x7FFF);
    REQUIRE(a.send_packet(pma_request(headers)));
    headers.lrh.slid = ib::Lid(0xC001);
    REQUIRE(a.send_packet(pma_request(headers)));
    net.settle();
    REQUIRE(a.packets.size() == 2);
    const auto second = ib::PacketView::parse(a.packets[1], ib::Crcs::kElided);
    REQUIRE(second);
    CHECK(second->bth().pkey == ib::kDefaultPKey);
    const auto reply = ib::PacketView::parse(a.packets[0], ib::Crcs::kElided);
    REQUIRE(reply);
    const auto mad = fabric::mad_of(*reply, ib::kQp1);
    REQUIRE(mad);
    CHECK(mad->status() == 0);
    CHECK(mad->method() == ib::Method::kGetResp);
}

// The answer has the SL of the request (IBA 13.5.4). The port that sends it maps SL to VL (7.6.6).
TEST_CASE("fabric: a phantom answers on the VL that its SLtoVL table has") {
    constexpr uint8_t kVl5 = 5, kNone = 15;
    Tap tap;
    Net net;
    FakeHca& a = net.connect("a", 0x9000);
    net.set_port({2}, 1, {{pi::kLid, 2}, {pi::kMasterSmLid, 1}});
    net.set_route({}, {255, 1, 2});
    net.activate({}, 1);
    net.activate({}, 2);
    net.activate({2}, 1);
    net.fabric->add_tap(tap);
    ib::PacketHeaders headers = pma_headers();
    headers.lrh.sl = ib::Sl(1);
    const auto vls_of_answers = [&](uint8_t vl) {
        const std::array<uint8_t, ib::kSmpDataSize> map{vl};  // SL 0: VL 0; SL 1: `vl`
        REQUIRE(net.query(ib::Method::kSet, ib::attr::kSlToVlMappingTable, 0, {2}, map));
        tap.vls.clear();
        REQUIRE(a.send_packet(pma_request(headers)));
        net.settle();
        return tap.vls;
    };
    CHECK(vls_of_answers(kVl5) == std::vector<unsigned>{kVl5});
    CHECK(a.packets.size() == 1);
    CHECK(vls_of_answers(kNone).empty());
    CHECK(a.packets.size() == 1);
    net.fabric->remove_tap(tap);
}

TEST_CASE("fabric: packets that a training drops in a cable give back their credits") {
    Net net;
    FakeHca& a = net.connect("a", 0x9000);
    net.set_route({}, {255, 1, 2, 8});
    net.activate({}, 1);
    net.activate({}, 8);
    fabric::CableEnd& cable = net.sw("left").port(8).cable();
    const auto credits = [&] { return cable.neighbour()->credits(0); };
    const auto all = credits();
    for (unsigned i = 0; i < 3; ++i) {
        REQUIRE(a.send_packet(make_packet(0, 3, 2048)));
    }
    a.carry();  // into the cable, which delivers at the next settle()
    REQUIRE(credits() < all);
    for (const bool plugged : {false, true}) {
        cable.plug(plugged);
        net.settle();
    }
    REQUIRE(net.up("left", 8));
    CHECK(credits() == all);
    CHECK(net.sw("right").counters(8).value(ib::Counter::kPortUnicastRcvPkts) == 0);
}

TEST_CASE("fabric: a circular route stops no other traffic") {
    Net net;
    FakeHca& a = net.connect("a", 0x9000);
    net.set_route({}, {255, 1, 2, 8});
    net.set_route({7}, {255, 7, 7, 7});
    net.activate({}, 1);
    for (const unsigned port : {7U, 8U}) {
        net.activate({}, port);
        net.activate({7}, port);
    }
    REQUIRE(a.send_packet(make_packet(0, 3, 64)));
    a.carry();
    CHECK(net.fabric->deliver());  // returns, although work is left
    CHECK(net.fabric->next_deadline() == net.fabric->now_ns());
}

}  // namespace pib::test
