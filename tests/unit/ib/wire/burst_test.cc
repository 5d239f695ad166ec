// SPDX-License-Identifier: GPL-2.0-or-later
// Bursts: compares them with their single packets.
#include "ib/wire/burst.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <vector>

#include "ib/wire/field.h"

namespace pib::ib {
namespace {

namespace op = opcode;
using Bytes = std::vector<uint8_t>;

// A message's opcodes, by position in a burst.
struct Shape {
    uint8_t first;
    uint8_t middle;
    uint8_t last;
};
constexpr Shape kShapes[] = {
    {op::kSendFirst, op::kSendMiddle, op::kSendLast},
    {op::kSendMiddle, op::kSendMiddle, op::kSendMiddle},
    {op::kSendFirst, op::kSendMiddle, op::kSendLastImm},
    {op::kRdmaWriteFirst, op::kRdmaWriteMiddle, op::kRdmaWriteLast},
    {op::kRdmaWriteMiddle, op::kRdmaWriteMiddle, op::kRdmaWriteLastImm},
    {op::kUc | op::kRdmaWriteFirst, op::kUc | op::kRdmaWriteMiddle, op::kUc | op::kRdmaWriteLast},
    {op::kXrc | op::kSendFirst, op::kXrc | op::kSendMiddle, op::kXrc | op::kSendLastInvalidate},
    {op::kXrc | op::kRdmaWriteFirst, op::kXrc | op::kRdmaWriteMiddle,
     op::kXrc | op::kRdmaWriteLast},
    {op::kRdmaReadResponseFirst, op::kRdmaReadResponseMiddle, op::kRdmaReadResponseLast},
};

PacketHeaders headers_of(uint8_t opcode, uint32_t index, bool last, bool global) {
    PacketHeaders headers{};
    headers.lrh = {.vl = Vl(3), .sl = Sl(2), .dlid = Lid(0x11), .slid = Lid(0x22)};
    if (global) {
        headers.grh = Grh{.tclass = 7, .flow_label = 0x12345, .hop_lmt = 9};
    }
    headers.bth = {.opcode = opcode,
                   .solicited_event = last,
                   .mig_req = true,
                   .pkey = PKey(0xffff),
                   .dest_qp = Qpn(0x1234),
                   .ack_req = last,
                   .psn = Psn(0xffffff) + index};
    headers.xrceth.xrc_srq = 77;
    headers.reth = {.va = 0x1000, .rkey = RKey(5), .dma_len = 99999};
    headers.aeth = Aeth::ack(31, 12);
    headers.imm_dt.data = {1, 2, 3, 4};
    headers.ieth.rkey = RKey(9);
    return headers;
}

struct Made {
    Bytes body;
    std::vector<Bytes> packets;  // each as it would have been sent alone
};

Made make(const Shape& shape, uint32_t packets, uint32_t mtu, uint32_t rest, bool global) {
    Made made;
    Bytes payload(size_t{packets - 1} * mtu + rest);
    for (size_t i = 0; i < payload.size(); ++i) {
        payload[i] = static_cast<uint8_t>(i * 7 + i / 256);
    }
    for (uint32_t i = 0; i < packets; ++i) {
        const bool last = i + 1 == packets;
        const auto opcode = i == 0 ? shape.first : last ? shape.last : shape.middle;
        const auto headers = headers_of(opcode, i, last, global);
        const std::span<const uint8_t> part =
            std::span(payload).subspan(size_t{i} * mtu, last ? rest : mtu);
        Bytes packet(kMaxPacket);
        auto builder = PacketBuilder::begin(packet, headers, part.size(), Crcs::kElided).value();
        builder.gather({{part}});
        packet.resize(builder.finish().size());
        made.packets.push_back(packet);
    }
    const auto first = headers_of(shape.first, 0, false, global);
    const auto last = headers_of(shape.last, packets - 1, true, global);
    const auto size = BurstBuilder::size(first, last, packets, mtu, payload.size()).value();
    made.body.assign(size.body(), 0xee);
    std::ranges::copy(payload,
                      BurstBuilder::begin(made.body, size, first, last, payload.size()).begin());
    return made;
}

auto parse(const Bytes& body) {
    return Burst::parse(std::span<const uint8_t>(body).first<kBurstPayload>(), body);
}

Bytes copy(const PacketBytes& packet) {
    Bytes bytes(packet.size());
    packet.copy_to(bytes);
    return bytes;
}

TEST_CASE("burst: the packets of a burst equal those sent singly") {
    const Shape shape = GENERATE(from_range(std::begin(kShapes), std::end(kShapes)));
    const bool global = GENERATE(false, true);
    const uint32_t packets = GENERATE(2u, 3u, 16u);
    const uint32_t mtu = GENERATE(256u, 4096u);
    const bool middle_last = shape.last == shape.middle;
    const uint32_t rest = middle_last ? mtu : GENERATE_COPY(1u, 254u, mtu);
    const Made made = make(shape, packets, mtu, rest, global);
    const auto burst = parse(made.body);
    REQUIRE(burst);
    CHECK(burst->size().packets == packets);
    BurstHeaders room;
    size_t bytes = 0;
    uint64_t words = 0;
    for (uint32_t i = 0; i < packets; ++i) {
        REQUIRE(copy(burst->packet(i, room)) == made.packets[i]);
        CHECK(burst->size().packet(i) == made.packets[i].size());
        bytes += made.packets[i].size();
        words += PacketView::parse(made.packets[i], Crcs::kElided)->lrh().pkt_len;
    }
    CHECK(burst->size().bytes() == bytes);
    CHECK(burst->size().words() == words);
    // The last packet requests an ACK.
    CHECK_FALSE(burst->is_middle());
    CHECK(burst->payload().size() == size_t{packets - 1} * mtu + rest);
}

TEST_CASE("burst: a part of a burst has the same packets") {
    const Shape shape = GENERATE(from_range(std::begin(kShapes), std::end(kShapes)));
    const bool global = GENERATE(false, true);
    constexpr uint32_t kPackets = 5;
    const uint32_t from = GENERATE(range(0u, 5u));
    const uint32_t count = GENERATE_COPY(range(1u, kPackets - from + 1));
    const uint32_t rest = shape.last == shape.middle ? 512 : 99;
    const Made made = make(shape, kPackets, 512, rest, global);
    const auto whole = parse(made.body);
    REQUIRE(whole);
    BurstHead head;
    auto part = whole->part(from, count, head);
    REQUIRE(part);
    REQUIRE(part->check());
    REQUIRE(part->count() == count);
    CHECK(part->is_single() == (count == 1));
    size_t payload = 0;
    for (uint32_t i = 0; i < count; ++i) {
        BurstHeaders room;
        CHECK(copy(part->packet(i, room)) == made.packets[from + i]);
        CHECK(part->size().packet(i) == made.packets[from + i].size());
        payload += PacketView::parse(made.packets[from + i], Crcs::kElided)->payload().size();
    }
    CHECK(part->payload().size() == payload);
    CHECK(part->first().bth().psn == whole->psn(from));
}

TEST_CASE("burst: a single packet is parsed once, at the first access to its headers") {
    const Made made = make(kShapes[3], 2, 512, 7, false);
    Bytes packet = made.packets[1];
    REQUIRE(parse_lrh(packet, Crcs::kElided));
    Burst burst(packet);
    CHECK(burst.is_single());
    CHECK(burst.size().bytes() == packet.size());
    REQUIRE(burst.check());
    CHECK(burst.first().bth().psn == burst.last().bth().psn);
    CHECK(burst.payload().size() == 7);
    CHECK_FALSE(burst.is_middle());
    packet[Lrh::kSize] = 0xff;  // a reserved opcode
    Burst other(packet);
    CHECK(other.check().error() == ParseError::kReservedOpcode);
}

TEST_CASE("burst: all packets have the burst's VL") {
    Made made = make(kShapes[0], 4, 1024, 10, false);
    set_burst_vl(made.body, 4, 9);
    const auto burst = parse(made.body);
    REQUIRE(burst);
    BurstHeaders room;
    for (uint32_t i = 0; i < 4; ++i) {
        CHECK(PacketView::parse(burst->packet(i, room), Crcs::kElided)->lrh().vl == Vl(9));
    }
}

TEST_CASE("burst: packets that are not a burst are refused") {
    const Made good = make(kShapes[3], 4, 1024, 12, true);
    const size_t last_bth = kBurstLast + Lrh::kSize + Grh::kSize;
    constexpr auto kTruncated = ParseError::kTruncated, kLength = ParseError::kPacketLength,
                   kOpcode = ParseError::kReservedOpcode, kPayload = ParseError::kPayload;
    constexpr size_t kFirstBth = kBurstFirst + Lrh::kSize + Grh::kSize;
    struct Change {
        size_t at;
        uint8_t value;
        ParseError error;
    };
    const auto change = GENERATE_COPY(
        Change{0, 1, kLength}, Change{1, 1, kLength}, Change{1, 5, kLength}, Change{2, 8, kLength},
        Change{2, 0x20, kLength}, Change{3, 1, kLength}, Change{7, 1, kLength},
        Change{kBurstFirst, 0x31, ParseError::kLinkVersion}, Change{kBurstFirst, 0x40, kOpcode},
        Change{kBurstFirst + 4, 0, kLength}, Change{kBurstFirst + 5, 0xff, kLength},
        Change{kBurstFirst + 7, 0x23, kOpcode}, Change{kBurstFirst + Lrh::kSize, 0x61, kOpcode},
        Change{kFirstBth, op::kSendFirst, kPayload},  // without the RETH
        Change{kFirstBth + 1, 0xc0, kOpcode}, Change{kFirstBth + 1, 0x50, kPayload},
        Change{kFirstBth + 8, 0x80, kOpcode}, Change{kBurstLast + 3, 0x12, kOpcode},
        Change{kBurstLast + 4, 0x80, kOpcode}, Change{kBurstLast + 5, 0xff, kLength},
        Change{kBurstLast + 16, 1, kOpcode}, Change{kBurstLast + Lrh::kSize + 7, 1, kOpcode},
        Change{kBurstLast + Lrh::kSize + 39, 9, kOpcode},
        Change{last_bth, op::kRdmaWriteOnly, kTruncated}, Change{last_bth, op::kSendLast, kOpcode},
        Change{last_bth, op::kUc | op::kRdmaWriteLast, kOpcode},
        Change{last_bth, op::kRdmaWriteMiddle, kOpcode}, Change{last_bth + 1, 0x80, kOpcode},
        Change{last_bth + 2, 0x7f, kOpcode}, Change{last_bth + 7, 0x35, kOpcode},
        Change{last_bth + 8, 0x81, kOpcode}, Change{last_bth + 11, 0x7f, kOpcode});
    CAPTURE(change.at, change.value);
    Bytes body = good.body;
    REQUIRE(body[change.at] != change.value);
    body[change.at] = change.value;
    const auto parsed = parse(body);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error() == change.error);
}

TEST_CASE("burst: a small MTU, other XRCETHs, a second start and a padded MIDDLE are refused") {
    Bytes small = make(kShapes[3], 2, 256, 4, false).body;
    small.resize(kBurstPayload + 128 + 4);
    store_be(&small[2], uint16_t{128});
    CHECK(parse(small).error() == ParseError::kPacketLength);

    Bytes xrc = make(kShapes[6], 2, 1024, 12, false).body;
    REQUIRE(parse(xrc));
    xrc[kBurstLast + Lrh::kSize + Bth::kSize + 3] ^= 1;
    CHECK(parse(xrc).error() == ParseError::kReservedOpcode);

    for (const uint8_t opcode : {op::kSendFirst, op::kSendOnly}) {
        Bytes begins_again = make(kShapes[0], 2, 1024, 1024, false).body;
        begins_again[kBurstLast + Lrh::kSize] = opcode;
        CHECK(parse(begins_again).error() == ParseError::kReservedOpcode);
    }

    Bytes padded = make(kShapes[1], 2, 1024, 1024, false).body;
    REQUIRE(parse(padded));
    padded[kBurstLast + Lrh::kSize + 1] |= 0x10;
    CHECK(parse(padded).error() == ParseError::kPayload);
}

TEST_CASE("burst: MIDDLE packets that request an ACK or an event are recognised") {
    constexpr size_t kLastBth = kBurstLast + Lrh::kSize;
    Bytes body = make(kShapes[1], 3, 1024, 1024, false).body;
    CHECK_FALSE(parse(body)->is_middle());
    body[kLastBth + 8] = 0;
    CHECK_FALSE(parse(body)->is_middle());  // still solicited
    body[kLastBth + 1] &= 0x7f;
    CHECK(parse(body)->is_middle());
    body[kLastBth + 8] = 0x80;
    CHECK_FALSE(parse(body)->is_middle());
}

TEST_CASE("burst: a burst starts with FIRST or MIDDLE of a connected service") {
    std::vector<unsigned> starts;
    for (unsigned opcode = 0; opcode < 256; ++opcode) {
        const OpcodeInfo* info = find_opcode(static_cast<uint8_t>(opcode));
        if (info != nullptr && burst_middle(*info) != nullptr) {
            starts.push_back(opcode);
        }
    }
    CHECK(starts == std::vector<unsigned>{0x00, 0x01, 0x06, 0x07, 0x0D, 0x0E, 0x20, 0x21, 0x26,
                                          0x27, 0xA0, 0xA1, 0xA6, 0xA7, 0xAD, 0xAE});
}

TEST_CASE("burst: a body of a wrong length is refused") {
    const Made good = make(kShapes[3], 4, 1024, 12, false);
    const std::span<const uint8_t> whole(good.body);
    CHECK(Burst::parse(whole.first<kBurstPayload>(), whole, 3 * 1024 + 11).error() ==
          ParseError::kPacketLength);
    CHECK(Burst::parse(whole.first<kBurstPayload>(), whole, 3 * 1024 + 12));
    const std::pair<size_t, ParseError> wrong[] = {
        {kBurstPayload, ParseError::kPacketLength},
        {kBurstPayload + 3 * 1024, ParseError::kPacketLength},
        {good.body.size() - 4, ParseError::kPayload},
        {good.body.size() + 4, ParseError::kTruncated},
        {kBurstPayload + 5 * 1024, ParseError::kPacketLength},
    };
    for (const auto& [bytes, error] : wrong) {
        Bytes body = good.body;
        body.resize(bytes);
        CAPTURE(bytes);
        CHECK(parse(body).error() == error);
    }
    const auto first = headers_of(op::kSendFirst, 0, false, false);
    const auto last = headers_of(op::kSendLast, 1, true, false);
    const std::pair<uint32_t, size_t> counts[] = {
        {17, 17 * 4096}, {2, 4096}, {2, 2 * 4096 + 1}, {0, 4096}};
    for (const auto& [packets, payload] : counts) {
        CAPTURE(packets, payload);
        CHECK(BurstBuilder::size(first, last, packets, 4096, payload).error() ==
              BuildError::kPayload);
    }
    CHECK(BurstBuilder::size(first, last, 1, 4096, 4096)->packets == 1);
    const auto only = headers_of(op::kSendOnly, 0, false, false);
    CHECK(BurstBuilder::size(only, last, 2, 4096, 5000).error() == BuildError::kReservedOpcode);
    constexpr uint8_t kReserved = 0x1F;
    const auto reserved = headers_of(kReserved, 0, false, false);
    CHECK(BurstBuilder::size(reserved, reserved, 1, 4096, 4).error() ==
          BuildError::kReservedOpcode);
    CHECK(BurstBuilder::size(reserved, last, 2, 4096, 5000).error() == BuildError::kReservedOpcode);
    CHECK(BurstBuilder::size(first, reserved, 2, 4096, 5000).error() ==
          BuildError::kReservedOpcode);
    CHECK(BurstBuilder::size(first, last, 2, 8192, 9000).error() == BuildError::kPayload);
}

}  // namespace
}  // namespace pib::ib
