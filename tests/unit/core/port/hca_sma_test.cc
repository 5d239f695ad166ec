// SPDX-License-Identifier: GPL-2.0-or-later
// Subnet management packets: which the device answers, passes to the guest, or drops.
#include "port_bench.h"

using namespace pib;
using namespace pib::hca;
using namespace pib::hca::test;
using ib::Method;
using ib::MgmtClass;

namespace {

// Headers of a LID-routed SMP from the SM's LID to the port's LID.
MadPacket smp_to(uint16_t dlid, uint16_t slid = PortBench::kSmLid) {
    return {.dlid = dlid, .slid = slid};
}

ib::Mad lid_smp(Method method, uint16_t attribute, uint32_t modifier = 0) {
    return make_mad(MgmtClass::kSubnLidRouted, method, attribute, modifier);
}

}  // namespace

TEST_CASE("a directed route reads NodeInfo and NodeDescription of a port without a LID") {
    PortBench bench;
    bench.connect();
    bench.inject(MadPacket{}, make_dr_smp(Method::kGet, ib::attr::kNodeInfo));
    const auto sent = bench.take_sent();
    REQUIRE(sent.size() == 1);
    const auto view = ib::PacketView::parse(sent[0], ib::Crcs::kElided);
    CHECK(view->lrh().vl == ib::kVl15);
    CHECK(view->lrh().dlid.is_permissive());
    CHECK(view->lrh().slid.is_permissive());
    CHECK(view->bth().dest_qp == ib::kQp0);
    const ib::Mad reply = mad_of(sent[0]);
    CHECK(reply.method() == Method::kGetResp);
    CHECK(is_returning(reply));
    CHECK(reply.status() == 0);
    CHECK(hop_pointer(reply) == 1);
    CHECK(reply.transaction_id() == 0x1122334455667788);
    CHECK(ib::get(reply.smp_data(), ib::node_info::kNodeType) == 1);
    CHECK(ib::get(reply.smp_data(), ib::node_info::kNumPorts) == 1);
    CHECK(ib::get(reply.smp_data(), ib::node_info::kNodeGuid) == 0x5254000000000001);
    CHECK(ib::get(reply.smp_data(), ib::node_info::kPortGuid) == 0x5254000000000011);
    CHECK(ib::get(reply.smp_data(), ib::node_info::kPartitionCap) == 32);
    CHECK(ib::get(reply.smp_data(), ib::node_info::kVendorId) == kVendorOui);
    const auto description = bench.ask(make_dr_smp(Method::kGet, ib::attr::kNodeDescription));
    CHECK(std::string_view(reinterpret_cast<const char*>(description.smp_data().data())) ==
          "bench");
    CHECK(bench.client.packets.empty());
}

TEST_CASE("LID-routed SMPs are answered from the LID that they were sent to") {
    PortBench bench;
    bench.bring_up();
    bench.attrs().set(ib::port_info::kLmc, 1);
    bench.port().apply(ib::PortEvent::kLidChange);
    bench.take_sent();
    bench.inject(smp_to(PortBench::kLid + 1), lid_smp(Method::kGet, ib::attr::kPortInfo, 1));
    const auto sent = bench.take_sent();
    REQUIRE(sent.size() == 1);
    const auto view = ib::PacketView::parse(sent[0], ib::Crcs::kElided);
    CHECK(view->lrh().dlid.value() == PortBench::kSmLid);
    CHECK(view->lrh().slid.value() == PortBench::kLid + 1);
    CHECK(ib::get(mad_of(sent[0]).smp_data(), ib::port_info::kLid) == PortBench::kLid);
}

TEST_CASE("malformed SMPs get the status that the specification names") {
    PortBench bench;
    bench.connect();
    const auto before = bench.attrs();
    ib::Mad mad = make_dr_smp(Method::kGet, ib::attr::kNodeInfo);
    mad.set(ib::mad_header::kClassVersion, 2);
    CHECK(bench.ask(mad).status() == ib::mad_status::kBadVersion);
    mad = make_dr_smp(Method::kSend, ib::attr::kNodeInfo);
    CHECK(bench.ask(mad).status() == ib::mad_status::kBadMethod);
    mad = make_dr_smp(Method::kGet, ib::attr::kSwitchInfo);
    CHECK(bench.ask(mad).status() == ib::mad_status::kBadMethodAttribute);
    mad = make_dr_smp(Method::kSet, ib::attr::kNodeInfo);
    CHECK(bench.ask(mad).status() == ib::mad_status::kBadMethodAttribute);
    mad = make_dr_smp(Method::kGet, ib::attr::kPKeyTable, 1);  // the table has one block
    CHECK(bench.ask(mad).status() == ib::mad_status::kBadField);
    mad = make_dr_smp(Method::kSet, ib::attr::kPortInfo, 2);
    CHECK(bench.ask(mad).status() == ib::mad_status::kBadField);
    CHECK(bench.attrs() == before);
}

