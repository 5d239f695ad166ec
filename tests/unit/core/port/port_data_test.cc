// SPDX-License-Identifier: GPL-2.0-or-later
// Data packets: restrictions by the port's state, VLs, credits and MTU, and packets to the port
// itself.
#include "ib/link/packet_checksums.h"
#include "port_bench.h"

using namespace pib;
using namespace pib::hca;
using namespace pib::hca::test;
using ib::Counter;
using ib::PortState;

namespace {

Bytes data_to(uint16_t dlid, unsigned vl = 0, size_t payload = 64) {
    return ::pib::test::make_packet(vl, dlid, payload);
}

}  // namespace

TEST_CASE("a port that is not Active accepts data from QPs and discards it") {
    PortBench bench;
    CHECK(bench.send_data(0x20));
    bench.connect();
    CHECK(bench.send_data(0x20));
    bench.pump();
    CHECK(bench.take_sent().empty());
    CHECK(bench.counter(Counter::kPortXmitDiscards) == 2);
    CHECK(bench.counter(Counter::kPortInactiveDiscards) == 2);
    CHECK(bench.counters.total(HcaCounter::kTxPackets) == 0);
}

TEST_CASE("a port in Armed receives data and becomes Active") {
    PortBench bench;
    bench.connect();
    const auto to = [](PortState state) {
        return [state](std::span<uint8_t> info) {
            ib::set(info, ib::port_info::kLid, PortBench::kLid);
            ib::set(info, ib::port_info::kPortState, static_cast<unsigned>(state));
        };
    };
    bench.set_port_info(to(PortState::kNoChange));
    bench.inject(data_to(PortBench::kLid));
    CHECK(bench.client.packets.empty());
    bench.set_port_info(to(PortState::kArmed));
    bench.take_events();
    bench.inject(data_to(PortBench::kLid));
    CHECK(bench.take_delivered().size() == 1);
    CHECK(bench.state() == PortState::kActive);
    CHECK(bench.take_events() == PIB_HCA_PORT_EVENT_ACTIVE);
}

TEST_CASE("malformed packets, and packets of other LIDs or VLs, are dropped") {
    PortBench bench;
    bench.bring_up();
    bench.inject(data_to(PortBench::kLid + 1));
    bench.inject(data_to(ib::Lid::kPermissiveValue));
    CHECK(bench.counters.total(HcaCounter::kRxDropped) == 2);
    CHECK(bench.counter(Counter::kPortRcvErrors) == 0);

    bench.set_port_info(
        [](std::span<uint8_t> info) { ib::set(info, ib::port_info::kOperationalVls, 1); });
    bench.inject(data_to(PortBench::kLid, 1));
    CHECK(bench.counter(Counter::kPortRcvErrors) == 1);
    CHECK(bench.counter(Counter::kPortMalformedPacketErrors) == 1);

    Bytes reserved_opcode = data_to(PortBench::kLid);
    reserved_opcode[8] = 0xff;
    bench.inject(reserved_opcode);
    CHECK(bench.counters.total(HcaCounter::kRxDropped) == 3);
    Bytes version = data_to(PortBench::kLid);
    version[0] |= 1;
    bench.inject(version);
    CHECK(bench.counter(Counter::kPortRcvErrors) == 2);
    CHECK(bench.client.packets.empty());
    CHECK(bench.counters.total(HcaCounter::kRxDropped) == 3);
}

TEST_CASE("a port checks checksums if there are any") {
    PortBench bench;
    bench.bring_up();
    Bytes packet = data_to(PortBench::kLid);
    packet.resize(packet.size() + 6);
    link::append_crcs(packet);
    REQUIRE(::pib::test::send(*bench.peer, packet, link::SendCrc::kGiven));
    bench.pump();
    CHECK(bench.take_delivered().size() == 1);
    packet[40] ^= 1;
    REQUIRE(::pib::test::send(*bench.peer, packet, link::SendCrc::kGiven));
    bench.pump();
    CHECK(bench.client.packets.empty());
    CHECK(bench.counter(Counter::kPortRcvErrors) == 1);
    CHECK(bench.counter(Counter::kPortLocalPhysicalErrors) == 1);
}

