// SPDX-License-Identifier: GPL-2.0-or-later
// Whole packets: every opcode built and parsed again, every truncation and every check refused.
#include "ib/wire/packet.h"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <numeric>
#include <vector>

#include "ib/wire/crc.h"

using namespace pib::ib;

namespace {

using Bytes = std::vector<uint8_t>;

PacketHeaders headers_of(uint8_t opcode, bool global) {
    PacketHeaders h;
    h.lrh.vl = Vl(1);
    h.lrh.sl = Sl(2);
    h.lrh.dlid = Lid(5);
    h.lrh.slid = Lid(9);
    if (global) {
        h.grh.emplace();
        h.grh->flow_label = 0xABCDE;
        h.grh->hop_lmt = 3;
        h.grh->sgid = Gid::from(kDefaultGidPrefix, Guid(1));
        h.grh->dgid = Gid::from(kDefaultGidPrefix, Guid(2));
    }
    h.bth.opcode = opcode;
    h.bth.pkey = kDefaultPKey;
    h.bth.dest_qp = Qpn(0x48);
    h.bth.ack_req = true;
    h.bth.psn = Psn(0xABCDEF);
    h.rdeth.ee_context = 0x77;
    h.deth = {.qkey = QKey(0x11111111), .src_qp = Qpn(0x49)};
    h.xrceth.xrc_srq = 0x50;
    h.reth = {.va = 0x123456789ABCDEF0, .rkey = RKey(0x55), .dma_len = 4096};
    h.atomic_eth = {.va = 8, .rkey = RKey(9), .swap_or_add = 10, .compare = 11};
    h.feth = {.placement = Feth::kPersistence, .selectivity = Feth::kRegion};
    h.masked_atomic_eth = {.atomic = h.atomic_eth, .swap_mask = 12, .compare_mask = 13};
    h.aeth = Aeth::ack(31, 12);
    h.atomic_ack_eth.original_data = 13;
    h.imm_dt.data = {1, 2, 3, 4};
    h.ieth.rkey = RKey(14);
    return h;
}

size_t payload_for(const OpcodeInfo& info) {
    switch (info.payload) {
        case PayloadRule::kNone:
            return 0;
        case PayloadRule::kFullMtu:
            return 1024;
        case PayloadRule::kCnp:
            return 16;
        default:
            return 13;  // needs pad
    }
}

Bytes build(const PacketHeaders& headers, size_t payload_bytes, Crcs crcs) {
    Bytes buffer(kMaxPacket + kMaxHeaders, 0xEE);
    auto builder = PacketBuilder::begin(buffer, headers, payload_bytes, crcs);
    REQUIRE(builder.has_value());
    const auto payload = builder->payload();
    REQUIRE(payload.size() == payload_bytes);
    std::iota(payload.begin(), payload.end(), uint8_t{1});
    const auto packet = builder->finish();
    return {packet.begin(), packet.end()};
}

template <typename Header>
void check_ext(const OpcodeInfo& info, Ext which, const std::optional<Header>& got,
               const Header& sent) {
    CHECK(got.has_value() == info.has(which));
    if (got) {
        CHECK(*got == sent);
    }
}

void check_round_trip(uint8_t opcode, bool global, Crcs crcs) {
    const OpcodeInfo& info = *find_opcode(opcode);
    const PacketHeaders h = headers_of(opcode, global);
    const size_t payload_bytes = payload_for(info);
    const Bytes bytes = build(h, payload_bytes, crcs);
    CHECK(bytes.size() == packet_size(h, payload_bytes, crcs));
    const auto view = PacketView::parse(bytes, crcs);
    REQUIRE(view.has_value());
    CHECK(&view->opcode() == &info);
    CHECK(view->lrh().dlid == h.lrh.dlid);
    CHECK(view->lrh().lnh == (global ? Lnh::kIbaGlobal : Lnh::kIbaLocal));
    CHECK(view->grh().has_value() == global);
    CHECK(view->bth().psn == h.bth.psn);
    check_ext(info, Ext::kRdeth, view->rdeth(), h.rdeth);
    check_ext(info, Ext::kDeth, view->deth(), h.deth);
    check_ext(info, Ext::kXrceth, view->xrceth(), h.xrceth);
    check_ext(info, Ext::kFeth, view->feth(), h.feth);
    check_ext(info, Ext::kMaskedAtomicEth, view->masked_atomic_eth(), h.masked_atomic_eth);
    check_ext(info, Ext::kReth, view->reth(), h.reth);
    check_ext(info, Ext::kAtomicEth, view->atomic_eth(), h.atomic_eth);
    check_ext(info, Ext::kAeth, view->aeth(), h.aeth);
    check_ext(info, Ext::kAtomicAckEth, view->atomic_ack_eth(), h.atomic_ack_eth);
    check_ext(info, Ext::kImmDt, view->imm_dt(), h.imm_dt);
    check_ext(info, Ext::kIeth, view->ieth(), h.ieth);
    REQUIRE(view->payload().size() == payload_bytes);
    for (size_t i = 0; i < payload_bytes; ++i) {
        REQUIRE(view->payload()[i] == static_cast<uint8_t>(i + 1));
    }
    CHECK(view->icrc_is_good());
    CHECK(view->vcrc_is_good());
}

ParseError error_of(const Bytes& bytes, Crcs crcs = Crcs::kElided) {
    const auto view = PacketView::parse(bytes, crcs);
    REQUIRE_FALSE(view.has_value());
    return view.error();
}

}  // namespace

