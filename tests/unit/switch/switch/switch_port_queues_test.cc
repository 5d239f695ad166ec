// SPDX-License-Identifier: GPL-2.0-or-later
// Credits, lifetimes, and packets whose link goes down.
#include <catch2/catch_test_macros.hpp>

#include "test_fabric.h"

namespace pib::test {
namespace {

using ib::Counter;
namespace pi = ib::port_info;

constexpr uint64_t kMs = 1'000'000;

// Fills the buffers between the first adapter and the second, which releases no buffer.
unsigned fill(TestFabric& fabric, unsigned vl = 0) {
    fabric.hca(1).hold = true;
    unsigned sent = 0;
    while (fabric.hca(0).send_packet(
        make_packet(vl, TestFabric::lid_of(1), 4096, 1, static_cast<uint8_t>(vl)))) {
        ++sent;
        fabric.settle();
    }
    return sent;
}

}  // namespace

TEST_CASE("queues: a neighbour without credits stops only its own senders") {
    TestFabric fabric(3);
    fabric.make_active();
    const unsigned sent = fill(fabric);
    CHECK(sent > 20);
    CHECK(fabric.hca(1).packets.size() == 1024 / 65);
    CHECK(fabric.sw.port(2).queues().size() == sent - fabric.hca(1).packets.size());
    CHECK(fabric.hca(0).own_end().sender().credits(0) < 65);

    const Bytes other = make_packet(0, 3, 4096, 2);
    for (unsigned i = 0; i < 100; ++i) {
        REQUIRE(fabric.hca(1).send_packet(other));
        fabric.settle();
    }
    CHECK(fabric.hca(2).packets.size() == 100);

    while (fabric.hca(1).packets.size() < sent) {
        const auto before = fabric.hca(1).packets.size();
        fabric.hca(1).release_all();
        fabric.settle();
        REQUIRE(fabric.hca(1).packets.size() > before);
    }
    CHECK(fabric.sw.held_packets() == 0);
    CHECK(fabric.count(2, Counter::kPortXmitDiscards) == 0);
}

TEST_CASE("queues: packets beyond the credits are dropped, counted and reported to the SM") {
    TestFabric fabric(2);
    fabric.make_active();
    REQUIRE(fabric.set_port_info(1, {{pi::kOverrunErrors, 3}}) == 0);
    REQUIRE(fabric.set_port_info(2, {{pi::kHoqLife, 20}}) == 0);  // no limit
    fill(fabric);
    const Bytes frame = packet_frame(make_packet(0, TestFabric::lid_of(1), 4096));
    fabric::SwitchEndpoint& link = *fabric.hca(0).sw_link;
    const auto overrun = [&](unsigned packets) {
        for (unsigned i = 0; i < packets; ++i) {
            std::ranges::copy(frame, link.input_space().begin());
            REQUIRE(link.feed_input(frame.size()));
        }
    };
    overrun(2000);  // these also fill free buffer that was too small to grant
    const auto held = fabric.sw.held_packets();
    const auto before = fabric.count(1, Counter::kPortBufferOverrunErrors);
    CHECK(before > 100);
    for (unsigned period = 1; period <= 3; ++period) {
        fabric.advance(period == 1 ? 2 * ib::kFlowControlPeriodNs : ib::kFlowControlPeriodNs);
        CHECK(fabric.count(1, Counter::kExcessiveBufferOverrunErrors) == 0);
        overrun(10);
    }
    CHECK(fabric.sw.held_packets() == held);
    CHECK(fabric.count(1, Counter::kPortBufferOverrunErrors) == before + 30);
    CHECK(fabric.count(1, Counter::kPortRcvErrors) == before + 30);
    CHECK(fabric.count(1, Counter::kExcessiveBufferOverrunErrors) == 1);
    fabric.advance(5'000 * kMs);
    const auto traps = traps_of(fabric.hca(0), ib::trap::kExcessiveBufferOverrun);
    REQUIRE_FALSE(traps.empty());
    CHECK(ib::get(traps[0].smp_data(), ib::notice_details::kLid) == TestFabric::kSwitchLid);
    CHECK(ib::get(traps[0].smp_data(), ib::notice_details::kPortNumber) == 1);
}

TEST_CASE("queues: VL15 and other VLs pass a blocked VL") {
    TestFabric fabric(2);
    fabric.make_active();
    fill(fabric);
    CHECK(fabric.query(ib::Method::kGet, ib::attr::kNodeInfo, 0, {}, {2}));
    fabric.hca(1).hold = false;
    const auto before = fabric.hca(1).packets.size();
    REQUIRE(fabric.hca(0).send_packet(make_packet(1, 2, 1024, 1, 1)));
    fabric.settle();
    CHECK(fabric.hca(1).packets.size() == before + 1);
}

TEST_CASE("queues: time without credits counts in PortXmitWait and in the VL's PortVLXmitWait") {
    TestFabric fabric(2);
    fabric.make_active();
    fill(fabric);
    const auto before = fabric.count(2, Counter::kPortXmitWait);
    fabric.advance(50 * kMs);
    const auto ticks = 50 * kMs / ib::kPmaTickNs;
    CHECK(fabric.count(2, Counter::kPortXmitWait) - before == ticks);
    CHECK(fabric.count(2, ib::counter_of(Counter::kPortVlXmitWait, 0)) >= ticks);
    // Parts of a tick add up, and count once.
    for (unsigned i = 0; i < 4; ++i) {
        fabric.advance(ib::kPmaTickNs * 3 / 4);
        (void)fabric.count(2, Counter::kPortXmitWait);
    }
    CHECK(fabric.count(2, Counter::kPortXmitWait) - before == ticks + 3);
    CHECK(fabric.count(2, ib::counter_of(Counter::kPortVlXmitWait, 1)) == 0);
}

TEST_CASE("queues: the head-of-queue lifetime empties a stuck queue") {
    TestFabric fabric(2);
    fabric.make_active();
    fabric.set_port_info(2, {{pi::kHoqLife, 12}, {pi::kVlStallCount, 3}});  // 16.8 ms
    fill(fabric);
    const auto queued = fabric.sw.port(2).queues().size();
    REQUIRE(queued > 4);
    CHECK(fabric.sw.next_deadline() <= fabric.now_ns() + 17 * kMs);
    fabric.advance(17 * kMs);
    CHECK(fabric.sw.port(2).queues().size() == queued - 1);
    fabric.advance(17 * kMs);
    fabric.advance(17 * kMs);  // the third in a row: the VL stalls and drops its queue
    CHECK(fabric.sw.port(2).queues().size() == 0);
    CHECK(fabric.count(2, Counter::kPortSwHoqLifetimeLimitDiscards) == queued);
    CHECK(fabric.count(2, Counter::kPortXmitDiscards) == queued);
    CHECK(fabric.sw.held_packets() == 0);
    CHECK(fabric.hca(0).own_end().sender().credits(0) > 1024);
    fabric.advance(200 * kMs);
    fabric.hca(1).release_all();
    fabric.settle();
    const auto before = fabric.hca(1).packets.size();
    REQUIRE(fabric.hca(0).send_packet(make_packet(0, 2, 64, 1)));
    fabric.settle();
    CHECK(fabric.hca(1).packets.size() == before + 1);
}

TEST_CASE("queues: a packet that leaves between discards keeps the VL from stalling") {
    TestFabric fabric(2);
    fabric.make_active();
    fabric.set_port_info(2, {{pi::kHoqLife, 12}, {pi::kVlStallCount, 3}});  // 16.8 ms
    fill(fabric);
    fabric.advance(17 * kMs);
    fabric.advance(17 * kMs);
    auto& queues = fabric.sw.port(2).queues();
    const auto before = queues.size();
    REQUIRE(before > 3);
    fabric.hca(1).release_all();
    fabric.settle();
    const auto after = queues.size();
    REQUIRE(after < before);
    REQUIRE(after > 2);
    fabric.advance(17 * kMs);
    CHECK(queues.size() == after - 1);  // the first in a row again, not the third
    fabric.advance(17 * kMs);
    CHECK(queues.size() == after - 2);
    fabric.advance(17 * kMs);
    CHECK(queues.size() == 0);
}

TEST_CASE("queues: a stalled VL discards packets although the neighbour has room again") {
    TestFabric fabric(2);
    fabric.make_active();
    fabric.set_port_info(2, {{pi::kHoqLife, 12}, {pi::kVlStallCount, 1}});  // 16.8 ms
    fill(fabric);
    fabric.advance(17 * kMs);
    auto& queues = fabric.sw.port(2).queues();
    REQUIRE(queues.size() == 0);
    fabric.hca(1).hold = false;
    fabric.hca(1).release_all();
    fabric.settle();
    const auto received = fabric.hca(1).packets.size();
    const auto discarded = fabric.count(2, Counter::kPortSwHoqLifetimeLimitDiscards);
    const auto send = [&] {
        REQUIRE(fabric.hca(0).send_packet(make_packet(0, TestFabric::lid_of(1), 64, 1)));
        fabric.settle();
        fabric.advance(kMs);
    };
    send();
    send();
    CHECK(fabric.hca(1).packets.size() == received);
    CHECK(fabric.count(2, Counter::kPortSwHoqLifetimeLimitDiscards) == discarded + 2);
    // A packet that arrives just before the stall ends is sent when it ends.
    fabric.advance(131 * kMs);
    REQUIRE(fabric.hca(0).send_packet(make_packet(0, TestFabric::lid_of(1), 64, 1)));
    fabric.hca(0).carry();
    REQUIRE(queues.size() == 1);
    fabric.advance(3 * kMs);
    CHECK(fabric.hca(1).packets.size() == received + 1);
    send();
    CHECK(fabric.hca(1).packets.size() == received + 2);
    CHECK(queues.size() == 0);
}

// The neighbour's buffer, whose packets stalled the VL, is empty after a training.
TEST_CASE("queues: a stalled VL sends again when its link has gone down and come up") {
    TestFabric fabric(2);
    fabric.make_active();
    fabric.set_port_info(2, {{pi::kHoqLife, 12}, {pi::kVlStallCount, 1}});  // 16.8 ms
    fill(fabric);
    fabric.advance(17 * kMs);
    REQUIRE(fabric.sw.port(2).queues().size() == 0);  // stalled for 8 times 16.8 ms
    const auto guid = fabric.hca(1).node.node_guid.value();
    fabric.hca(1).disconnect();
    FakeHca& again = fabric.add_hca(guid);
    REQUIRE(again.port() == 2);
    for (const auto state : {ib::PortState::kArmed, ib::PortState::kActive}) {
        REQUIRE(fabric.set_port_info(2, {{pi::kPortState, static_cast<unsigned>(state)}}) == 0);
    }
    const auto discards = fabric.count(2, Counter::kPortXmitDiscards);
    REQUIRE(fabric.hca(0).send_packet(make_packet(0, TestFabric::lid_of(1), 64, 1)));
    fabric.settle();
    CHECK(again.packets.size() == 1);
    CHECK(fabric.count(2, Counter::kPortXmitDiscards) == discards);
}

TEST_CASE("queues: discards with packets sent between them do not stall a VL") {
    TestFabric fabric(2);
    fabric.make_active();
    fabric.set_port_info(2, {{pi::kHoqLife, 12}, {pi::kVlStallCount, 2}});  // 16.8 ms
    for (unsigned round = 0; round < 3; ++round) {
        fill(fabric);
        fabric.advance(17 * kMs);
        while (fabric.sw.port(2).queues().size() > 0) {
            fabric.hca(1).release_all();
            fabric.settle();
        }
        fabric.hca(1).release_all();
        fabric.hca(1).hold = false;
        fabric.settle();
        const auto received = fabric.hca(1).packets.size();
        REQUIRE(fabric.hca(0).send_packet(make_packet(0, TestFabric::lid_of(1), 64, 1)));
        fabric.settle();
        CHECK(fabric.hca(1).packets.size() == received + 1);
    }
}

TEST_CASE("queues: a packet stays in the switch no longer than LifeTimeValue") {
    TestFabric fabric(2);
    fabric.make_active();
    fabric.set_port_info(2, {{pi::kHoqLife, 31}});
    fill(fabric);
    const auto queued = fabric.sw.port(2).queues().size();
    REQUIRE(queued > 0);
    fabric.advance(900 * kMs);
    CHECK(fabric.sw.port(2).queues().size() == queued);
    fabric.advance(200 * kMs);  // 2^18 times 4.096 us
    CHECK(fabric.sw.port(2).queues().size() == 0);
    CHECK(fabric.count(2, Counter::kPortSwLifetimeLimitDiscards) == queued);
}

TEST_CASE("queues: a peer that does not read stops only its own port") {
    TestFabric fabric(3);
    fabric.make_active();
    fabric.hca(1).read_output = false;
    for (unsigned i = 0; i < 2000; ++i) {
        fabric.hca(0).send_packet(make_packet(0, 2, 4096, 1));
        fabric.settle();
    }
    CHECK(fabric.sw.held_packets() * 65 <= fabric.sw.config().receive_blocks);
    REQUIRE(fabric.hca(2).send_packet(make_packet(0, 1, 64, 3)));
    fabric.settle();
    CHECK(fabric.hca(0).packets.size() == 1);
    CHECK(fabric.query(ib::Method::kGet, ib::attr::kNodeInfo, 0, {}, {3}));
}

TEST_CASE("queues: a link that goes down discards its waiting packets and frees their buffers") {
    TestFabric fabric(2);
    fabric.make_active();
    fill(fabric);
    const auto queued = fabric.sw.port(2).queues().size();
    fabric.hca(1).disconnect();
    fabric.settle();
    CHECK(fabric.sw.port(2).queues().size() == 0);
    CHECK(fabric.sw.held_packets() == 0);
    CHECK(fabric.count(2, Counter::kPortInactiveDiscards) == queued);
    CHECK(fabric.hca(0).own_end().sender().credits(0) >= 1024);
}

TEST_CASE("queues: the sender of waiting packets may disconnect and connect again") {
    TestFabric fabric(2);
    fabric.make_active();
    fill(fabric);
    const auto guid = fabric.hca(0).node.node_guid.value();
    fabric.hca(0).disconnect();
    auto& again = fabric.add_hca(guid);
    CHECK(again.port() == 1);
    const auto credits = again.own_end().sender().credits(0);
    while (fabric.sw.held_packets() != 0) {
        fabric.hca(1).release_all();
        fabric.settle();
    }
    CHECK(again.own_end().sender().credits(0) ==
          credits);  // credits of the old link do not come back here
}

TEST_CASE("queues: packets of a link that is gone free no buffer of the new one") {
    constexpr unsigned kReceiver = 2;
    TestFabric fabric(3);
    fabric.make_active();
    fabric.hca(kReceiver).hold = true;
    const Bytes packet = make_packet(0, TestFabric::lid_of(kReceiver), 4096, TestFabric::lid_of(1));
    const auto fill_from = [&](FakeHca& sender) {
        while (sender.send_packet(packet)) {
            fabric.settle();
        }
        return sender.own_end().sender().credits(0);
    };
    (void)fill_from(fabric.hca(1));
    const auto old = fabric.sw.held_packets();
    const auto guid = fabric.hca(1).node.node_guid.value();
    fabric.hca(1).disconnect();
    auto& again = fabric.add_hca(guid);
    REQUIRE(again.port() == 2);
    for (const auto state : {ib::PortState::kArmed, ib::PortState::kActive}) {
        REQUIRE(fabric.set_port_info(2, {{pi::kPortState, static_cast<unsigned>(state)}}) == 0);
    }
    const auto credits = fill_from(again);
    const auto all = fabric.sw.held_packets();
    REQUIRE(all > old);
    for (unsigned turn = 0; turn < 2; ++turn) {
        fabric.hca(kReceiver).release_all();
        fabric.settle();
    }
    REQUIRE(fabric.sw.held_packets() < all);
    REQUIRE(fabric.sw.held_packets() > all - old);  // only packets of the old link have left
    CHECK(again.own_end().sender().credits(0) == credits);
}

TEST_CASE("queues: mixed traffic loses and reorders no packet") {
    TestFabric fabric(4);
    fabric.make_active();
    uint32_t random = 12345;
    std::vector<unsigned> sent(4);
    for (unsigned round = 0; round < 3000; ++round) {
        random = random * 1664525 + 1013904223;
        const unsigned from = random >> 30;
        const unsigned to = random >> 28 & 3;
        const unsigned vl = random >> 27 & 1;
        if (from != to) {
            Bytes packet = make_packet(vl, TestFabric::lid_of(to), 4 * (random >> 17 & 0x3FF),
                                       TestFabric::lid_of(from), static_cast<uint8_t>(vl));
            ib::store_be(&packet[16], uint32_t{sent[to]} & 0xFFFFFF);  // PSN
            sent[to] += fabric.hca(from).send_packet(packet) ? 1 : 0;
        }
        if ((random >> 10 & 7) == 0) {
            fabric.settle();
        }
        FakeHca& any = fabric.hca(random >> 8 & 3);
        any.hold = (random & 1) != 0;
        if (!any.hold) {
            any.release_all();
        }
    }
    for (unsigned i = 0; i < 4; ++i) {
        fabric.hca(i).hold = false;
    }
    for (unsigned turn = 0; turn < 200; ++turn) {
        for (unsigned i = 0; i < 4; ++i) {
            fabric.hca(i).release_all();
        }
        fabric.settle();
    }
    for (unsigned i = 0; i < 4; ++i) {
        CHECK(fabric.hca(i).packets.size() == sent[i]);
        std::array<std::array<int64_t, 2>, 5> last;
        for (auto& row : last) {
            row = {-1, -1};
        }
        for (const Bytes& packet : fabric.hca(i).packets) {
            const unsigned vl = packet[0] >> 4;
            const unsigned from = packet[7];
            const auto psn = static_cast<int64_t>(ib::load_be24(&packet[17]));
            CHECK(psn > last[from][vl]);
            last[from][vl] = psn;
        }
    }
    CHECK(fabric.sw.held_packets() == 0);
}

}  // namespace pib::test
