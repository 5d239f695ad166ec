// SPDX-License-Identifier: GPL-2.0-or-later
// Bursts of packets over a link in shared memory: negotiation, credits and room, and the same
// packets as without bursts.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "burst_message.h"
#include "shared_memory.h"

namespace pib::test {
namespace {

constexpr uint32_t kBoth = link::kFeatureSharedMemory | link::kFeatureBursts;

struct Recorder : LinkRecorder {
    std::optional<link::LinkRings> rings;
    std::optional<link::LinkRings> link_rings() override { return rings; }
    uint32_t link_burst(ib::Burst& burst, ib::Placement& payload) override {
        if (burst.is_single()) {
            const uint32_t one = LinkRecorder::link_burst(burst, payload);
            if (packets.size() == retrains_after) {
                endpoint->training().retrain();
            }
            return one;
        }
        ++bursts;
        if (burst.psn(0).value() != takes_from) {  // send_burst() starts with PSN 0
            return 0;
        }
        taken += takes;
        endpoint->release(burst.lrh().vl.value(), link::burst_blocks(burst, 0, takes));
        return takes;
    }
    unsigned bursts = 0;        // bursts of several packets
    size_t retrains_after = 0;  // single packets; 0: never
    uint32_t takes_from = 0, takes = 0;
    uint32_t taken = 0;
};

// Two ends that share memory. Each has its own features.
struct BurstPair {
    link::SharedMemory memory = link::SharedMemory::create(20).value();
    Recorder hca_events, switch_events;
    link::LinkEndpoint hca, sw;