TEST_CASE("packets on QP0 that are not SMPs for this port are dropped") {
    PortBench bench;
    bench.bring_up();
    const ib::Mad get = lid_smp(Method::kGet, ib::attr::kNodeInfo);
    ib::Mad other = make_dr_smp(Method::kGet, ib::attr::kNodeInfo);
    MadPacket ends;
    SECTION("another base version") {
        other.set(ib::mad_header::kBaseVersion, 2);
    }
    SECTION("hop count beyond the path") {
        other.set(ib::smp::kHopCount, 64);
    }
    SECTION("a route that continues, which a channel adapter cannot forward") {
        other.set(ib::smp::kHopCount, 2);
    }
    SECTION("hop pointer beyond the count") {
        other.set(ib::smp::kHopPointer, 3);
    }
    SECTION("a D bit in a request") {
        other.set(ib::smp::kD, 1);
    }
    SECTION("a LID-routed rest, which only a switch may start") {
        other.set(ib::smp::kDrDlid, 0x20);
    }
    SECTION("another class on QP0") {
        other = make_mad(MgmtClass::kPerf, Method::kGet, ib::attr::kPortCounters);
    }
    SECTION("a GRH") {
        ends.grh = ib::Grh{};
        other = get;
    }
    SECTION("another node's LID") {
        ends = smp_to(PortBench::kLid + 1);
        other = get;
    }
    SECTION("a multicast LID") {
        ends = smp_to(0xc001);
        other = get;
    }
    SECTION("QP0 on a data VL") {
        ends = smp_to(PortBench::kLid);
        ends.vl15 = false;
        other = get;
    }
    SECTION("VL15 to another QP") {
        ends = smp_to(PortBench::kLid);
        ends.dest_qp = 1;
        other = get;
    }
    SECTION("not a SEND of 256 bytes") {
        ends.bytes = 252;
    }
    SECTION("not a datagram") {
        ends.opcode = ib::opcode::kRc | ib::opcode::kSendOnly;
    }
    bench.take_sent();
    const uint64_t dropped = bench.counters.total(HcaCounter::kRxDropped);
    bench.inject(ends, other);
    CHECK(bench.take_sent().empty());
    CHECK(bench.client.packets.empty());
    CHECK(bench.counters.total(HcaCounter::kRxDropped) == dropped + 1);
    CHECK(bench.port().is_active());
}

TEST_CASE("SMInfo, traps and responses reach QP0 of the guest unchanged") {
    PortBench bench;
    bench.bring_up();
    ib::Mad mad;
    MadPacket ends = smp_to(PortBench::kLid);
    SECTION("Get(SMInfo)") {
        mad = lid_smp(Method::kGet, ib::attr::kSmInfo);
    }
    SECTION("Set(SMInfo)") {
        mad = lid_smp(Method::kSet, ib::attr::kSmInfo, 1);
    }
    SECTION("a trap") {
        mad = lid_smp(Method::kTrap, ib::attr::kNotice);
    }
    SECTION("a response") {
        mad = lid_smp(Method::kGetResp, ib::attr::kNodeInfo);
    }
    SECTION("Get(SMInfo) by directed route") {
        mad = make_dr_smp(Method::kGet, ib::attr::kSmInfo);
        ends = {};
    }
    SECTION("a response at the end of its way back") {
        mad = make_dr_smp(Method::kGetResp, ib::attr::kNodeInfo);
        mad.set(ib::smp::kD, 1);
        ends = {};
    }
    bench.take_sent();
    const Bytes packet = make_packet(ends, mad);
    bench.inject(packet);
    const auto delivered = bench.take_delivered();
    REQUIRE(delivered.size() == 1);
    CHECK(delivered[0] == packet);
    CHECK(bench.take_sent().empty());
}

TEST_CASE("an SMP from the guest to its own LID is answered like any other") {
    PortBench bench;
    bench.bring_up();
    bench.take_sent();
    const Bytes packet = make_packet(smp_to(PortBench::kLid, PortBench::kLid),
                                     lid_smp(Method::kGet, ib::attr::kNodeInfo));
    const auto room = bench.port().begin({.dlid = PortBench::kLid,
                                          .sl = 0,
                                          .vl15 = true,
                                          .bytes = static_cast<uint32_t>(packet.size())});
    REQUIRE(room.bytes().size() == packet.size());
    std::ranges::copy(packet, room.bytes().begin());
    bench.port().commit(ib::BurstSize::of(packet.size()), {});
    CHECK(bench.client.packets.empty());  // commit() itself delivers nothing
    bench.pump();
    const auto delivered = bench.take_delivered();
    REQUIRE(delivered.size() == 1);
    CHECK(mad_of(delivered[0]).method() == Method::kGetResp);
    CHECK(ib::get(mad_of(delivered[0]).smp_data(), ib::node_info::kNodeType) == 1);
    CHECK(bench.take_sent().empty());
}