TEST_CASE("every opcode is built and parsed, local and global, with and without CRCs") {
    for (unsigned opcode = 0; opcode < 256; ++opcode) {
        if (find_opcode(static_cast<uint8_t>(opcode)) == nullptr) {
            continue;
        }
        for (const bool global : {false, true}) {
            for (const Crcs crcs : {Crcs::kElided, Crcs::kIcrc, Crcs::kIcrcAndVcrc}) {
                CAPTURE(opcode, global, static_cast<int>(crcs));
                check_round_trip(static_cast<uint8_t>(opcode), global, crcs);
            }
        }
    }
}

TEST_CASE("the specification's example packet is built exactly") {
    PacketHeaders h;
    h.lrh = {.vl = Vl(7), .sl = Sl(1), .dlid = Lid(0x375C), .slid = Lid(0x17D2)};
    h.bth = {.opcode = 0x0A, .pkey = PKey(0x2487), .dest_qp = Qpn(0x87B1B3), .psn = Psn(0x0DEC2A)};
    h.reth = {.va = 0x01710A1C015D4002, .rkey = RKey(0x38F27A05), .dma_len = 14};
    const Bytes payload = {0xBB, 0x88, 0x4D, 0x85, 0xFD, 0x5C, 0xFB,
                           0xA4, 0x72, 0x8B, 0xC0, 0x69, 0x0E, 0xD4};
    Bytes buffer(100);
    auto builder = PacketBuilder::begin(buffer, h, payload.size(), Crcs::kIcrc);
    REQUIRE(builder);
    const std::span<const uint8_t> whole(payload);
    const std::array parts = {whole.first(5), whole.subspan(5)};
    const auto packet = builder->gather(parts).finish();
    const Bytes expected = {0x70, 0x12, 0x37, 0x5C, 0x00, 0x0E, 0x17, 0xD2, 0x0A, 0x20, 0x24, 0x87,
                            0x00, 0x87, 0xB1, 0xB3, 0x00, 0x0D, 0xEC, 0x2A, 0x01, 0x71, 0x0A, 0x1C,
                            0x01, 0x5D, 0x40, 0x02, 0x38, 0xF2, 0x7A, 0x05, 0x00, 0x00, 0x00, 0x0E,
                            0xBB, 0x88, 0x4D, 0x85, 0xFD, 0x5C, 0xFB, 0xA4, 0x72, 0x8B, 0xC0, 0x69,
                            0x0E, 0xD4, 0x00, 0x00, 0x96, 0x25, 0xB7, 0x5A};
    CHECK(Bytes(packet.begin(), packet.end()) == expected);
}

