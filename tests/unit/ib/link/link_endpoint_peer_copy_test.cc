// SPDX-License-Identifier: GPL-2.0-or-later
// Offers instead of payload on a link between two ends: negotiation, offers, pulls and answers, and
// violations by either side. The test acts as the switch.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cstring>

#include "peer_copy_pair.h"

namespace pib::test {

TEST_CASE("peer copy: offers need shared memory that the switch has mapped") {
    PeerCopyPair pair;
    CHECK(pair.hca.agreed().peer_copy);
    CHECK_FALSE(pair.hca.peer_copy().can_offer());
    CHECK_FALSE(pair.offer(pair.hca, kPlace));
    pair.hca.peer_copy().share(pair.shown.data(), pair.shown.blocks);
    CHECK_FALSE(pair.hca.peer_copy().can_offer());
    pair.share();
    REQUIRE(pair.switch_events.memories.size() == 1);
    CHECK(pair.switch_events.memories[0].blocks == pair.shown.blocks);
    CHECK(pair.hca.peer_copy().can_offer());
    CHECK(pair.sw.peer_copy().can_offer());
    CHECK(pair.error.empty());

    PeerCopyPair without(link::kFeatureSharedMemory | link::kFeatureBursts);
    CHECK_FALSE(without.hca.agreed().peer_copy);
    without.share();
    CHECK(without.switch_events.memories.empty());
    CHECK_FALSE(without.offer(without.hca, kPlace));
    // Without peer copy the receive buffers are not larger than before.
    CHECK(without.hca.sender().credits(0) == 1024);
    CHECK(pair.hca.sender().credits(0) == link::PeerCopyEnd::kSwitchBlocks);
    CHECK(pair.sw.sender().credits(0) == link::PeerCopyEnd::kAdapterBlocks);
}

TEST_CASE("peer copy: memory that the switch cannot map leaves the link unchanged") {
    PeerCopyPair pair;
    pair.switch_events.mappable = false;
    pair.share();
    CHECK(pair.error.empty());
    CHECK_FALSE(pair.hca.peer_copy().can_offer());
    CHECK_FALSE(pair.sw.peer_copy().can_offer());
    CHECK_FALSE(pair.offer(pair.hca, kPlace));
    CHECK(send_burst(pair.hca, 3));
    (void)pair.hca.channel().publish();
    pair.turn(pair.sw);
    CHECK(pair.switch_events.packets.size() == 3);
}

TEST_CASE("peer copy: an offer names its segments and takes the credits of its packets") {
    PeerCopyPair pair;
    pair.share();
    const uint32_t credits = pair.hca.sender().credits(0);
    REQUIRE(pair.offer(pair.hca, kPlace));
    CHECK(credits - pair.hca.sender().credits(0) == kPackets * link::packet_blocks(8 + 12 + kMtu));
    (void)pair.hca.channel().publish();
    pair.turn(pair.sw);
    REQUIRE(pair.switch_events.offers.size() == 1);
    const auto& offer = pair.switch_events.offers[0];
    CHECK(offer.handle == 1);
    CHECK(offer.bytes == kPayload);
    CHECK(offer.segments == kPlace);
    CHECK(pair.switch_events.packets.empty());
    // The receive buffer of each of 1000 more offers is released.
    for (unsigned i = 0; i < 1000; ++i) {
        REQUIRE(pair.offer(pair.hca, kPlace));
        (void)pair.hca.channel().publish();
        pair.turns();
    }
    CHECK(pair.error.empty());
}

TEST_CASE("peer copy: the switch splits an offer that it cannot forward") {
    PeerCopyPair pair;
    pair.share();
    pair.switch_events.takes = false;
    REQUIRE(pair.offer(pair.hca, kPlace));
    (void)pair.hca.channel().publish();
    SECTION("into the packets of the offer") {
        pair.turn(pair.sw);
        REQUIRE(pair.switch_events.packets.size() == kPackets);
        for (uint32_t i = 0; i < kPackets; ++i) {
            const auto view =
                ib::PacketView::parse(pair.switch_events.packets[i], ib::Crcs::kElided).value();
            CHECK(view.bth().psn == ib::Psn(7 + i));
            CHECK(view.bth().opcode == ib::opcode::kRdmaWriteMiddle);
            REQUIRE(view.payload().size() == kMtu);
            CHECK(view.payload().front() == i);
            CHECK(view.payload().back() == i);
        }
    }
    SECTION("into no packets when the offer is revoked") {
        pair.switch_events.lives = false;
        pair.turn(pair.sw);
        CHECK(pair.switch_events.packets.empty());
    }
    pair.turns();
    CHECK(pair.hca.sender().credits(0) >= link::PeerCopyEnd::kSwitchBlocks * 3 / 4);
    CHECK(pair.error.empty());
}

TEST_CASE("peer copy: the payload of split offers counts for a turn") {
    PeerCopyPair pair;
    pair.share();
    pair.switch_events.takes = false;
    unsigned sent = 0;
    while (sent < 8 && pair.offer(pair.hca, kPlace)) {
        ++sent;
    }
    REQUIRE(sent == 8);
    (void)pair.hca.channel().publish();
    const auto more = pair.sw.receive(3 * kPayload);
    REQUIRE(more);
    CHECK(*more);
    CHECK(pair.switch_events.offers.size() == 3);
    pair.turn(pair.sw);
    CHECK(pair.switch_events.offers.size() == 8);
    CHECK(pair.error.empty());
}

TEST_CASE("peer copy: begin() refuses packets that cannot be an offer") {
    PeerCopyPair pair;
    pair.share();
    const auto limit = [&](unsigned vl, uint32_t mtu) {
        return pair.hca
            .begin({.vl = vl, .longest = 20 + mtu, .packets = 1000, .mtu = mtu, .is_offer = true})
            .packets;
    };
    CHECK(limit(0, kMtu) == 256);
    CHECK(limit(0, 4096) == 256);
    CHECK(limit(link::kVl15, kMtu) == 0);
    uint32_t sent = 0;
    while (pair.offer(pair.hca, {}, 256)) {
        ++sent;
    }
    CHECK(sent == link::PeerCopyEnd::kSwitchBlocks / (256 * 17));
}

TEST_CASE("peer copy: the adapter sends PULL, and later frames wait") {
    PeerCopyPair pair;
    pair.share();
    pair.hca_events.place = kPlace;
    const auto pull = pair.asked();
    CHECK(pull.handle == 1);
    CHECK(pull.sequence == 1);
    CHECK(pull.offset == 0);
    CHECK(pull.length == kPayload);
    CHECK(pull.segments == kPlace);
    CHECK(pair.hca.peer_copy().is_pulling());
    REQUIRE(send(pair.sw, make_packet(0, 5, 64)));
    (void)pair.sw.channel().publish();
    pair.turn(pair.hca);
    CHECK(pair.hca_events.packets.empty());
    CHECK(pair.hca.may_sleep());
    CHECK(pair.finished() == 0);

    pair.answer(PullResult::kDone);
    CHECK_FALSE(pair.hca.peer_copy().is_pulling());
    CHECK(pair.hca_events.placed == 1);
    CHECK(pair.hca_events.packets.size() == 1);
    CHECK(pair.finished() == 1);
    CHECK(pair.error.empty());
}

TEST_CASE("peer copy: only the answer to the current pull keeps the adapter awake") {
    PeerCopyPair pair;
    pair.share();
    pair.hca_events.place = kPlace;
    (void)pair.asked();
    pair.shown.control().answer = link::pull_answer(17, PullResult::kDone);
    CHECK(pair.hca.may_sleep());
    CHECK(pair.hca.peer_copy().is_pulling());
    pair.shown.control().answer = link::pull_answer(1, PullResult::kDone);
    CHECK_FALSE(pair.hca.may_sleep());
}

TEST_CASE("peer copy: a pull without a target uses the bounce area") {
    PeerCopyPair pair;
    pair.share();
    pair.hca_events.hold = true;
    SECTION("the port names no target") {}
    SECTION("the target has changed meanwhile") {
        pair.hca_events.place = kPlace;
        pair.hca_events.stays = false;
        CHECK(pair.asked().segments == kPlace);
        pair.answer(PullResult::kDone);
        CHECK(pair.hca_events.placed == 0);
        CHECK(pair.hca_events.packets.empty());
        pair.next_handle = 0;
    }
    SECTION("the target is not in the adapter's memory") {
        pair.hca_events.place = {{.offset = kBlock - 1, .block = 0, .length = kPayload}};
    }
    SECTION("the target is too short") {
        pair.hca_events.place = {{.offset = 0, .block = 0, .length = kPayload - 1}};
    }
    const auto pull = pair.next_handle == 0 ? pair.again() : pair.asked();
    REQUIRE(pull.segments.size() == 1);
    CHECK(pull.segments[0] == BlockSegment{0, link::kBounceBlock, kPayload});
    for (uint32_t i = 0; i < kPayload; ++i) {
        pair.shown.bounce()[i] = static_cast<uint8_t>(i / kMtu);
    }
    pair.answer(PullResult::kDone);
    REQUIRE(pair.hca_events.packets.size() == kPackets);
    uint32_t held = 0;
    for (uint32_t i = 0; i < kPackets; ++i) {
        const auto view =
            ib::PacketView::parse(pair.hca_events.packets[i], ib::Crcs::kElided).value();
        CHECK(view.bth().psn == ib::Psn(7 + i));
        CHECK(view.payload()[kMtu / 2] == i);
        held += pair.hca_events.held[i].second;
    }
    CHECK(held == kPackets * link::packet_blocks(20 + kMtu));
    CHECK(pair.finished() == 1);
    CHECK(pair.error.empty());
}

TEST_CASE("peer copy: a burst whose pull failed is dropped") {
    PeerCopyPair pair;
    pair.share();
    pair.hca_events.place = kPlace;
    (void)pair.asked();
    SECTION("the offer is revoked") {
        pair.answer(PullResult::kGone);
        CHECK(pair.hca_events.refused == 0);
    }
    SECTION("the target is refused") {
        pair.answer(PullResult::kRefused);
        CHECK(pair.hca_events.refused == 1);
    }
    SECTION("the answer has an unknown result") {
        pair.answer(static_cast<PullResult>(99));
    }
    CHECK_FALSE(pair.hca.peer_copy().is_pulling());
    CHECK(pair.hca_events.placed == 0);
    CHECK(pair.hca_events.packets.empty());
    CHECK(pair.finished() == 1);
    pair.turns();
    CHECK(pair.sw.sender().credits(0) >= link::PeerCopyEnd::kAdapterBlocks / 4 * 3);
    CHECK(pair.error.empty());
}

TEST_CASE("peer copy: a cancelled pull is requested again") {
    PeerCopyPair pair;
    pair.share();
    pair.hca_events.place = kPlace;
    (void)pair.asked();
    (void)pair.hca.peer_copy().cancel_pull();
    CHECK(pair.shown.control().cancel == 1);
    CHECK(pair.hca.peer_copy().is_pulling());
    pair.hca_events.place = {{.offset = 8192, .block = 0, .length = kPayload}};
    pair.answer(PullResult::kCancelled);
    pair.turn(pair.sw);
    REQUIRE(pair.switch_events.pulls.size() == 2);
    CHECK(pair.switch_events.pulls[1].sequence == 2);
    CHECK(pair.switch_events.pulls[1].segments == pair.hca_events.place);
    CHECK(pair.hca.peer_copy().is_pulling());
    CHECK(pair.finished() == 0);
    pair.answer(PullResult::kDone);
    CHECK(pair.hca_events.placed == 1);
    CHECK_FALSE(pair.hca.peer_copy().cancel_pull());
}

TEST_CASE("peer copy: a link that goes Down drops the burst of its pull") {
    PeerCopyPair pair;
    pair.share();
    pair.hca_events.place = kPlace;
    (void)pair.asked();
    pair.hca.training().retrain();
    CHECK(pair.hca.peer_copy().is_pulling());
    pair.answer(PullResult::kDone);
    CHECK(pair.hca_events.placed == 0);
    CHECK(pair.finished() == 1);
    pair.turns();
    CHECK(pair.hca.is_up());
    CHECK(pair.error.empty());
    CHECK(pair.switch_events.pulls.size() == 1);
    // A closed end still knows whether the switch may write to its memory.
    CHECK(pair.asked().sequence == 2);
    CHECK(pair.error == "");
    CHECK(pair.hca.peer_copy().is_pulling());
    pair.hca.training().close();
    CHECK(pair.hca.peer_copy().is_pulling());
    pair.shown.control().answer = link::pull_answer(2, PullResult::kGone);
    CHECK_FALSE(pair.hca.peer_copy().is_pulling());
}

TEST_CASE("peer copy: a switch that breaks the protocol loses the connection") {
    PeerCopyPair pair;
    SECTION("an offer without MEMORY") {
        PeerCopyPair other;
        other.share();
        REQUIRE(other.offer(other.sw, {}));
        const auto from = other.memory.ring(1), to = pair.memory.ring(1);
        std::memcpy(to.bytes + to.control->produced % to.size,
                    from.bytes + from.control->produced % from.size, 256);
        to.control->produced += 256;
    }
    SECTION("an offer with segments") {
        pair.share();
        REQUIRE(pair.offer(pair.sw, kPlace));
    }
    SECTION("handles out of order") {
        pair.share();
        pair.next_handle = 2;
        REQUIRE(pair.offer(pair.sw, {}));
    }
    (void)pair.sw.channel().publish();
    pair.turn(pair.hca);
    CHECK(pair.error.starts_with("offer"));
}

TEST_CASE("peer copy: a malformed MEMORY, or one out of place, ends the connection") {
    PeerCopyPair pair(GENERATE(kAll, link::kFeatureSharedMemory | link::kFeatureBursts));
    Bytes frame;
    append(frame, link::Memory{{kBlock}});
    std::string reason = "MEMORY not agreed on";
    if (pair.sw.agreed().peer_copy) {
        SECTION("a block without bytes") {
            std::fill(frame.end() - 8, frame.end(), uint8_t{0});
            reason = "MEMORY: field out of range";
        }
        SECTION("fewer blocks than it counts") {
            frame[8 + 1] = 2;
            reason = "MEMORY: bad frame length";
        }
        SECTION("memory that the switch refuses") {
            pair.switch_events.refusal = "too much";
            reason = "MEMORY: too much";
        }
        SECTION("a second MEMORY") {
            REQUIRE(feed(pair.sw, frame));
            reason = "a second MEMORY";
        }
    }
    const auto fed = feed(pair.sw, frame);
    REQUIRE_FALSE(fed);
    CHECK(fed.error().text == reason);
}

TEST_CASE("peer copy: MEMORY in the rings ends the connection") {
    PeerCopyPair pair;
    Bytes frame;
    append(frame, link::Memory{{kBlock}});
    const auto ring = pair.memory.ring(0);
    std::memcpy(ring.bytes + ring.control->produced % ring.size, frame.data(), frame.size());
    ring.control->produced += link::ring_bytes(frame.size());
    pair.turn(pair.sw);
    CHECK(pair.error == "MEMORY in shared memory");
    CHECK(pair.switch_events.memories.empty());
}

TEST_CASE("peer copy: an offer without valid segments ends the connection") {
    struct Case {
        std::vector<BlockSegment> segments;
        std::string reason;
    };
    static const Case kCases[] = {
        {{}, "offer outside of the shared memory"},
        {{{kBlock - kPayload + 1, 0, kPayload}}, "offer outside of the shared memory"},
        {{{0, 1, kPayload}}, "offer outside of the shared memory"},
        {{{0, link::kBounceBlock, kPayload}}, "offer outside of the shared memory"},
        {{{0, 0, kPayload - 1}}, "offer: field out of range"},
        {{{0, 0, 0}, {0, 0, kPayload}}, "offer: bad frame length"},
    };
    const Case& one = kCases[GENERATE(range(size_t{0}, std::size(kCases)))];
    PeerCopyPair pair;
    pair.share();
    REQUIRE(pair.offer(pair.hca, one.segments));
    (void)pair.hca.channel().publish();
    pair.turn(pair.sw);
    CHECK(pair.error == one.reason);
    CHECK(pair.switch_events.offers.empty());
}

TEST_CASE("peer copy: an adapter that breaks the protocol loses the connection") {
    PeerCopyPair pair;
    pair.share();
    const auto ring = pair.memory.ring(0);
    uint8_t* at = ring.bytes + ring.control->produced % ring.size + 8;
    std::string reason = "BURST: these packets cannot be an offer";
    SECTION("the handle 0") {
        reason = "offer: field out of range";
        pair.next_handle = 0;
        REQUIRE(pair.offer(pair.hca, kPlace));
    }
    SECTION("packets of another length") {
        REQUIRE(pair.offer(pair.hca, kPlace));
        at[1] = kPackets - 1;
    }
    SECTION("packets on VL 15") {
        REQUIRE(pair.offer(pair.hca, kPlace));
        at[ib::kBurstFirst] |= 0xF0;
        at[ib::kBurstLast] |= 0xF0;
    }
    SECTION("packets that request an ACK") {
        REQUIRE(pair.offer(pair.hca, kPlace));
        at[ib::kBurstLast + 8 + 8] |= 0x80;
    }
    (void)pair.hca.channel().publish();
    pair.turn(pair.sw);
    CHECK(pair.error == reason);
    CHECK(pair.switch_events.offers.empty());
}

TEST_CASE("peer copy: offers beyond the credits end the connection") {
    PeerCopyPair pair;
    pair.share();
    pair.switch_events.keeps = true;
    const auto ring = pair.memory.ring(0);
    const uint32_t at = ring.control->produced;
    REQUIRE(pair.offer(pair.hca, kPlace));
    (void)pair.hca.channel().publish();
    const uint32_t bytes = ring.control->produced - at;
    const Bytes frame(ring.bytes + at % ring.size, ring.bytes + at % ring.size + bytes);
    const uint32_t fit =
        link::PeerCopyEnd::kSwitchBlocks / (kPackets * link::packet_blocks(8 + 12 + kMtu));
    pair.turn(pair.sw);
    for (uint32_t i = 1; i <= fit; ++i) {
        REQUIRE(pair.error.empty());
        REQUIRE(pair.switch_events.offers.size() == i);
        std::ranges::copy(frame, ring.bytes + ring.control->produced % ring.size);
        ring.control->produced += bytes;
        pair.turn(pair.sw);
    }
    CHECK(pair.error == "VL 0");
    CHECK(pair.switch_events.offers.size() == fit);
}

TEST_CASE("peer copy: packets of an offer beyond the MTU are faults, and the link stays") {
    PeerCopyPair pair;
    pair.share();
    auto small = make_parameters();
    small.mtu_cap = 2;  // 512
    pair.sw.training().set_parameters(small);
    pair.turns();
    REQUIRE(pair.sw.is_up());
    REQUIRE(pair.offer(pair.hca, kPlace));
    (void)pair.hca.channel().publish();
    pair.turn(pair.sw);
    CHECK(pair.error.empty());
    CHECK(pair.switch_events.offers.empty());
    CHECK(pair.switch_events.packets.empty());
    CHECK(pair.switch_events.faults == std::vector(kPackets, link::PacketFault::kTooLong));
}

TEST_CASE("peer copy: an offer that arrives while the link is down costs no credit") {
    PeerCopyPair pair;
    pair.share();
    const uint32_t blocks = kPackets * link::packet_blocks(8 + 12 + kMtu);
    for (uint32_t i = 0; i < 2 * link::PeerCopyEnd::kSwitchBlocks / blocks; ++i) {
        REQUIRE(pair.offer(pair.hca, kPlace));
        (void)pair.hca.channel().publish();
        pair.sw.training().set_parameters(make_parameters(false));
        pair.turn(pair.sw);
        REQUIRE_FALSE(pair.sw.is_up());
        pair.sw.training().set_parameters(make_parameters());
        pair.turns();
        REQUIRE(pair.hca.is_up());
    }
    CHECK(pair.switch_events.offers.empty());
    CHECK(pair.switch_events.packets.empty());
    CHECK(pair.switch_events.faults.empty());
    CHECK(pair.error.empty());
}

TEST_CASE("peer copy: a PULL that the switch refuses ends the connection") {
    PeerCopyPair pair;
    pair.share();
    pair.hca_events.place = kPlace;
    pair.switch_events.pull_refusal = "no room";
    REQUIRE(pair.offer(pair.sw, {}));
    (void)pair.sw.channel().publish();
    pair.turn(pair.hca);
    pair.turn(pair.sw);
    CHECK(pair.error == "PULL: no room");
}

TEST_CASE("peer copy: a PULL without valid segments ends the connection") {
    PeerCopyPair pair;
    pair.share();
    pair.hca_events.place = kPlace;
    REQUIRE(pair.offer(pair.sw, {}));
    (void)pair.sw.channel().publish();
    const auto ring = pair.memory.ring(0);
    uint8_t* pull = ring.bytes + ring.control->produced % ring.size + 8;
    pair.turn(pair.hca);
    const size_t at = GENERATE(0, 8, 16, 20, 24, 32, 36);  // one field of the PULL at a time
    std::fill_n(pull + at,
                at % 8 == 4           ? 4
                : at == 0 || at == 24 ? 8
                                      : 4,
                static_cast<uint8_t>(at <= 8 ? 0 : 0x7F));
    pair.turn(pair.sw);
    CHECK_FALSE(pair.error.empty());
    CHECK(pair.switch_events.pulls.empty());
}

}  // namespace pib::test
