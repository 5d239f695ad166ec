// SPDX-License-Identifier: GPL-2.0-or-later
// Bursts through a switch: forwarded unchanged if possible, otherwise packet by packet, with the
// same packets and counters in both cases.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "burst_message.h"
#include "ring_hca.h"

namespace pib::test {
namespace {

using ib::Counter;
constexpr uint32_t kMemory = link::kFeatureSharedMemory;
constexpr uint32_t kBursts = kMemory | link::kFeatureBursts;
constexpr uint32_t kPackets = 12;

class BurstHca final : public RingHca {
  public:
    using RingHca::RingHca;
    uint32_t link_burst(ib::Burst& burst, ib::Placement& payload) override {
        bursts += burst.count() == kPackets;
        return burst.is_single() ? RingHca::link_burst(burst, payload) : 0;
    }
    unsigned bursts = 0;  // received bursts
};

struct Tap final : fabric::PacketTap {
    std::vector<Bytes> seen;
    void packet_seen(std::span<const uint8_t> packet, const fabric::Arrival&) override {
        seen.emplace_back(packet.begin(), packet.end());
    }
};

// Two adapters; records what the second one receives from the first one.
struct BurstFabric {
    TestFabric fabric;
    BurstHca* from;
    BurstHca* to;

    explicit BurstFabric(uint32_t features = kBursts, uint32_t blocks = 8192, bool bursts = true)
        : fabric(0, config(bursts)) {
        from = add(0, kBursts, 8192);
        to = add(1, features, blocks);
        fabric.make_active();
        to->packets.clear();
    }
    static fabric::SwitchConfig config(bool bursts) {
        auto made = TestFabric::default_config();
        made.bursts = bursts;
        return made;
    }
    BurstHca* add(unsigned index, uint32_t features, uint32_t blocks) {
        auto hca = std::make_unique<BurstHca>(fabric.sw.admission(), index, features, blocks);
        BurstHca* added = hca.get();
        fabric.add(std::move(hca));
        return added;
    }
    static Way way() { return {.dlid = TestFabric::lid_of(1), .slid = TestFabric::lid_of(0)}; }
    bool send(const Way& route = way()) {
        const bool sent = send_burst(from->own_end(), kPackets, route);
        fabric.settle();
        return sent;
    }
    void map_sl(unsigned sl, uint8_t vl) {
        auto& table = fabric.sw.node().ports[to->port()].sl_to_vl;
        ib::SlToVl row = table[from->port()];
        row[sl] = vl;
        table.set(from->port(), row);
    }
    void check_all_arrived() { CHECK(to->packets == single_packets(kPackets, way())); }
};

}  // namespace

TEST_CASE("switch: a burst is forwarded whole and counts as its packets") {
    BurstFabric bursts, single;
    const auto before = [](BurstFabric& net, unsigned port, Counter counter) {
        return net.fabric.count(port, counter);
    };
    static constexpr Counter kIn[] = {Counter::kPortRcvData, Counter::kPortRcvPkts,
                                      Counter::kPortUnicastRcvPkts};
    static constexpr Counter kOut[] = {Counter::kPortXmitData, Counter::kPortXmitPkts,
                                       Counter::kPortUnicastXmitPkts};
    REQUIRE(bursts.send());
    REQUIRE(send_singly(single.from->own_end(), kPackets, BurstFabric::way()));
    single.fabric.settle();
    CHECK(bursts.to->bursts == 1);
    CHECK(single.to->bursts == 0);
    bursts.check_all_arrived();
    single.check_all_arrived();
    for (unsigned i = 0; i < 3; ++i) {
        CHECK(before(bursts, bursts.from->port(), kIn[i]) ==
              before(single, single.from->port(), kIn[i]));
        CHECK(before(bursts, bursts.to->port(), kOut[i]) ==
              before(single, single.to->port(), kOut[i]));
    }
    CHECK(bursts.fabric.sw.held_packets() == 0);
}

TEST_CASE("switch: the receive buffer of bursts is released") {
    BurstFabric net;
    for (unsigned i = 0; i < 200; ++i) {  // far more than the buffer holds
        REQUIRE(net.send());
    }
    CHECK(net.to->bursts == 200);
}

TEST_CASE("switch: all packets of a burst get the VL of their SL") {
    BurstFabric net;
    net.map_sl(4, 1);
    Way way = BurstFabric::way();
    way.sl = 4;
    REQUIRE(net.send(way));
    CHECK(net.to->bursts == 1);
    way.vl = 1;
    CHECK(net.to->packets == single_packets(kPackets, way));
}

TEST_CASE("switch: a burst is split where packets are captured, changed or kept") {
    BurstFabric net;
    auto& in = net.fabric.sw.port(net.from->port());
    auto& out = net.fabric.sw.port(net.to->port());
    Tap tap;
    SECTION("a capture") {
        net.fabric.sw.set_tap(&tap);
        REQUIRE(net.send());
        CHECK(tap.seen == single_packets(kPackets, BurstFabric::way()));
    }
    SECTION("faults at ingress") {
        in.ingress_faults().set({.delay_ns = 1000});
        REQUIRE(net.send());
        net.fabric.advance(1'000'000);
        CHECK(in.ingress_faults().counts().delayed == kPackets);
    }
    SECTION("faults at egress") {
        out.egress_faults().set({.delay_ns = 1000});
        REQUIRE(net.send());
        net.fabric.advance(1'000'000);
        CHECK(out.egress_faults().counts().delayed == kPackets);
    }
    CHECK(net.to->bursts == 0);
    net.check_all_arrived();
}

TEST_CASE("switch: fault injection drops single packets of a burst") {
    BurstFabric net;
    net.fabric.sw.port(net.from->port()).ingress_faults().set({.drop = 0.3, .seed = 7});
    REQUIRE(net.send());
    const auto& counts = net.fabric.sw.port(net.from->port()).ingress_faults().counts();
    CHECK(counts.seen == kPackets);
    CHECK(counts.dropped == 3);
    CHECK(net.to->packets.size() == kPackets - 3);
}

TEST_CASE("switch: a neighbour without bursts, or without room for one, gets single packets") {
    const uint32_t features = GENERATE(0u, kMemory, kBursts);
    BurstFabric net(features, features == kBursts ? 160 : 8192);
    REQUIRE(net.send());
    net.fabric.settle();
    CHECK(net.to->bursts == 0);
    net.check_all_arrived();
}

TEST_CASE("switch: the first packet that waits for ring space requests a wake-up") {
    BurstFabric net(kBursts, 65536);  // credits for more than the ring holds
    const Bytes packet = make_packet(0, TestFabric::lid_of(1), 4096, TestFabric::lid_of(0));
    auto& port = net.fabric.sw.port(net.to->port());
    unsigned sent = 0;
    do {
        net.to->publish();
        net.to->ready = 0;
        REQUIRE(net.from->send_packet(packet));
        REQUIRE(net.from->carry());
        ++sent;
    } while (port.queues().size() == 0);
    CHECK(net.to->ready == 1);
    net.to->publish();
    CHECK_FALSE(net.to->sw_link->room_is_back());
    for (unsigned i = 0; i < 20; ++i) {
        net.fabric.settle();
    }
    CHECK(net.to->packets.size() == sent);
}

TEST_CASE("switch: waiting packets precede a burst") {
    BurstFabric net(kBursts, 300);
    net.to->hold = true;
    for (unsigned i = 0; i < 3; ++i) {
        REQUIRE(net.send());
    }
    for (unsigned i = 0; i < 20; ++i) {
        net.to->release_all();
        net.fabric.settle();
    }
    REQUIRE(net.to->packets.size() == 3 * kPackets);
    const auto expected = single_packets(kPackets, BurstFabric::way());
    for (size_t i = 0; i < net.to->packets.size(); ++i) {
        CHECK(net.to->packets[i] == expected[i % kPackets]);
    }
}

TEST_CASE("switch: a refused burst counts each of its packets") {
    BurstFabric net;
    Way way = BurstFabric::way();
    Counter expected{};
    unsigned at = net.from->port();
    SECTION("a LID without a route") {
        way.dlid = 77;
        expected = Counter::kPortDlidMappingErrors;
    }
    SECTION("the egress port is the ingress port") {
        way.dlid = TestFabric::lid_of(0);
        expected = Counter::kPortLoopingErrors;
    }
    SECTION("a VL that the egress port lacks") {
        net.map_sl(0, 12);
        expected = Counter::kPortVlMappingErrors;
    }
    SECTION("packets longer than NeighborMTU") {
        net.fabric.sw.port(net.to->port()).attrs().set(ib::port_info::kNeighborMtu, 2);
        net.fabric.sw.port(net.to->port()).attributes_changed({});
        expected = Counter::kPortNeighborMtuDiscards;
        at = net.to->port();
    }
    SECTION("a foreign partition at ingress") {
        net.fabric.sw.port(net.from->port())
            .attrs()
            .set(ib::port_info::kPartitionEnforcementInbound, 1);
        net.fabric.sw.port(net.from->port()).attributes_changed({});
        way.pkey = 0x8123;
        expected = Counter::kPortRcvConstraintErrors;
    }
    SECTION("limited members on both sides") {
        auto& out = net.fabric.sw.port(net.to->port());
        out.attrs().set(ib::port_info::kPartitionEnforcementOutbound, 1);
        out.attrs().pkeys[0] = ib::PKey(0x7fff);
        out.attributes_changed({});
        way.pkey = 0x7fff;
        expected = Counter::kPortXmitConstraintErrors;
        at = net.to->port();
    }
    SECTION("a foreign partition at egress") {
        net.fabric.sw.port(net.to->port())
            .attrs()
            .set(ib::port_info::kPartitionEnforcementOutbound, 1);
        net.fabric.sw.port(net.to->port()).attributes_changed({});
        way.pkey = 0x8123;
        expected = Counter::kPortXmitConstraintErrors;
        at = net.to->port();
    }
    REQUIRE(net.send(way));
    CHECK(net.fabric.count(at, expected) ==
          (expected == Counter::kPortNeighborMtuDiscards ? kPackets - 1 : kPackets));
    CHECK(net.to->bursts == 0);
}

TEST_CASE("switch: a burst of an enforced partition passes") {
    BurstFabric net;
    for (BurstHca* hca : {net.from, net.to}) {
        auto& port = net.fabric.sw.port(hca->port());
        port.attrs().set(ib::port_info::kPartitionEnforcementInbound, 1);
        port.attrs().set(ib::port_info::kPartitionEnforcementOutbound, 1);
        port.attributes_changed({});
    }
    REQUIRE(net.send());
    CHECK(net.to->bursts == 1);
    net.check_all_arrived();
}

TEST_CASE("switch: with bursts off it does not agree on bursts") {
    BurstFabric net(kBursts, 8192, false);
    CHECK_FALSE(net.from->own_end().agreed().bursts);
    CHECK_FALSE(net.send());
}

}  // namespace pib::test