TEST_CASE("truncation at every byte is refused") {
    for (const bool global : {false, true}) {
        for (const Crcs crcs : {Crcs::kElided, Crcs::kIcrc, Crcs::kIcrcAndVcrc}) {
            const Bytes bytes = build(headers_of(0x13, global), 0, crcs);
            for (size_t length = 0; length < bytes.size(); ++length) {
                // A copy of exact length, so that the sanitizer finds a read past its end.
                const Bytes head(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length));
                CHECK_FALSE(PacketView::parse(head, crcs).has_value());
            }
        }
    }
}

TEST_CASE("truncation with a matching PktLen is refused for every opcode") {
    for (unsigned opcode = 0; opcode < 256; ++opcode) {
        if (find_opcode(static_cast<uint8_t>(opcode)) == nullptr) {
            continue;
        }
        const OpcodeInfo& info = *find_opcode(static_cast<uint8_t>(opcode));
        const Bytes bytes = build(headers_of(static_cast<uint8_t>(opcode), false),
                                  payload_for(info), Crcs::kElided);
        for (size_t length = 8; length < 8U + info.header_bytes; length += 4) {
            Bytes head(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length));
            store_be(&head[4], static_cast<uint16_t>((length + 4) / 4));
            CHECK_FALSE(PacketView::parse(head, Crcs::kElided).has_value());
        }
    }
}

TEST_CASE("each check has its error") {
    const Bytes good = build(headers_of(0x64, true), 13, Crcs::kElided);
    REQUIRE(PacketView::parse(good, Crcs::kElided).has_value());
    const auto with = [&](size_t at, uint8_t value) {
        Bytes bytes = good;
        bytes[at] = value;
        return bytes;
    };
    CHECK(error_of(with(0, 0x11)) == ParseError::kLinkVersion);
    CHECK(error_of(with(5, 1)) == ParseError::kPacketLength);
    CHECK(error_of(with(8, 0x4A)) == ParseError::kIpVersion);
    CHECK(error_of(with(14, 0x11)) == ParseError::kNextHeader);
    CHECK(error_of(with(13, good[13] + 4)) == ParseError::kGrhPayloadLength);
    CHECK(error_of(with(49, 0x01)) == ParseError::kTransportVersion);
    CHECK(error_of(with(48, 0xFF)) == ParseError::kReservedOpcode);
    CHECK(error_of(with(48, 0x6C)) == ParseError::kReservedOpcode);
    Bytes raw = good;
    raw[1] &= 0xFC;
    store_be(&raw[4], static_cast<uint16_t>(raw.size() / 4));
    CHECK(error_of(raw) == ParseError::kRaw);
    Bytes trailing = good;
    trailing.push_back(0);
    CHECK(error_of(trailing) == ParseError::kPacketLength);
}

TEST_CASE("pad and payload must fit the opcode") {
    // An acknowledge has no payload; a middle packet is a power of two without pad.
    Bytes ack = build(headers_of(0x11, false), 0, Crcs::kElided);
    ack.resize(ack.size() + 4);
    store_be(&ack[4], static_cast<uint16_t>((ack.size() + 4) / 4));
    CHECK(error_of(ack) == ParseError::kPayload);
    ack[9] |= 0x30;
    CHECK(error_of(ack) == ParseError::kPayload);

    Bytes only = build(headers_of(0x04, false), 0, Crcs::kElided);
    only[9] |= 0x10;
    CHECK(error_of(only) == ParseError::kPadCount);
    Bytes all_pad = build(headers_of(0x04, false), 1, Crcs::kElided);
    all_pad.resize(all_pad.size() - 4);
    store_be(&all_pad[4], static_cast<uint16_t>((all_pad.size() + 4) / 4));
    CHECK(error_of(all_pad) == ParseError::kPadCount);  // three bytes of pad, no byte at all
    Bytes padded = build(headers_of(0x64, false), 4, Crcs::kElided);
    padded[9] |= 0x30;
    CHECK(PacketView::parse(padded, Crcs::kElided)->payload().size() == 1);

    CHECK(error_of(build(headers_of(0x21, false), 1000, Crcs::kElided)) == ParseError::kPayload);
    CHECK(error_of(build(headers_of(0x21, false), 128, Crcs::kElided)) == ParseError::kPayload);
    CHECK(error_of(build(headers_of(0x22, false), 0, Crcs::kElided)) == ParseError::kPayload);
    Bytes huge = build(headers_of(0x21, false), kMaxPayload, Crcs::kElided);
    huge.resize(huge.size() + 904);
    store_be(&huge[4], static_cast<uint16_t>((huge.size() + 4) / 4));
    CHECK(error_of(huge) == ParseError::kPayload);
    CHECK(error_of(build(headers_of(0x80, false), 20, Crcs::kElided)) == ParseError::kPayload);
}