TEST_CASE("SLtoVL selects the lane, and packets of an SL without a VL are discarded") {
    PortBench bench;
    bench.bring_up();
    ib::Mad map = make_dr_smp(ib::Method::kSet, ib::attr::kSlToVlMappingTable);
    map.smp_data()[0] = 0x25;  // SL0 to VL2, SL1 to VL5
    map.smp_data()[1] = 0xf9;  // SL2 to VL15, SL3 to VL9, which is not in operation
    REQUIRE(bench.ask(map).status() == 0);
    bench.take_sent();
    for (uint8_t sl = 0; sl < 4; ++sl) {
        REQUIRE(bench.send_data(0x20, 64, sl));
    }
    bench.pump();
    const auto sent = bench.take_sent();
    REQUIRE(sent.size() == 2);
    CHECK(sent[0][0] >> 4 == 2);
    CHECK(sent[1][0] >> 4 == 5);
    CHECK(bench.counter(Counter::kPortXmitDiscards) == 2);
}

TEST_CASE("packets longer than NeighborMTU are discarded") {
    PortBench bench;
    bench.bring_up();
    CHECK(bench.port().mtu_bytes() == 4096);
    bench.set_port_info(
        [](std::span<uint8_t> info) { ib::set(info, ib::port_info::kNeighborMtu, 1); });
    CHECK(bench.port().mtu_bytes() == 256);
    bench.take_sent();
    CHECK(bench.send_data(0x20, 256));
    CHECK(bench.send_data(0x20, 512));
    bench.pump();
    CHECK(bench.take_sent().size() == 1);
    CHECK(bench.counter(Counter::kPortNeighborMtuDiscards) == 1);
    CHECK(bench.counter(Counter::kPortXmitDiscards) == 1);
}

TEST_CASE("a VL without credits waits and counts PortXmitWait, and the others continue") {
    PortBench bench;
    bench.bring_up(160);
    bench.peer_events.hold = true;
    unsigned sent = 0;
    while (bench.send_data(0x20, 2048, 0)) {
        bench.pump();
        REQUIRE(++sent < 100);
    }
    CHECK(sent == 4);  // 160 blocks of 64 bytes
    CHECK(bench.send_data(0x20, 2048, 1));
    bench.host.clock_ns += 50'000;
    bench.pump();
    CHECK(bench.client.ready == 0);
    bench.peer_events.release_all();
    bench.pump();
    CHECK(bench.client.ready == 1);
    CHECK(bench.counter(Counter::kPortXmitWait) == 50);
    CHECK(bench.counter(ib::counter_of(Counter::kPortVlXmitWait, 0)) == 50);
    CHECK(bench.counter(ib::counter_of(Counter::kPortVlXmitWait, 1)) == 0);
    CHECK(bench.send_data(0x20, 2048, 0));
}

TEST_CASE("senders that wait for credits are woken when the link goes down") {
    PortBench bench;
    bench.bring_up(160);
    bench.peer_events.hold = true;
    while (bench.send_data(0x20, 2048)) {
        bench.pump();
    }
    bench.disconnect();
    CHECK(bench.client.ready == 1);
    CHECK(bench.send_data(0x20, 2048));
    CHECK(bench.counter(Counter::kPortInactiveDiscards) == 1);
}

TEST_CASE("the port returns credits, so traffic continues without end") {
    PortBench bench;
    bench.bring_up();
    const Bytes packet = data_to(PortBench::kLid, 0, 4096);
    for (unsigned i = 0; i < 1000; ++i) {
        bench.inject(packet);
    }
    CHECK(bench.take_delivered().size() == 1000);
}

TEST_CASE("packets to the own LID are looped back in order by run()") {
    PortBench bench;
    bench.bring_up();
    unsigned depth = 0;
    unsigned answers = 0;
    bench.client.on_packet = [&](const ib::PacketView&) {
        REQUIRE(++depth == 1);
        if (++answers < 1000) {
            REQUIRE(bench.send_data(PortBench::kLid, 64 + answers % 1000 * 4));
        }
        --depth;
    };
    REQUIRE(bench.send_data(PortBench::kLid, 64));
    CHECK(bench.client.packets.empty());
    CHECK(bench.host.woken);
    bench.pump();
    const auto delivered = bench.take_delivered();
    REQUIRE(delivered.size() == 1000);
    for (size_t i = 0; i < delivered.size(); ++i) {
        REQUIRE(delivered[i].size() == 8 + 12 + 8 + 64 + i * 4);
    }
    CHECK(bench.take_sent().empty());
}