    explicit BurstPair(uint32_t asked = kBoth, uint32_t granted = kBoth, uint32_t blocks = 4096)
        : hca(hello(asked), make_buffers(blocks), hca_events),
          sw(make_buffers(blocks), switch_events) {
        hca_events.endpoint = &hca;
        switch_events.endpoint = &sw;
        hca_events.rings = {.out = memory.ring(0), .in = memory.ring(1)};
        switch_events.rings = {.out = memory.ring(1), .in = memory.ring(0)};
        switch_events.answer = link::Welcome{.features = granted, .port_number = 1};
    }
    static link::Hello hello(uint32_t features) {
        auto hello = make_hello(0x100);
        hello.features = features;
        return hello;
    }
    std::expected<void, link::LinkFailure> handshake() {
        hca.training().set_parameters(make_parameters());
        sw.training().set_parameters(make_parameters());
        const Bytes asked(hca.output().begin(), hca.output().end());
        hca.consume_output(asked.size());
        REQUIRE(feed(sw, asked));
        const Bytes answer(sw.output().begin(), sw.output().end());
        return feed(hca, answer);
    }
    void bring_up() {
        REQUIRE(handshake());
        for (unsigned i = 0; i < 4; ++i) {
            turn(hca);
            turn(sw);
        }
        REQUIRE(hca.is_up());
    }
    static void turn(link::LinkEndpoint& end) {
        REQUIRE(end.receive(SIZE_MAX));
        (void)end.channel().publish();
    }
};

}  // namespace

TEST_CASE("bursts: a burst has the packets and the credits of single packets") {
    // Blocks of eight packets with 1024 bytes each and of one with 5 bytes, all with headers.
    constexpr uint32_t kBurstBlocks = 8 * 17 + 1;
    BurstPair with, without;
    with.bring_up();
    without.bring_up();
    REQUIRE(with.hca.agreed().bursts);
    const uint32_t credits = with.hca.sender().credits(0);
    REQUIRE(send_burst(with.hca, 9));
    REQUIRE(send_singly(without.hca, 9));
    CHECK(with.hca.sender().credits(0) == credits - kBurstBlocks);
    CHECK(with.hca.sender().credits(0) == without.hca.sender().credits(0));
    for (BurstPair* pair : {&with, &without}) {
        pair->switch_events.hold = true;
        (void)pair->hca.channel().publish();
        BurstPair::turn(pair->sw);
    }
    CHECK(with.switch_events.bursts == 8);  // one before each packet but the last
    CHECK(with.switch_events.packets == without.switch_events.packets);
    CHECK(with.switch_events.held == without.switch_events.held);
}

TEST_CASE("bursts: packets that the port takes as a burst are not delivered again") {
    BurstPair pair;
    pair.bring_up();
    pair.switch_events.takes_from = 1;
    pair.switch_events.takes = 6;
    for (unsigned i = 0; i < 1000; ++i) {  // many times the receive buffer
        REQUIRE(send_burst(pair.hca, 9));
        (void)pair.hca.channel().publish();
        BurstPair::turn(pair.sw);
        BurstPair::turn(pair.hca);
    }
    CHECK(pair.switch_events.taken == 6000);
    CHECK(pair.switch_events.packets.size() == 3000);
}

TEST_CASE("bursts: credits and room limit the packets of a burst") {
    // A packet of 1024 bytes and its headers take 17 blocks.
    BurstPair pair(kBoth, kBoth, 200);
    pair.bring_up();
    pair.switch_events.hold = true;
    const auto limit_of = [](BurstPair& of, unsigned vl) {
        return of.hca.begin({.vl = vl, .longest = 28 + 16 + kMtu, .packets = 1000, .mtu = kMtu})
            .packets;
    };
    const uint32_t limit = limit_of(pair, 0);
    CHECK(limit == 11);
    CHECK_FALSE(send_burst(pair.hca, limit + 1));
    CHECK(send_burst(pair.hca, limit));
    CHECK(limit_of(pair, 0) == 1);
    CHECK(limit_of(pair, link::kVl15) == 1);
    (void)pair.hca.channel().publish();
    BurstPair::turn(pair.sw);
    BurstPair::turn(pair.hca);
    CHECK_FALSE(send_burst(pair.hca, 2));
    pair.switch_events.release_all();
    (void)pair.sw.channel().publish();
    BurstPair::turn(pair.hca);
    CHECK(send_burst(pair.hca, 2));

    BurstPair full(kBoth, kBoth, 1u << 20);
    full.bring_up();
    while (send_burst(full.hca, 60)) {
    }
    const uint32_t left = limit_of(full, 0);
    CHECK(left == 43);
    CHECK(send_burst(full.hca, left));
    CHECK(full.hca.sender().can_send(link::kVl15, 256 + 28));
}

TEST_CASE("bursts: packets are sent singly unless both sides agreed on bursts") {
    const uint32_t memory = link::kFeatureSharedMemory;
    BurstPair not_granted(kBoth, memory);
    not_granted.bring_up();
    CHECK_FALSE(not_granted.hca.agreed().bursts);
    CHECK_FALSE(send_burst(not_granted.hca, 2));
    BurstPair not_asked(memory, kBoth);
    const auto answered = not_asked.handshake();
    REQUIRE_FALSE(answered);
    CHECK(answered.error().error == link::LinkError::kUnexpectedFrame);
}

TEST_CASE("bursts: a burst ends a connection that has not agreed on bursts") {
    BurstPair pair(kBoth, link::kFeatureSharedMemory);
    pair.bring_up();
    BurstPair other;
    other.bring_up();
    REQUIRE(send_burst(other.hca, 4));
    const auto from = other.memory.ring(0), to = pair.memory.ring(0);
    const uint32_t at = to.control->produced;
    // Bytes that the other side has written and not published yet.
    std::memcpy(to.bytes + at % to.size, from.bytes + from.control->produced % from.size, 8192);
    to.control->produced = at + 8192;
    const auto received = pair.sw.receive(SIZE_MAX);
    REQUIRE_FALSE(received);
    CHECK(received.error().error == link::LinkError::kUnexpectedFrame);
}

TEST_CASE("bursts: packets after a retraining are dropped and cost no credit") {
    constexpr uint32_t kBlocks = 200;
    BurstPair pair(kBoth, kBoth, kBlocks);
    pair.bring_up();
    pair.switch_events.retrains_after = 3;
    REQUIRE(send_burst(pair.hca, 8));
    (void)pair.hca.channel().publish();
    for (unsigned i = 0; i < 4; ++i) {
        BurstPair::turn(pair.sw);
        BurstPair::turn(pair.hca);
    }
    CHECK(pair.switch_events.packets.size() == 3);
    CHECK(pair.hca.is_up());
    CHECK(pair.hca.sender().credits(0) == kBlocks);
}

TEST_CASE("bursts: each packet beyond the credits is an overrun, and VL 15 has no bursts") {
    BurstPair pair(kBoth, kBoth, 200);
    pair.bring_up();
    REQUIRE(send_burst(pair.hca, 8));
    const auto ring = pair.memory.ring(0);
    uint8_t* body = ring.bytes + ring.control->produced % ring.size + 8;
    SECTION("a VL without buffer") {
        ib::set_burst_vl({body, ib::kBurstPayload}, 8, 7);
        (void)pair.hca.channel().publish();
        REQUIRE(pair.sw.receive(SIZE_MAX));
        CHECK(pair.switch_events.faults == std::vector(8, link::PacketFault::kOverrun));
        CHECK(pair.switch_events.packets.empty());
        CHECK(pair.sw.is_up());
    }
    SECTION("VL 15") {
        ib::set_burst_vl({body, ib::kBurstPayload}, 8, 15);
        (void)pair.hca.channel().publish();
        const auto received = pair.sw.receive(SIZE_MAX);
        REQUIRE_FALSE(received);
        CHECK(received.error().error == link::LinkError::kMalformedFrame);
    }
}

}  // namespace pib::test