TEST_CASE("headers beyond the private copy of a packet are refused") {
    for (const bool global : {false, true}) {
        const Bytes whole = build(headers_of(opcode::kRdmaWriteOnly, global), 64, Crcs::kElided);
        const size_t headers = Lrh::kSize + (global ? Grh::kSize : 0) + Bth::kSize + Reth::kSize;
        for (size_t copied = 0; copied < headers; ++copied) {
            // A copy of exact length, so that the sanitizer finds a read past its end.
            const Bytes head(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(copied));
            const auto view = PacketView::parse(PacketBytes(head, whole), Crcs::kElided);
            REQUIRE_FALSE(view);
            CHECK(view.error() == ParseError::kTruncated);
        }
        const Bytes head(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(headers));
        const auto view = PacketView::parse(PacketBytes(head, whole), Crcs::kElided);
        REQUIRE(view);
        CHECK(view->payload().data() == whole.data() + headers);
    }
}

TEST_CASE("a packet without room for its checksums is refused") {
    Bytes bytes(Lrh::kSize);
    bytes[1] = 2;  // LNH: local
    bytes[5] = 2;  // PktLen
    CHECK(error_of(bytes, Crcs::kIcrc) == ParseError::kTruncated);
    bytes.resize(Lrh::kSize + kVcrcSize);
    CHECK(error_of(bytes, Crcs::kIcrcAndVcrc) == ParseError::kTruncated);
}

TEST_CASE("checksums of a packet that its sender may still change are not good") {
    const Bytes whole = build(headers_of(opcode::kSendOnly, false), 64, Crcs::kIcrcAndVcrc);
    const Bytes head(whole.begin(), whole.begin() + 64);
    const auto view = PacketView::parse(PacketBytes(head, whole), Crcs::kIcrcAndVcrc);
    REQUIRE(view);
    CHECK_FALSE(view->icrc_is_good());
    CHECK_FALSE(view->vcrc_is_good());
    CHECK_FALSE(vcrc_is_good(std::span(whole).first(Lrh::kSize + kVcrcSize - 1)));
}