TEST_CASE("a looped packet that meets another state or fewer VLs is dropped") {
    PortBench bench;
    bench.bring_up();
    REQUIRE(bench.send_data(PortBench::kLid, 64, 1));  // SL 1 has VL 1
    SECTION("a port that is Armed meanwhile does not become Active") {
        bench.attrs().set(ib::port_info::kPortState, static_cast<unsigned>(PortState::kArmed));
        bench.port().apply(ib::PortEvent::kStateChange);
        bench.pump();
        CHECK(bench.state() == PortState::kArmed);
    }
    SECTION("a VL that is no longer in operation is not an error of the link") {
        bench.attrs().set(ib::port_info::kOperationalVls, 1);
        bench.port().apply(ib::PortEvent::kLinkAttribute);
        bench.pump();
        CHECK(bench.counter(Counter::kPortRcvErrors) == 0);
    }
    CHECK(bench.client.packets.empty());
    CHECK(bench.counters.total(HcaCounter::kRxDropped) == 1);
}

TEST_CASE("the loopback is bounded and reports room again") {
    PortBench bench;
    bench.bring_up();
    unsigned queued = 0;
    while (bench.send_data(PortBench::kLid, 4096)) {
        REQUIRE(++queued < 200);
    }
    CHECK(queued > 16);
    CHECK(bench.client.ready == 0);
    bench.pump();
    CHECK(bench.client.ready == 1);
    CHECK(bench.take_delivered().size() == queued);
    CHECK(bench.send_data(PortBench::kLid, 4096));
    bench.ports.reset(false);
    bench.pump();
    CHECK(bench.client.packets.empty());
}

namespace {

ib::Grh grh_to(const ib::Gid& dgid) {
    ib::Grh grh{.hop_lmt = 1};
    grh.sgid = ib::Gid::from(ib::kDefaultGidPrefix, ib::Guid(0x99));
    grh.dgid = dgid;
    return grh;
}

constexpr ib::Guid kOwnGuid{0x5254000000000011};

MadPacket datagram(uint16_t dlid, uint32_t dest_qp) {
    return {.vl15 = false, .dlid = dlid, .slid = PortBench::kSmLid, .dest_qp = dest_qp};
}

bool is_taken(PortBench& bench, const MadPacket& packet) {
    bench.inject(packet, ib::Mad{});
    return bench.take_delivered().size() == 1;
}

}  // namespace

// IBA 9.6.1.2.3
TEST_CASE("a GRH names a GID of this port") {
    PortBench bench;
    bench.bring_up();
    MadPacket packet = datagram(PortBench::kLid, 77);
    CHECK(is_taken(bench, packet));
    packet.grh = grh_to(ib::Gid::from(ib::kDefaultGidPrefix, kOwnGuid));
    CHECK(is_taken(bench, packet));
    packet.grh = grh_to(ib::Gid::from(ib::kDefaultGidPrefix, ib::Guid(0x98)));
    CHECK_FALSE(is_taken(bench, packet));
    packet.grh = grh_to({});
    CHECK_FALSE(is_taken(bench, packet));
    CHECK(bench.counters.total(HcaCounter::kRxDropped) == 2);
    // Another prefix of the subnet leaves the default one valid (IBA 4.1.1).
    bench.set_port_info([](std::span<uint8_t> info) {
        ib::set(info, ib::port_info::kGidPrefix, 0xfec0000000001234);
    });
    packet.grh = grh_to(ib::Gid::from(0xfec0000000001234, kOwnGuid));
    CHECK(is_taken(bench, packet));
    packet.grh = grh_to(ib::Gid::from(ib::kDefaultGidPrefix, kOwnGuid));
    CHECK(is_taken(bench, packet));
    packet.grh = grh_to(ib::Gid::from(0xfec0000000004321, kOwnGuid));
    CHECK_FALSE(is_taken(bench, packet));
}

