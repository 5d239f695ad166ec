// SPDX-License-Identifier: GPL-2.0-or-later
// Forwarding of packets by a switch: LFT, MFT, SL to VL, MTU, partitions, port states.
#include <catch2/catch_test_macros.hpp>

#include "test_fabric.h"

namespace pib::test {
namespace {

using ib::Counter;
namespace pi = ib::port_info;
namespace si = ib::switch_info;

void set_switch_info(TestFabric& fabric, std::vector<TestFabric::Change> changes) {
    auto data = fabric.query(ib::Method::kGet, ib::attr::kSwitchInfo, 0).value();
    for (const auto& change : changes) {
        ib::set(data.smp_data(), change.field, change.value);
    }
    REQUIRE(fabric.query(ib::Method::kSet, ib::attr::kSwitchInfo, 0, data.smp_data())
                .value()
                .status() == 0);
}

void set_mft(TestFabric& fabric, unsigned index, uint16_t ports) {
    std::array<uint8_t, 64> block{};
    ib::store_be(&block[2 * index], ports);
    REQUIRE(fabric.query(ib::Method::kSet, ib::attr::kMulticastForwardingTable, 0, block)
                .value()
                .status() == 0);
}

}  // namespace

TEST_CASE("forwarding: unicast packets leave unchanged by the port of the LFT") {
    TestFabric fabric(3);
    fabric.make_active();
    const Bytes packet = make_packet(0, 3, 1024, 1);
    const auto received = fabric.count(1, Counter::kPortUnicastRcvPkts);
    const auto sent = fabric.count(3, Counter::kPortXmitData);
    REQUIRE(fabric.hca(0).send_packet(packet));
    fabric.settle();
    CHECK(fabric.hca(1).packets.empty());
    REQUIRE(fabric.hca(2).packets.size() == 1);
    CHECK(fabric.hca(2).packets[0] == packet);
    CHECK(fabric.count(1, Counter::kPortUnicastRcvPkts) == received + 1);
    const auto words = packet.size() / 4 + 1;  // and the ICRC
    CHECK(fabric.count(3, Counter::kPortXmitData) == sent + words);
}

TEST_CASE("forwarding: packets to LIDs without an LFT entry are dropped and counted") {
    TestFabric fabric(2);
    fabric.make_active();
    for (const uint16_t dlid : {0, 50, 300, 0xFFFF}) {
        fabric.hca(0).send_packet(make_packet(0, dlid, 64, 1));
    }
    fabric.settle();
    CHECK(fabric.count(1, Counter::kPortRcvSwitchRelayErrors) == 4);
    CHECK(fabric.count(1, Counter::kPortDlidMappingErrors) == 4);
    CHECK(fabric.hca(1).packets.empty());
}

TEST_CASE("forwarding: LIDs above LinearFDBTop are not looked up") {
    TestFabric fabric(3);
    fabric.make_active();
    const auto arrives = [&] {
        const auto before = fabric.hca(2).packets.size();
        fabric.hca(0).send_packet(make_packet(0, 3, 64, 1));
        fabric.settle();
        return fabric.hca(2).packets.size() == before + 1;
    };
    CHECK(arrives());
    set_switch_info(fabric, {{si::kLinearFdbTop, 3}});
    CHECK(arrives());
    set_switch_info(fabric, {{si::kLinearFdbTop, 2}});
    CHECK_FALSE(arrives());
    CHECK(fabric.count(1, Counter::kPortDlidMappingErrors) == 1);
    set_switch_info(fabric, {{si::kLinearFdbTop, 200}});
    CHECK(arrives());
}

TEST_CASE("forwarding: a linear table that ends within a block is set up to its end") {
    fabric::LinearForwardingTable table(100);
    table.set_top(99);
    std::array<uint8_t, ib::kLftEntriesPerBlock> block{};
    block.fill(7);
    REQUIRE(table.write_block(1, block));
    CHECK(table.port(ib::Lid(63)) == fabric::kNoPort);
    CHECK(table.port(ib::Lid(64)) == 7);
    CHECK(table.port(ib::Lid(99)) == 7);
    REQUIRE(table.read_block(1, block));
    CHECK(block[35] == 7);
    CHECK(block[36] == fabric::kNoPort);
    CHECK_FALSE(table.write_block(2, block));
}

TEST_CASE("forwarding: multicast LIDs above MulticastFDBTop use the default ports") {
    TestFabric fabric(3);
    fabric.make_active();
    set_mft(fabric, 3, 0b0100);  // port 2
    set_switch_info(fabric, {{si::kDefaultMulticastPrimaryPort, 3}});
    const auto arrived_at = [&] {
        const auto second = fabric.hca(1).packets.size();
        const auto third = fabric.hca(2).packets.size();
        fabric.hca(0).send_packet(make_packet(0, 0xC003, 64, 1));
        fabric.settle();
        return fabric.hca(1).packets.size() > second  ? 2
               : fabric.hca(2).packets.size() > third ? 3
                                                      : 0;
    };
    set_switch_info(fabric, {{si::kMulticastFdbTop, 0xC003}});
    CHECK(arrived_at() == 2);
    set_switch_info(fabric, {{si::kMulticastFdbTop, 0xC002}});
    CHECK(arrived_at() == 3);
}

// IBA 14.2.5.4: with 0xBFFF, which is below all multicast LIDs, no entry is valid.
TEST_CASE("forwarding: with MulticastFDBTop 0xBFFF all multicast LIDs use the default ports") {
    TestFabric fabric(3);
    fabric.make_active();
    set_mft(fabric, 0, 0b0100);  // LID 0xC000 to port 2
    set_switch_info(fabric,
                    {{si::kDefaultMulticastPrimaryPort, 3}, {si::kMulticastFdbTop, 0xBFFF}});
    const auto info = fabric.query(ib::Method::kGet, ib::attr::kSwitchInfo, 0).value();
    CHECK(ib::get(info.smp_data(), si::kMulticastFdbTop) == 0xBFFF);
    REQUIRE(fabric.hca(0).send_packet(make_packet(0, 0xC000, 64, 1)));
    fabric.settle();
    CHECK(fabric.hca(1).packets.empty());
    CHECK(fabric.hca(2).packets.size() == 1);
}

TEST_CASE("forwarding: no packet leaves by its ingress port") {
    TestFabric fabric(2);
    fabric.make_active();
    fabric.hca(0).send_packet(make_packet(0, 1, 64, 1));
    fabric.settle();
    CHECK(fabric.hca(0).packets.empty());
    CHECK(fabric.count(1, Counter::kPortLoopingErrors) == 1);
    CHECK(fabric.count(1, Counter::kPortRcvSwitchRelayErrors) == 1);
}

TEST_CASE("forwarding: ingress of data needs Armed, egress needs Active") {
    TestFabric fabric(2);
    fabric.hca(0).send_packet(make_packet(0, 2, 64, 1));
    fabric.settle();
    CHECK(fabric.hca(1).packets.empty());
    fabric.make_active();
    fabric.set_port_info(2, {{pi::kPortState, static_cast<unsigned>(ib::PortState::kDown)}});
    CHECK(fabric.hca(1).downs == 1);
    CHECK(fabric.hca(1).ups == 2);  // the link has trained again: Initialize
    fabric.hca(0).send_packet(make_packet(0, 2, 64, 1));
    fabric.settle();
    CHECK(fabric.hca(1).packets.empty());
    CHECK(fabric.count(2, Counter::kPortInactiveDiscards) == 1);
    CHECK(fabric.count(2, Counter::kPortXmitDiscards) == 1);
}

TEST_CASE("forwarding: a data packet makes an Armed port Active") {
    TestFabric fabric(2);
    fabric.make_active();
    fabric.set_port_info(2, {{pi::kPortState, static_cast<unsigned>(ib::PortState::kDown)}});
    fabric.set_port_info(2, {{pi::kPortState, static_cast<unsigned>(ib::PortState::kArmed)}});
    // An SMP leaves the port Armed.
    ib::Mad smp = make_smp(ib::Method::kGet, ib::attr::kNodeInfo, 0);
    smp.set(ib::smp::kHopCount, 1);
    initial_path(smp)[1] = 1;
    fabric.hca(1).send_smp(smp);
    fabric.settle();
    CHECK(fabric.sw.port(2).attrs().state() == ib::PortState::kArmed);
    fabric.hca(1).send_packet(make_packet(0, 1, 64, 2));
    fabric.settle();
    CHECK(fabric.hca(0).packets.size() == 1);
    CHECK(fabric.sw.port(2).attrs().state() == ib::PortState::kActive);
}

TEST_CASE("forwarding: packets longer than NeighborMTU are discarded at egress") {
    TestFabric fabric(2);
    fabric.make_active();
    fabric.set_port_info(2, {{pi::kNeighborMtu, static_cast<unsigned>(ib::Mtu::k1024)}});
    fabric.hca(0).send_packet(make_packet(0, 2, 1024, 1));
    fabric.hca(0).send_packet(make_packet(0, 2, 2048, 1));
    fabric.settle();
    CHECK(fabric.hca(1).packets.size() == 1);
    CHECK(fabric.count(2, Counter::kPortNeighborMtuDiscards) == 1);
}

TEST_CASE("forwarding: the egress VL follows SL, ingress and egress port") {
    TestFabric fabric(2);
    fabric.make_active();
    std::array<uint8_t, 64> map{};
    map[0] = 0x01;  // SL 0 to VL 0, SL 1 to VL 1
    map[1] = 0x1F;  // SL 2 to VL 1, SL 3 nowhere
    REQUIRE(fabric.query(ib::Method::kSet, ib::attr::kSlToVlMappingTable, 1 << 8 | 2, map)
                .value()
                .status() == 0);
    for (const uint8_t sl : {0, 1, 2, 3}) {
        fabric.hca(0).send_packet(make_packet(0, 2, 64, 1, sl));
    }
    fabric.settle();
    REQUIRE(fabric.hca(1).packets.size() == 3);
    for (unsigned i = 0; i < 3; ++i) {
        CHECK(fabric.hca(1).packets[i][0] >> 4 == (i == 0 ? 0 : 1));
    }
    CHECK(fabric.count(1, Counter::kPortVlMappingErrors) == 1);
}

// IBA 7.6.4: a port discards packets on VLs that are not in operation.
TEST_CASE("forwarding: a packet on a VL beyond the ingress port's OperationalVLs is dropped") {
    TestFabric fabric(2);
    fabric.make_active();
    const auto arrives = [&](uint8_t vl) {
        const auto before = fabric.hca(1).packets.size();
        REQUIRE(fabric.hca(0).send_packet(make_packet(vl, 2, 64, 1, vl)));
        fabric.settle();
        return fabric.hca(1).packets.size() == before + 1;
    };
    REQUIRE(fabric.set_port_info(1, {{pi::kOperationalVls, 1}}) == 0);  // VL0
    CHECK(arrives(0));
    CHECK_FALSE(arrives(1));
    CHECK(fabric.count(1, Counter::kPortVlMappingErrors) == 1);
    CHECK(fabric.count(1, Counter::kPortRcvSwitchRelayErrors) == 1);
    REQUIRE(fabric.set_port_info(1, {{pi::kOperationalVls, 2}}) == 0);  // VL0 and VL1
    CHECK(arrives(1));
    CHECK(fabric.count(1, Counter::kPortVlMappingErrors) == 1);
    CHECK(fabric.sw.held_packets() == 0);
}

TEST_CASE("forwarding: multicast reaches each member once, and not its sender") {
    TestFabric fabric(4);
    fabric.make_active();
    set_mft(fabric, 3, 0b11110);  // ports 1 to 4
    const Bytes packet = make_packet(0, 0xC003, 256, 1);
    fabric.hca(0).send_packet(packet);
    fabric.settle();
    CHECK(fabric.hca(0).packets.empty());
    for (unsigned i = 1; i < 4; ++i) {
        REQUIRE(fabric.hca(i).packets.size() == 1);
        CHECK(fabric.hca(i).packets[0] == packet);
    }
    CHECK(fabric.count(1, Counter::kPortMulticastRcvPkts) == 1);
    CHECK(fabric.count(2, Counter::kPortMulticastXmitPkts) == 1);
}

TEST_CASE("forwarding: unlisted multicast LIDs use the default ports") {
    TestFabric fabric(3);
    fabric.make_active();
    fabric.hca(0).send_packet(make_packet(0, 0xC009, 64, 1));
    fabric.settle();
    CHECK(fabric.count(1, Counter::kPortDlidMappingErrors) == 1);
    set_switch_info(
        fabric, {{si::kDefaultMulticastPrimaryPort, 2}, {si::kDefaultMulticastNotPrimaryPort, 3}});
    fabric.hca(0).send_packet(make_packet(0, 0xC009, 64, 1));
    fabric.hca(1).send_packet(make_packet(0, 0xC009, 64, 2));
    fabric.settle();
    CHECK(fabric.hca(1).packets.size() == 1);
    CHECK(fabric.hca(2).packets.size() == 1);
}

TEST_CASE("forwarding: a multicast packet waits for slow members and frees its buffer once") {
    TestFabric fabric(4);
    fabric.make_active();
    set_mft(fabric, 0, 0b11110);
    fabric.hca(2).hold = true;
    unsigned sent = 0;
    while (fabric.hca(0).send_packet(make_packet(0, 0xC000, 4096, 1))) {
        ++sent;
        fabric.settle();
    }
    CHECK(sent > 10);
    CHECK(fabric.hca(1).packets.size() == sent);
    CHECK(fabric.hca(2).packets.size() < sent);
    CHECK(fabric.sw.held_packets() == sent - fabric.hca(2).packets.size());
    while (fabric.hca(2).packets.size() < sent) {
        fabric.hca(2).release_all();
        fabric.settle();
    }
    CHECK(fabric.sw.held_packets() == 0);
    CHECK(fabric.hca(0).own_end().sender().credits(0) >= 1024);
}

TEST_CASE("forwarding: partitions are enforced at ingress and egress, with trap 259") {
    TestFabric fabric(3);
    fabric.make_active();
    std::array<uint8_t, 64> pkeys{};
    ib::store_be(&pkeys[0], uint16_t{0x8001});
    REQUIRE(
        fabric.query(ib::Method::kSet, ib::attr::kPKeyTable, 2U << 16, pkeys).value().status() ==
        0);
    fabric.set_port_info(2, {{pi::kPartitionEnforcementOutbound, 1}});
    fabric.hca(0).send_packet(make_packet(0, 2, 64, 1));
    fabric.settle();
    CHECK(fabric.hca(1).packets.empty());
    CHECK(fabric.count(2, Counter::kPortXmitConstraintErrors) == 1);
    fabric.set_port_info(
        2, {{pi::kPartitionEnforcementOutbound, 0}, {pi::kPartitionEnforcementInbound, 1}});
    fabric.hca(1).send_packet(make_packet(0, 3, 64, 2));
    fabric.settle();
    CHECK(fabric.hca(2).packets.empty());
    CHECK(fabric.count(2, Counter::kPortRcvConstraintErrors) == 1);
    for (unsigned i = 0; i < 10; ++i) {
        fabric.advance(2'000'000);  // a port sends one trap in a millisecond
    }
    // IBA table 131: LIDADDR1 is the sender of the packet, LIDADDR2 its destination.
    namespace nd = ib::notice_details_259;
    const auto traps = traps_of(fabric.hca(0), ib::trap::kBadPKeyAtSwitchPort);
    REQUIRE(traps.size() == 2);
    for (unsigned i = 0; i < 2; ++i) {
        const auto details = traps[i].smp_data();
        CHECK(ib::get(details, nd::kLid1) == i + 1);
        CHECK(ib::get(details, nd::kLid2) == i + 2);
        CHECK(ib::get(details, nd::kPKey) == ib::kDefaultPKey.value());
        CHECK(ib::get(details, nd::kQp2) == 0x123);
        CHECK(ib::get(details, nd::kSwitchLid) == TestFabric::kSwitchLid);
        CHECK(ib::get(details, nd::kPortNumber) == 2);
    }
}

TEST_CASE(
    "forwarding: a limited member's packets pass its own port, not another limited member's") {
    TestFabric fabric(3);
    fabric.make_active();
    const auto join = [&](unsigned port, uint16_t key) {
        std::array<uint8_t, 64> pkeys{};
        ib::store_be(&pkeys[0], key);
        REQUIRE(fabric.query(ib::Method::kSet, ib::attr::kPKeyTable, port << 16, pkeys));
        fabric.set_port_info(
            port, {{pi::kPartitionEnforcementOutbound, 1}, {pi::kPartitionEnforcementInbound, 1}});
    };
    join(1, 0x0001);
    join(2, 0x8001);
    join(3, 0x0001);
    const auto sends = [&](unsigned from, uint16_t to, uint16_t key) {
        auto packet = make_packet(0, to, 64, TestFabric::lid_of(from));
        ib::store_be(&packet[ib::Lrh::kSize + 2], key);
        const size_t before = fabric.hca(to - 1U).packets.size();
        fabric.hca(from).send_packet(packet);
        fabric.settle();
        return fabric.hca(to - 1U).packets.size() > before;
    };
    CHECK(sends(0, 2, 0x0001));  // limited to full, and back
    CHECK(sends(1, 1, 0x8001));
    CHECK_FALSE(sends(0, 3, 0x0001));  // limited to limited
    CHECK(fabric.count(3, Counter::kPortXmitConstraintErrors) == 1);
    CHECK_FALSE(sends(0, 2, 0x0002));  // a partition that it is not in
    CHECK(fabric.count(1, Counter::kPortRcvConstraintErrors) == 1);
    CHECK_FALSE(sends(0, 2, 0x0000));  // the invalid P_Key, which empty entries hold
    CHECK(fabric.count(1, Counter::kPortRcvConstraintErrors) == 2);
    CHECK_FALSE(sends(0, 3, 0x8001));  // a limited member that sends the full P_Key
    CHECK(fabric.count(1, Counter::kPortRcvConstraintErrors) == 3);
    CHECK_FALSE(sends(1, 1, 0x0001));  // a full member with the limited P_Key counts as limited
    CHECK(fabric.count(2, Counter::kPortRcvConstraintErrors) == 0);
    CHECK(fabric.count(1, Counter::kPortXmitConstraintErrors) == 1);
}

}  // namespace pib::test