TEST_CASE("packets of wrong length or opcode reach the responder of a reliable connection") {
    for (const unsigned opcode : {0x01u, 0x02u, 0xA1u, 0xA2u}) {
        for (const size_t bytes : {0, 2, 1000}) {
            const Bytes packet =
                build(headers_of(static_cast<uint8_t>(opcode), false), bytes, Crcs::kElided);
            const auto view = PacketView::parse(packet, Crcs::kElided);
            REQUIRE(view);
            CHECK(view->payload().size() == bytes);
        }
    }
    for (const unsigned opcode : {0x0Cu, 0x13u, 0xACu}) {
        Bytes read = build(headers_of(static_cast<uint8_t>(opcode), false), 0, Crcs::kElided);
        read.resize(read.size() + 4);
        store_be(&read[4], static_cast<uint16_t>((read.size() + 4) / 4));
        const auto view = PacketView::parse(read, Crcs::kElided);
        REQUIRE(view);
        CHECK(view->payload().size() == 4);
    }
    Bytes packet = build(headers_of(0x04, false), 8, Crcs::kElided);
    for (const unsigned opcode : {0x15u, 0x18u, 0x1Fu, 0xB5u, 0xBFu}) {
        packet[8] = static_cast<uint8_t>(opcode);
        const auto view = PacketView::parse(packet, Crcs::kElided);
        REQUIRE(view);
        CHECK(view->opcode().kind == OpKind::kReserved);
        CHECK(view->opcode().is_request());
        CHECK(find_opcode(packet[8]) == nullptr);
    }
    for (const unsigned opcode : {0x2Cu, 0x58u, 0x60u, 0xC0u, 0xFFu}) {
        packet[8] = static_cast<uint8_t>(opcode);
        CHECK(error_of(packet) == ParseError::kReservedOpcode);
    }
}

TEST_CASE("every flipped bit is caught by a CRC or a check") {
    const Bytes good = build(headers_of(0x0B, false), 13, Crcs::kIcrcAndVcrc);
    for (size_t bit = 0; bit < good.size() * 8; ++bit) {
        Bytes bad = good;
        bad[bit / 8] ^= static_cast<uint8_t>(1U << bit % 8);
        const auto view = PacketView::parse(bad, Crcs::kIcrcAndVcrc);
        CHECK((!view || !view->vcrc_is_good()));
        CHECK_FALSE(vcrc_is_good(bad));
    }
}

TEST_CASE("the checks of the link level pass other errors") {
    const Bytes good = build(headers_of(0x04, false), 5, Crcs::kIcrcAndVcrc);
    CHECK(parse_lrh(good, Crcs::kIcrcAndVcrc).has_value());
    CHECK(parse_lrh(good, Crcs::kIcrc).error() == ParseError::kPacketLength);
    CHECK(parse_lrh(std::span(good).first(7), Crcs::kElided).error() == ParseError::kTruncated);
    // A raw packet has a VCRC only.
    Bytes raw = good;
    raw[1] &= 0xFC;
    CHECK(parse_lrh(raw, Crcs::kIcrcAndVcrc).has_value());
    CHECK(parse_lrh(std::span(raw).first(raw.size() - 2), Crcs::kElided).has_value());
}

TEST_CASE("build() refuses invalid packets") {
    Bytes buffer(64);
    const auto error = [&](uint8_t opcode, size_t payload) {
        return PacketBuilder::begin(buffer, headers_of(opcode, false), payload, Crcs::kElided)
            .error();
    };
    CHECK(error(0x1F, 0) == BuildError::kReservedOpcode);
    CHECK(error(0x11, 1) == BuildError::kPayload);
    CHECK(error(0x04, kMaxPayload + 1) == BuildError::kPayload);
    CHECK(error(0x04, 45) == BuildError::kNoRoom);
    CHECK(PacketBuilder::begin(buffer, headers_of(0x04, false), 44, Crcs::kElided).has_value());
}

TEST_CASE("gather() writes only the payload") {
    Bytes buffer(64, 0xEE);
    auto builder = PacketBuilder::begin(buffer, headers_of(0x04, false), 6, Crcs::kElided);
    REQUIRE(builder);
    const Bytes one = {1, 2, 3, 4};
    const Bytes two = {5, 6, 7, 8};
    const std::array<std::span<const uint8_t>, 2> parts = {one, two};
    const auto packet = builder->gather(parts).finish();
    CHECK(Bytes(packet.begin() + 20, packet.end()) == Bytes{1, 2, 3, 4, 5, 6, 0, 0});
}

TEST_CASE("the largest packet fits its bounds") {
    const Bytes bytes = build(headers_of(0xAB, true), kMaxPayload, Crcs::kIcrcAndVcrc);
    CHECK(bytes.size() <= kMaxPacket);
    CHECK(PacketView::parse(bytes, Crcs::kIcrcAndVcrc).has_value());
}