// IBA 9.6.1.2.3, 10.5.2
TEST_CASE("a multicast packet has a multicast LID, a multicast GID and QPN 0xffffff") {
    constexpr uint16_t kMlid = 0xc001;
    constexpr uint32_t kGroupQpn = 0xffffff;
    PortBench bench;
    bench.bring_up();
    ib::Gid mgid{};
    mgid.bytes[0] = 0xff;
    const ib::Gid own = ib::Gid::from(ib::kDefaultGidPrefix, kOwnGuid);
    const auto taken = [&](uint16_t dlid, uint32_t dest_qp, std::optional<ib::Gid> dgid) {
        MadPacket packet = datagram(dlid, dest_qp);
        if (dgid) {
            packet.grh = grh_to(*dgid);
        }
        return is_taken(bench, packet);
    };
    CHECK(taken(kMlid, kGroupQpn, mgid));
    CHECK_FALSE(taken(kMlid, kGroupQpn, own));
    CHECK_FALSE(taken(kMlid, kGroupQpn, std::nullopt));
    CHECK_FALSE(taken(kMlid, 77, mgid));
    CHECK_FALSE(taken(kMlid, 77, own));
    CHECK_FALSE(taken(kMlid, 77, std::nullopt));
    CHECK_FALSE(taken(PortBench::kLid, kGroupQpn, mgid));
    CHECK_FALSE(taken(PortBench::kLid, kGroupQpn, std::nullopt));
    CHECK_FALSE(taken(PortBench::kLid, 77, mgid));
}

TEST_CASE("a turn of a stream ends early when multicasts have been copied to many QPs") {
    constexpr size_t kSent = 40;
    PortBench bench;
    bench.bring_up();
    const auto take_output = [&] {
        for (size_t i = 0; i < kSent; ++i) {
            REQUIRE(::pib::test::send(*bench.peer, data_to(PortBench::kLid, 0, 256)));
        }
        const Bytes out(bench.peer->output().begin(), bench.peer->output().end());
        bench.peer->consume_output(out.size());
        return out;
    };
    const Bytes bytes = take_output();
    const Bytes more = take_output();
    bench.host.woken = false;
    SECTION("packets without copies: one turn takes all") {
        bench.port().link_rx(bytes);
        CHECK(bench.client.packets.size() == kSent);
        CHECK_FALSE(bench.port().link_is_behind());
        CHECK_FALSE(bench.host.woken);
    }
    SECTION("copies that fill a turn: the rest waits for run(), and no packet is lost") {
        bench.client.copies = 128 * 1024;
        bench.port().link_rx(bytes);
        size_t before = bench.client.packets.size();
        CHECK(before < kSent / 2);
        CHECK(bench.port().link_is_behind());
        bench.port().link_rx(more);  // the bytes come after those that wait
        while (bench.port().link_is_behind()) {
            CHECK(std::exchange(bench.host.woken, false));
            before = bench.client.packets.size();
            (void)bench.ports.run();
            CHECK(bench.client.packets.size() > before);
            CHECK(bench.client.packets.size() < before + kSent / 2);
        }
        CHECK(bench.client.packets.size() == 2 * kSent);
        CHECK_FALSE(bench.host.woken);
    }
    SECTION("a connection that ends takes its bytes with it") {
        bench.client.copies = 128 * 1024;
        bench.port().link_rx(bytes);
        const size_t before = bench.client.packets.size();
        bench.disconnect();
        CHECK_FALSE(bench.port().link_is_behind());
        (void)bench.ports.run();
        CHECK(bench.client.packets.size() == before);
    }
}

// A looped packet may overrun a CQ, whose QPs the device then looks for among all QPs.
TEST_CASE("a turn of a port ends early when packets to itself have caused much work") {
    constexpr size_t kSent = 60;
    PortBench bench;
    bench.bring_up();
    for (size_t i = 0; i < kSent; ++i) {
        REQUIRE(bench.send_data(PortBench::kLid));
    }
    SECTION("packets without other work: one turn takes all") {
        CHECK_FALSE(bench.ports.run());
        CHECK(bench.client.packets.size() == kSent);
    }
    SECTION("packets whose work fills a turn: each turn takes one, and no packet is lost") {
        bench.client.copies = 128 * 1024;
        for (size_t taken = 1; taken <= kSent; ++taken) {
            CHECK(bench.ports.run() == (taken < kSent));
            CHECK(bench.client.packets.size() == taken);
        }
        CHECK(bench.client.take_copied() == 0);
    }
}
