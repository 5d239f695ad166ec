// SPDX-License-Identifier: GPL-2.0-or-later
// The link's state machine at both ends: handshake, link state, credits, violations by the peer.
#include "ib/link/link_endpoint.h"

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "ib/link/packet_checksums.h"
#include "ib/wire/crc.h"
#include "link_pair.h"

namespace pib::test {
namespace {

using link::PacketFault;
using link::SendCrc;

Bytes frame(link::FrameType type, const Bytes& body, uint8_t flags = 0) {
    Bytes out = {
        static_cast<uint8_t>(type),       flags, 0, 0, 0, 0, static_cast<uint8_t>(body.size() >> 8),
        static_cast<uint8_t>(body.size())};
    out.insert(out.end(), body.begin(), body.end());
    return out;
}

}  // namespace

TEST_CASE("link: the handshake brings the link up, in any fragmentation") {
    const size_t chunk = GENERATE_COPY(size_t{1}, size_t{7}, SIZE_MAX);
    LinkPair pair;
    pair.hca.training().set_parameters(make_parameters());
    pair.sw.training().set_parameters(make_parameters());
    pair.pump(chunk);
    REQUIRE(pair.error.empty());
    REQUIRE(pair.switch_events.hellos.size() == 1);
    CHECK(pair.switch_events.hellos[0] == make_hello(0x100));
    CHECK(pair.hca_events.welcomes.size() == 1);
    REQUIRE(pair.hca.is_up());
    REQUIRE(pair.sw.is_up());
    CHECK(pair.hca_events.ups == 1);
    CHECK(pair.switch_events.ups == 1);
    CHECK(pair.hca.training().active() == pair.sw.training().active());
    CHECK(pair.hca.training().active().width == 2);
    CHECK(pair.hca.training().active().speed_ext == 2);
    CHECK(pair.hca.sender().credits(0) == 1024);
    CHECK(pair.hca.sender().credits(1) == 1024);
    CHECK(pair.hca.sender().credits(2) == 0);
}

TEST_CASE("link: a link stays down until both sides have a common width") {
    LinkPair pair;
    auto narrow = make_parameters();
    narrow.width_enabled = 8;
    pair.hca.training().set_parameters(make_parameters());
    pair.sw.training().set_parameters(narrow);
    pair.pump();
    CHECK_FALSE(pair.hca.is_up());
    CHECK_FALSE(pair.hca.sender().can_send(15, 100));
    pair.sw.training().set_parameters(make_parameters());
    pair.pump();
    CHECK(pair.hca.is_up());
    CHECK(pair.sw.is_up());
}

TEST_CASE("link: disabling and retraining take both sides Down") {
    LinkPair pair;
    pair.bring_up();
    pair.sw.training().retrain();
    CHECK(pair.switch_events.downs == 1);
    pair.pump();
    CHECK(pair.hca_events.downs == 1);
    CHECK(pair.hca_events.ups == 2);
    CHECK(pair.switch_events.ups == 2);
    CHECK(pair.sw.sender().credits(0) == 1024);
    pair.hca.training().set_parameters(make_parameters(false));
    pair.pump();
    CHECK_FALSE(pair.hca.is_up());
    CHECK_FALSE(pair.sw.is_up());
    CHECK(pair.switch_events.downs == 2);
}

TEST_CASE("link: a turn ends after a few LINKs, and the rest follows in later turns") {
    LinkPair pair;
    pair.bring_up();
    constexpr uint16_t kLinks = 100;
    constexpr size_t kTurn = size_t{128} * 1024;
    Bytes flood;
    for (uint16_t i = 0; i < kLinks; ++i) {
        auto parameters = make_parameters();
        parameters.epoch = static_cast<uint16_t>(1000 + i);
        append(flood, parameters);
    }
    REQUIRE(flood.size() < pair.sw.input_space().size());
    std::ranges::copy(flood, pair.sw.input_space().begin());
    const unsigned before = pair.switch_events.downs;
    REQUIRE(pair.sw.feed_input(flood.size(), kTurn));
    CHECK(pair.switch_events.downs == before + 8);
    unsigned turns = 1;
    for (; pair.sw.input_waits(); ++turns) {
        CHECK_FALSE(pair.sw.may_sleep());
        const unsigned downs = pair.switch_events.downs;
        const auto more = pair.sw.receive(kTurn);
        REQUIRE(more);
        CHECK(*more == pair.sw.input_waits());
        CHECK(pair.switch_events.downs - downs <= 8);
    }
    CHECK(pair.switch_events.downs == before + kLinks);
    CHECK(turns > kLinks / 8);
    CHECK(pair.sw.may_sleep());
}

TEST_CASE("link: packets arrive unchanged, with or without checksums") {
    LinkPair pair;
    pair.bring_up();
    const SendCrc crc = GENERATE(SendCrc::kElided, SendCrc::kComputed);
    std::vector<Bytes> sent;
    for (const size_t payload : {0, 4, 256, 4096}) {
        sent.push_back(make_packet(1, 5, payload));
        REQUIRE(send(pair.hca, sent.back(), crc));
    }
    pair.pump(1000);
    REQUIRE(pair.error.empty());
    CHECK(pair.switch_events.packets == sent);
}

TEST_CASE("link: a data VL without credits stops, and other VLs and VL15 continue") {
    LinkPair pair(make_buffers(160));
    pair.bring_up();
    pair.switch_events.hold = true;
    const Bytes big = make_packet(0, 5, 4096);
    REQUIRE(link::packet_blocks(big.size()) == 65);
    CHECK(send(pair.hca, big));
    CHECK(send(pair.hca, big));
    CHECK_FALSE(send(pair.hca, big));
    CHECK(send(pair.hca, make_packet(1, 5, 256)));
    CHECK(send(pair.hca, make_packet(15, 5, 256)));
    pair.pump();
    CHECK(pair.switch_events.packets.size() == 4);
    CHECK_FALSE(send(pair.hca, big));
    pair.switch_events.release_all();
    pair.pump();
    CHECK(send(pair.hca, big));
}

TEST_CASE("link: each of fifteen data VLs has its own credits") {
    link::LinkEndpoint::Buffers buffers;
    buffers.receive_blocks.fill(1024);
    LinkPair pair(buffers);
    link::Link parameters = make_parameters();
    parameters.vl_cap = 5;
    pair.hca.training().set_parameters(parameters);
    pair.sw.training().set_parameters(parameters);
    pair.pump();
    pair.switch_events.hold = true;
    std::array<unsigned, 15> sent{};
    for (unsigned vl = 0; vl < sent.size(); ++vl) {
        while (send(pair.hca, make_packet(vl, 2, 4096))) {
            ++sent[vl];
            pair.pump();
        }
    }
    CHECK(std::ranges::count(sent, 1024 / 65) == 15);
    CHECK(pair.switch_events.packets.size() == 15 * (1024 / 65));
    CHECK(send(pair.hca, make_packet(link::kVl15, 2, 256)));
    CHECK(pair.error.empty());
}

TEST_CASE("link: buffer held over a retrain is not granted twice") {
    LinkPair pair(make_buffers(160));
    pair.bring_up();
    pair.switch_events.hold = true;
    CHECK(send(pair.hca, make_packet(0, 5, 4096)));
    pair.pump();
    pair.hca.training().retrain();
    pair.pump();
    CHECK(pair.hca.sender().credits(0) == 160 - 65);
    pair.switch_events.release_all();
    pair.pump();
    CHECK(pair.hca.sender().credits(0) == 160);
}

TEST_CASE("link: a stream of packets keeps flowing within its credits") {
    LinkPair pair(make_buffers(200));
    pair.bring_up();
    unsigned sent = 0;
    for (unsigned round = 0; round < 2000; ++round) {
        while (send(pair.hca, make_packet(0, 5, 4 * (sent % 1024)))) {
            ++sent;
        }
        pair.pump();
    }
    REQUIRE(pair.error.empty());
    CHECK(sent > 2000);
    CHECK(pair.switch_events.packets.size() == sent);
}

TEST_CASE("link: output to a peer that does not read is bounded, and VL15 still fits") {
    LinkPair pair(make_buffers(100'000));
    pair.bring_up();
    const Bytes big = make_packet(0, 5, 4096);
    unsigned queued = 0;
    while (send(pair.hca, big)) {
        ++queued;
    }
    CHECK(queued * big.size() < 256 * 1024);
    CHECK(send(pair.hca, make_packet(15, 5, 256)));
    pair.hca.training().set_parameters(make_parameters(false));
    pair.hca.training().set_parameters(make_parameters(true));
    pair.pump();
    CHECK(pair.error.empty());
    CHECK(pair.hca.is_up());
    CHECK(pair.sw.is_up());
}

// docs/fabric-protocol.md, "Link state": the epoch of a LINK is that of the packets after it.
TEST_CASE("link: a side whose LINK waits for room in the output stays Down") {
    auto buffers = make_buffers();
    buffers.output_bytes = 1;  // the smallest output buffer
    LinkPair pair(buffers);
    pair.bring_up();
    uint16_t epoch = 0;
    do {
        epoch = pair.hca.training().epoch();
        pair.hca.training().retrain();
    } while (pair.hca.training().epoch() != epoch);
    REQUIRE_FALSE(pair.hca.is_up());
    pair.sw.training().retrain();
    pair.carry(pair.sw, pair.hca);
    CHECK_FALSE(pair.hca.is_up());
    pair.pump();
    CHECK(pair.error.empty());
    CHECK(pair.hca.is_up());
    CHECK(pair.sw.is_up());
    CHECK(pair.hca.sender().credits(0) == 1024);
}

TEST_CASE("link: damaged packets are counted, dropped and cost no credit") {
    LinkPair pair(make_buffers(160));
    pair.bring_up();
    Bytes whole = make_packet(0, 5, 64);
    whole.resize(whole.size() + 6);
    link::append_crcs(whole);
    Bytes bad_vcrc = whole;
    bad_vcrc.back() ^= 1;
    Bytes bad_icrc = whole;
    bad_icrc[30] ^= 1;
    const uint16_t vcrc = ib::vcrc(std::span(bad_icrc).first(bad_icrc.size() - 2));
    bad_icrc[bad_icrc.size() - 2] = static_cast<uint8_t>(vcrc);
    bad_icrc[bad_icrc.size() - 1] = static_cast<uint8_t>(vcrc >> 8);
    Bytes bad_length = make_packet(0, 5, 64);
    bad_length.push_back(0);
    for (unsigned round = 0; round < 100; ++round) {
        CHECK(send(pair.hca, bad_vcrc, SendCrc::kGiven));
        CHECK(send(pair.hca, bad_icrc, SendCrc::kGiven));
        CHECK(send(pair.hca, bad_length));
        CHECK(send(pair.hca, whole, SendCrc::kGiven));
        pair.pump();
    }
    REQUIRE(pair.error.empty());
    CHECK(pair.switch_events.packets.size() == 100);
    REQUIRE(pair.switch_events.faults.size() == 300);
    CHECK(pair.switch_events.faults[0] == PacketFault::kVcrc);
    CHECK(pair.switch_events.faults[1] == PacketFault::kIcrc);
    CHECK(pair.switch_events.faults[2] == PacketFault::kMalformed);
    CHECK(pair.hca.is_up());
}

TEST_CASE("link: packets beyond the credits are dropped, and the link stays up") {
    LinkPair pair(make_buffers(160));
    pair.bring_up();
    pair.switch_events.hold = true;
    const Bytes frame = packet_frame(make_packet(0, 5, 4096));  // 65 blocks
    for (unsigned i = 0; i < 50; ++i) {
        REQUIRE(feed(pair.sw, frame));
    }
    CHECK(pair.switch_events.packets.size() == 2);
    CHECK(pair.switch_events.faults == std::vector(48, PacketFault::kOverrun));
    // A sender counts all 50 packets, so the switch grants credits for all but the two that it
    // holds. The HCA has not sent them here, so its credits exceed the buffer.
    pair.pump();
    CHECK(pair.hca.sender().credits(0) == 50 * 65 + 160 - 2 * 65);
    pair.switch_events.release_all();
    REQUIRE(feed(pair.sw, frame));
    CHECK(pair.switch_events.packets.size() == 3);
    REQUIRE(feed(pair.sw, packet_frame(make_packet(9, 5, 4096))));  // a VL that has no buffer
    CHECK(pair.switch_events.faults.size() == 49);
    CHECK(pair.sw.is_up());
}

TEST_CASE("link: a peer that neither reads nor respects its credits fills no memory") {
    auto buffers = make_buffers(160);
    buffers.output_bytes = 1;  // the smallest output buffer
    LinkPair pair(buffers);
    pair.bring_up();
    pair.switch_events.hold = true;
    const Bytes frame = packet_frame(make_packet(0, 5, 64));  // 2 blocks
    for (unsigned i = 0; i < 200'000; ++i) {
        REQUIRE(feed(pair.sw, frame));
    }
    CHECK(pair.switch_events.packets.size() == 80);
    CHECK(pair.switch_events.faults.size() == 200'000 - 80);
    CHECK(pair.sw.output().size() <= 2 * link::FrameChannel::kReservedOutput);
    CHECK(pair.sw.is_up());
}

TEST_CASE("link: a packet longer than the MTU is a fault") {
    LinkPair pair;
    auto small = make_parameters();
    small.mtu_cap = 3;
    pair.hca.training().set_parameters(make_parameters());
    pair.sw.training().set_parameters(small);
    pair.pump();
    CHECK(send(pair.hca, make_packet(0, 5, 1024)));
    CHECK(send(pair.hca, make_packet(0, 5, 2048)));
    pair.pump();
    CHECK(pair.switch_events.packets.size() == 1);
    REQUIRE(pair.switch_events.faults.size() == 1);
    CHECK(pair.switch_events.faults[0] == PacketFault::kTooLong);
}

TEST_CASE("link: refusals carry reason and text") {
    LinkPair pair;
    pair.switch_events.answer =
        std::unexpected(link::Refuse{link::RefuseReason::kDuplicatePortGuid, "port GUID in use"});
    pair.carry(pair.hca, pair.sw);
    pair.error.clear();
    pair.carry(pair.sw, pair.hca);
    REQUIRE(pair.hca_events.refusals.size() == 1);
    CHECK(pair.hca_events.refusals[0].reason == link::RefuseReason::kDuplicatePortGuid);
    CHECK(pair.error == "refused: port GUID in use");
    CHECK_FALSE(pair.sw.training().is_open());
}

TEST_CASE("link: a HELLO that cannot be read is refused with the reason") {
    LinkPair pair;
    Bytes hello(pair.hca.output().begin(), pair.hca.output().end());
    link::RefuseReason reason = link::RefuseReason::kMalformedHello;
    std::string text = "malformed HELLO";
    SECTION("another major version") {
        hello[8 + 5] = 2;
        reason = link::RefuseReason::kVersion;
        text = "this side speaks version 1 of the fabric link protocol";
    }
    SECTION("no GUID") {
        std::fill_n(hello.begin() + 8 + 24, 8, uint8_t{0});
    }
    const auto fed = feed(pair.sw, hello);
    REQUIRE_FALSE(fed);
    CHECK(fed.error().error == link::LinkError::kRefused);
    CHECK(pair.switch_events.hellos.empty());
    CHECK_FALSE(pair.sw.training().is_open());
    pair.carry(pair.sw, pair.hca);
    REQUIRE(pair.hca_events.refusals.size() == 1);
    CHECK(pair.hca_events.refusals[0].reason == reason);
    CHECK(pair.hca_events.refusals[0].text == text);
}

TEST_CASE("link: an answer to HELLO that cannot be accepted ends the connection") {
    LinkPair pair;
    Bytes welcome;
    append(welcome, link::Welcome{.switch_guid = ib::Guid(5), .port_number = 1});
    link::LinkError error = link::LinkError::kMalformedFrame;
    SECTION("WELCOME of another version") {
        welcome[8 + 1] = 2;
        error = link::LinkError::kVersion;
    }
    SECTION("WELCOME with reserved bits") {
        welcome.back() = 1;
    }
    SECTION("WELCOME with bursts, which HELLO did not ask for") {
        welcome.clear();
        append(welcome, link::Welcome{.features = link::kFeatureBursts, .port_number = 1});
        error = link::LinkError::kUnexpectedFrame;
    }
    SECTION("WELCOME with shared memory that did not come") {
        welcome.clear();
        append(welcome, link::Welcome{.features = link::kFeatureSharedMemory, .port_number = 1});
        error = link::LinkError::kUnexpectedFrame;
    }
    SECTION("REFUSE that is not text") {
        welcome.clear();
        append(welcome, link::Refuse{link::RefuseReason::kNoFreePort, "full"});
        welcome.back() = 7;
    }
    const auto fed = feed(pair.hca, welcome);
    REQUIRE_FALSE(fed);
    CHECK(fed.error().error == error);
    CHECK_FALSE(pair.hca.training().is_open());
    CHECK(pair.hca_events.refusals.empty());
}

TEST_CASE("link: a packet before LINK ends the connection") {
    LinkPair pair;
    pair.carry(pair.hca, pair.sw);
    REQUIRE(pair.switch_events.hellos.size() == 1);
    const auto fed = feed(pair.sw, packet_frame(make_packet(0, 5, 64)));
    REQUIRE_FALSE(fed);
    CHECK(fed.error().text == "PACKET before LINK");
    CHECK(pair.switch_events.packets.empty());
}

namespace {

// An end that neither listens nor shares memory.
struct PlainEvents : link::LinkEvents {
    void link_up(const link::ActiveLink&) override {}
    void link_down() override {}
    uint32_t link_burst(ib::Burst& burst, ib::Placement&) override { return burst.count(); }
    void link_packet_fault(PacketFault) override {}
};

}  // namespace

TEST_CASE("link: a side that does not listen refuses HELLO") {
    LinkPair pair;
    PlainEvents events;
    link::LinkEndpoint plain(make_buffers(), events);
    pair.carry(pair.hca, plain);
    pair.error.clear();
    pair.carry(plain, pair.hca);
    REQUIRE(pair.hca_events.refusals.size() == 1);
    CHECK(pair.hca_events.refusals[0].reason == link::RefuseReason::kNoFreePort);
    CHECK(pair.error == "refused: this side does not listen");
}

TEST_CASE("link: each violation of the protocol ends the connection") {
    using link::FrameType;
    struct Case {
        const char* name;
        Bytes bytes;
    };
    const std::vector<Case> cases = {
        {"second HELLO", frame(FrameType::kHello, Bytes(112))},
        {"WELCOME from the connecting side", frame(FrameType::kWelcome, Bytes(32))},
        {"unknown type", {9, 0, 0, 0, 0, 0, 0, 0}},
        {"huge length", {6, 0, 0, 0, 1, 0, 0, 0}},
        {"reserved bits", {6, 2, 0, 0, 0, 0, 0, 64}},
        {"LINK with the same epoch", frame(FrameType::kLink, {1, 3, 7, 3, 5, 2, 0, 1, 0, 0, 0, 0})},
        {"LINK with MTU 0", frame(FrameType::kLink, {1, 3, 7, 3, 0, 2, 0, 9, 0, 0, 0, 0})},
        {"CREDIT for VL15", frame(FrameType::kCredit, {15, 0, 0, 1, 0, 0, 4, 0})},
        {"CREDIT backwards", frame(FrameType::kCredit, {0, 0, 0, 1, 0, 0, 0, 1})},
    };
    for (const Case& c : cases) {
        INFO(c.name);
        LinkPair pair;
        pair.bring_up();
        REQUIRE(pair.sw.is_up());
        CHECK_FALSE(feed(pair.sw, c.bytes));
        CHECK_FALSE(pair.sw.is_up());
        CHECK(pair.switch_events.downs == 1);
        CHECK(feed(pair.sw, c.bytes));  // ignored
    }
}

TEST_CASE("link: a CREDIT of an older epoch is ignored") {
    LinkPair pair;
    pair.bring_up();
    const uint32_t before = pair.sw.sender().credits(0);
    CHECK(feed(pair.sw, frame(link::FrameType::kCredit, {0, 0, 0, 77, 0, 0, 0, 0})));
    CHECK(pair.sw.sender().credits(0) == before);
    CHECK(pair.sw.is_up());
}

}  // namespace pib::test