TEST_CASE("VL15 needs no credits") {
    PortBench bench;
    bench.bring_up(160);
    bench.peer_events.hold = true;  // gives no credit back
    while (bench.send_data(0x20, 2048)) {
        bench.pump();
    }
    CHECK(bench.ask(make_dr_smp(Method::kGet, ib::attr::kNodeInfo)).status() == 0);
}

TEST_CASE("SMPs without room are counted and dropped") {
    PortBench bench;
    bench.bring_up();
    bench.host.links[1].sent.resize(FakeHost::kLinkCapacity);  // a peer that does not read
    const Bytes packet = make_packet({}, make_dr_smp(Method::kGet, ib::attr::kNodeInfo));
    for (unsigned i = 0; i < 4000; ++i) {
        REQUIRE(::pib::test::send(*bench.peer, packet));
        const Bytes out(bench.peer->output().begin(), bench.peer->output().end());
        bench.peer->consume_output(out.size());
        bench.port().link_rx(out);
    }
    const uint64_t dropped = bench.counter(ib::Counter::kVl15Dropped);
    CHECK(dropped > 0);
    CHECK(dropped < 4000);
    // The SMPs that were not dropped are answered when the peer reads again.
    bench.host.links[1].sent.clear();
    bench.peer_events.packets.clear();
    bench.pump();
    CHECK(bench.take_sent().size() == 4000 - dropped);
}

TEST_CASE("events name only the changed attributes") {
    PortBench bench;
    bench.bring_up();
    const unsigned changed = bench.client.changed;
    const auto nothing = [](std::span<uint8_t>) {};
    CHECK(bench.set_port_info(nothing) == 0);
    CHECK(bench.take_events() == 0);
    CHECK(bench.client.changed == changed);

    const auto set = [&](ib::Field field, uint64_t value) {
        return bench.set_port_info([=](std::span<uint8_t> info) { ib::set(info, field, value); });
    };
    CHECK(set(ib::port_info::kLid, 0x11) == 0);
    CHECK(bench.take_events() == PIB_HCA_PORT_EVENT_LID_CHANGE);
    CHECK(bench.port().lid() == 0x11);
    CHECK(bench.client.changed == changed + 1);
    CHECK(set(ib::port_info::kMasterSmLid, 3) == 0);
    CHECK(bench.take_events() == PIB_HCA_PORT_EVENT_SM_CHANGE);
    CHECK(set(ib::port_info::kClientReregister, 1) == 0);
    CHECK(bench.take_events() == PIB_HCA_PORT_EVENT_CLIENT_REREGISTER);
    CHECK(set(ib::port_info::kGidPrefix, 0xfec0000000000001) == 0);
    CHECK(bench.take_events() == PIB_HCA_PORT_EVENT_GID_CHANGE);
    CHECK(bench.port().gid(0)[7] == 1);
    CHECK(bench.client.changed == changed + 2);
    // Refused values change nothing.
    CHECK(set(ib::port_info::kLid, 0xc000) == ib::mad_status::kBadField);
    CHECK(set(ib::port_info::kPortState, 7) == ib::mad_status::kBadField);
    CHECK(bench.take_events() == 0);
    CHECK(bench.port().lid() == 0x11);
}

TEST_CASE("an SM sets the P_Key table and alias GUIDs of a port") {
    PortBench bench;
    bench.bring_up();
    ib::Mad smp = make_dr_smp(Method::kSet, ib::attr::kPKeyTable);
    ib::store_be(&smp.smp_data()[0], uint16_t{0x7fff});
    ib::store_be(&smp.smp_data()[2], uint16_t{0x8001});
    CHECK(bench.ask(smp).status() == 0);
    CHECK(bench.take_events() == PIB_HCA_PORT_EVENT_PKEY_CHANGE);
    CHECK(bench.port().pkey(0) == 0x7fff);
    CHECK(bench.port().pkey(1) == 0x8001);
    CHECK(bench.port().pkey(2) == 0);
    CHECK(bench.port().pkey(32) == 0);
    CHECK(bench.port().pkey_count() == 32);
    CHECK(bench.ask(smp).status() == 0);
    CHECK(bench.take_events() == 0);

    CHECK(bench.port().gid(1) == nullptr);
    CHECK(bench.port().gid(16) == nullptr);
    smp = make_dr_smp(Method::kSet, ib::attr::kGuidInfo, 1);
    ib::store_be(&smp.smp_data()[8], uint64_t{0xa11a5});
    CHECK(bench.ask(smp).status() == 0);
    CHECK(bench.take_events() == PIB_HCA_PORT_EVENT_GID_CHANGE);
    REQUIRE(bench.port().gid(9) != nullptr);
    CHECK(ib::load_be<uint64_t>(bench.port().gid(9) + 8) == 0xa11a5);
    CHECK(ib::load_be<uint64_t>(bench.port().gid(9)) == ib::kDefaultGidPrefix);
}
