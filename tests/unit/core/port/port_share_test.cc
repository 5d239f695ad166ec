// SPDX-License-Identifier: GPL-2.0-or-later
// How a port shares its link: lanes, room, VL arbitration, and static rates. The tests count
// packets and bytes, and move the host's clock.
#include "ib/mgmt/link_rate.h"
#include "port_bench.h"

using namespace pib;
using namespace pib::hca;
using namespace pib::hca::test;

namespace {

constexpr uint16_t kFar = 0x20;
constexpr uint8_t kRate2_5 = 2;
constexpr uint32_t kPacketBytes = 2048;
constexpr uint64_t kBurstBytes = Pacer::kBurstNs / 4;  // 2 Gb/s: a byte in 4 ns

TxRequest to(uint16_t dlid, uint8_t sl = 0, uint8_t static_rate = 0,
             uint32_t bytes = kPacketBytes) {
    return {.dlid = dlid, .sl = sl, .vl15 = false, .bytes = bytes, .static_rate = static_rate};
}

// LRH, BTH and DETH are 28 bytes.
bool send(PortBench& bench, const TxRequest& request) {
    return bench.send_data(request.dlid, request.bytes - 28, request.sl, request.static_rate);
}

unsigned send_all(PortBench& bench, const TxRequest& request) {
    unsigned sent = 0;
    while (send(bench, request)) {
        REQUIRE(++sent < 100'000);
        bench.pump();
    }
    return sent;
}

}  // namespace

TEST_CASE("rate codes have the specification's values, and the link has its own rate") {
    CHECK(ib::data_mbps(0) == 0);
    CHECK(ib::data_mbps(1) == 0);
    CHECK(ib::data_mbps(2) == 2'000);
    CHECK(ib::data_mbps(7) == 32'000);
    CHECK(ib::data_mbps(16) == 100'000);
    CHECK(ib::data_mbps(22) == 600'000);
    CHECK(ib::data_mbps(23) == 0);
    ib::PortAttrs port = ib::make_port({});
    REQUIRE(ib::port_link_up(port, ib::link_width::k4x, ib::link_speed::kQdr, 0).any());
    CHECK(ib::active_data_mbps(port) == ib::data_mbps(7));
    ib::port_link_down(port);
    REQUIRE(ib::port_link_up(port, ib::link_width::k1x, 0, ib::link_speed_ext::kEdr).any());
    CHECK(ib::active_data_mbps(port) == ib::data_mbps(15));
}

TEST_CASE("a slower static rate admits one burst, then the path's rate") {
    PortBench bench;
    bench.bring_up(100'000);
    const uint64_t burst = send_all(bench, to(kFar, 0, kRate2_5)) * uint64_t{kPacketBytes};
    CHECK(burst >= kBurstBytes);
    CHECK(burst <= kBurstBytes + 2 * kPacketBytes);
    CHECK(bench.counter(ib::Counter::kPortXmitWait) == 0);  // the rate delays it, not credits

    uint64_t bytes = 0;
    const uint64_t start = bench.host.clock_ns;
    for (unsigned turn = 0; turn < 30; ++turn) {
        const unsigned ready = bench.client.ready;
        bench.advance(bench.ports.next_deadline() - bench.host.clock_ns);
        CHECK(bench.client.ready == ready + 1);
        bytes += send_all(bench, to(kFar, 0, kRate2_5)) * uint64_t{kPacketBytes};
    }
    const uint64_t allowed = (bench.host.clock_ns - start) / 4;  // 2 Gb/s: a byte in 4 ns
    CHECK(bytes <= allowed + kPacketBytes);
    CHECK(bytes >= allowed - kBurstBytes);
}

TEST_CASE("a path that was idle admits no more than one burst") {
    PortBench bench;
    bench.bring_up(100'000);
    REQUIRE(send_all(bench, to(kFar, 0, kRate2_5)) != 0);
    bench.advance(20 * Pacer::kBurstNs);
    const uint64_t burst = send_all(bench, to(kFar, 0, kRate2_5)) * uint64_t{kPacketBytes};
    CHECK(burst >= kBurstBytes);
    CHECK(burst <= kBurstBytes + 2 * kPacketBytes);
}

TEST_CASE("a static rate limits only its destination") {
    PortBench bench;
    bench.bring_up(100'000);
    REQUIRE(send_all(bench, to(kFar, 0, kRate2_5)) != 0);
    CHECK(send(bench, to(kFar + 1, 0, kRate2_5)));
    CHECK(send(bench, to(kFar + 1)));
    CHECK(send(bench, to(PortBench::kLid, 0, kRate2_5)));  // loopback: does not use the link
    CHECK_FALSE(send(bench, to(kFar, 0, kRate2_5)));
    CHECK(send(bench, to(kFar)));
}

TEST_CASE("a static rate at or above the link's changes nothing") {
    PortBench bench;
    bench.bring_up(100'000);
    const uint32_t link = ib::active_data_mbps(bench.attrs());
    for (uint8_t code = 2; code <= ib::kMaxRateCode; ++code) {
        if (ib::data_mbps(code) >= link) {
            for (unsigned i = 0; i < 100; ++i) {
                REQUIRE(send(bench, to(kFar, 0, code)));
                bench.pump();
            }
        }
    }
    CHECK(bench.ports.next_deadline() == kNever);
}

TEST_CASE("a packet's lane is the VL of its SL, or the loopback lane") {
    PortBench bench;
    CHECK(bench.port().lane(to(kFar)) == kLoopbackLane);  // to be discarded
    bench.bring_up();
    CHECK(bench.port().lane(to(kFar, 0)) == 0);
    CHECK(bench.port().lane(to(kFar, 3)) == 3);
    CHECK(bench.port().lane(to(PortBench::kLid, 3)) == kLoopbackLane);
    CHECK(bench.port().lane({.dlid = 0xffff, .sl = 0, .vl15 = true, .bytes = 0}) == kVl15Lane);
}

TEST_CASE("packets sent with a grant count against the VL's weight, a burst packet by packet") {
    PortBench bench;
    bench.bring_up(100'000);
    bench.attrs().vl_arb_low = {{1, 100}, {2, 100}};  // 6400 bytes: 3 packets and a little
    bench.attrs().vl_arb_high.clear();
    std::array<unsigned, 4> sent{};
    for (unsigned i = 0; i < 800; ++i) {
        const VlGrant grant = bench.port().arbitrate(0b0110);
        CHECK(grant.bytes <= 6400);
        REQUIRE(send(bench, to(kFar, grant.vl)));
        bench.port().end_grant();
        REQUIRE(send(bench, to(kFar, 1)));  // not arbitrated: no other lane waits
        bench.pump();
        ++sent[grant.vl];
    }
    CHECK(sent[1] == 400);
    CHECK(sent[2] == 400);
}

TEST_CASE("a link without room for a VL's packet accepts no other VL's packet first") {
    PortBench bench;
    bench.bring_up(100'000);
    unsigned queued = 0;
    while (send(bench, to(kFar, 1, 0, 4096))) {  // the peer does not read
        REQUIRE(++queued < 1000);
    }
    CHECK_FALSE(send(bench, to(kFar, 2, 0, 64)));
    CHECK(bench.client.ready == 0);
    bench.pump();
    CHECK(bench.client.ready == 1);  // one call for both lanes
    CHECK(send(bench, to(kFar, 2, 0, 64)));
    CHECK(send(bench, to(kFar, 1, 0, 4096)));
}

TEST_CASE("a VL that waits for credits stops no other VL") {
    const TxRequest small = to(kFar, 2, 0, 64);
    PortBench like_it;
    like_it.bring_up(100'000);
    unsigned room = 0;
    while (send(like_it, small)) {
        REQUIRE(++room < 100'000);
    }

    PortBench bench;
    bench.bring_up(100'000, 160);  // VL 1: 160 blocks; a packet of 64 bytes takes 2
    bench.peer_events.hold = true;
    for (unsigned i = 0; i < room - 52; ++i) {
        REQUIRE(send(bench, small));
    }
    CHECK_FALSE(send(bench, to(kFar, 1, 0, 4096)));  // has credit, and no room
    for (unsigned i = 0; i < 50; ++i) {
        REQUIRE(send(bench, to(kFar, 1, 0, 64)));
    }
    CHECK_FALSE(send(bench, small));
    bench.pump();
    CHECK(bench.client.ready == 1);
    CHECK_FALSE(send(bench, to(kFar, 1, 0, 4096)));  // has room, and no credit
    CHECK(send(bench, small));
}
