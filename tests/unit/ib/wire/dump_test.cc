// SPDX-License-Identifier: GPL-2.0-or-later
// The dump of a packet has the important fields, and accepts any bytes.
#include "ib/wire/dump.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <random>
#include <vector>

using namespace pib::ib;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string dump(const PacketHeaders& headers, size_t payload_bytes,
                 std::span<const uint8_t> payload = {}) {
    std::vector<uint8_t> buffer(kMaxPacket + kMaxHeaders);
    auto builder = PacketBuilder::begin(buffer, headers, payload_bytes, Crcs::kIcrcAndVcrc);
    REQUIRE(builder.has_value());
    const std::array parts = {payload};
    return dump_packet(builder->gather(parts).finish(), Crcs::kIcrcAndVcrc);
}

}  // namespace

TEST_CASE("the dump of an RDMA WRITE names its fields") {
    PacketHeaders h;
    h.lrh = {.sl = Sl(2), .dlid = Lid(4), .slid = Lid(3)};
    h.bth = {.opcode = 0x0A,
             .pkey = kDefaultPKey,
             .dest_qp = Qpn(0x48),
             .ack_req = true,
             .psn = Psn(17)};
    h.reth = {.va = 0x1000, .rkey = RKey(0x99), .dma_len = 64};
    const std::string line = dump(h, 64);
    CHECK_THAT(line, ContainsSubstring("3>4 vl0 sl2 RC RDMA WRITE Only qp 0x000048 psn 17"));
    CHECK_THAT(line, ContainsSubstring("ackreq"));
    CHECK_THAT(line, ContainsSubstring("va 0x1000 rkey 0x00000099 len 64"));
    CHECK_THAT(line, ContainsSubstring("+64"));
    CHECK(line.find("BAD") == std::string::npos);
}

TEST_CASE("the dump of an acknowledge names its syndrome") {
    PacketHeaders h;
    h.bth.opcode = 0x11;
    h.aeth = Aeth::nak(NakCode::kRemoteAccessError, 5);
    CHECK_THAT(dump(h, 0), ContainsSubstring("NAK remote access error msn 5"));
    h.aeth = Aeth::rnr_nak(14, 5);
    CHECK_THAT(dump(h, 0), ContainsSubstring("RNR NAK timer 14"));
}

TEST_CASE("the dump of an acknowledge has codes and syndromes that are reserved") {
    PacketHeaders h;
    h.bth.opcode = opcode::kAcknowledge;
    h.aeth = Aeth::ack(31, 7);
    CHECK_THAT(dump(h, 0), ContainsSubstring(" ack credits 31 msn 7"));
    h.aeth.syndrome = 0x65;  // NAK code 5
    CHECK_THAT(dump(h, 0), ContainsSubstring(" NAK reserved msn 7"));
    h.aeth.syndrome = 0x41;  // bits 6:5 are 2
    CHECK_THAT(dump(h, 0), ContainsSubstring(" reserved syndrome 0x41 msn 7"));
}

TEST_CASE("the dump names the fields of each extended header") {
    PacketHeaders h;
    h.xrceth.xrc_srq = 0x50;
    h.reth = {.va = 0x1000, .rkey = RKey(0x99), .dma_len = 64};
    h.atomic_eth = {.va = 8, .rkey = RKey(9), .swap_or_add = 10, .compare = 11};
    h.masked_atomic_eth = {.atomic = h.atomic_eth, .swap_mask = 12, .compare_mask = 13};
    h.feth = {.placement = Feth::kPersistence, .selectivity = Feth::kRegion};
    h.atomic_ack_eth.original_data = 0x1234;
    h.imm_dt.data = {1, 2, 3, 4};
    h.ieth.rkey = RKey(0x14);
    const auto of = [&](uint8_t opcode, size_t payload = 0) {
        h.bth.opcode = opcode;
        return dump(h, payload);
    };
    CHECK_THAT(of(opcode::kFetchAdd),
               ContainsSubstring(" va 0x8 rkey 0x00000009 swap/add 0xa cmp 0xb"));
    CHECK(of(opcode::kFetchAdd).find("masks") == std::string::npos);
    CHECK_THAT(of(opcode::kMaskedCmpSwap),
               ContainsSubstring(" va 0x8 rkey 0x00000009 swap/add 0xa cmp 0xb masks 0xc 0xd"));
    CHECK_THAT(of(opcode::kAtomicAcknowledge), ContainsSubstring(" orig 0x1234"));
    CHECK_THAT(of(opcode::kSendOnlyInvalidate, 4), ContainsSubstring(" invalidate 0x00000014 +4"));
    CHECK_THAT(of(opcode::kFlush), ContainsSubstring(" placement 2 level 1 va 0x1000"));
    CHECK_THAT(of(opcode::kXrc | opcode::kSendOnlyImm, 4),
               ContainsSubstring(" srq 0x000050 imm 01020304 +4"));
}

TEST_CASE("the dump has the GIDs of a GRH, the bits of the BTH and bad checksums") {
    PacketHeaders h;
    h.grh.emplace();
    h.grh->sgid = Gid::from(kDefaultGidPrefix, Guid(1));
    h.grh->dgid = Gid::from(kDefaultGidPrefix, Guid(0xABC));
    h.bth = {.opcode = opcode::kSendOnly, .solicited_event = true, .fecn = true, .becn = true};
    std::vector<uint8_t> buffer(kMaxPacket + kMaxHeaders);
    auto builder = PacketBuilder::begin(buffer, h, 4, Crcs::kIcrcAndVcrc);
    REQUIRE(builder);
    const auto built = builder->finish();
    std::vector<uint8_t> packet(built.begin(), built.end());
    const std::string good = dump_packet(packet, Crcs::kIcrcAndVcrc);
    CHECK_THAT(good,
               ContainsSubstring(
                   "grh fe80000000000000:0000000000000001>fe80000000000000:0000000000000abc"));
    CHECK_THAT(good, ContainsSubstring(" se fecn becn"));
    CHECK(good.find("BAD") == std::string::npos);
    packet[packet.size() - 3] ^= 1;
    CHECK_THAT(dump_packet(packet, Crcs::kIcrcAndVcrc), ContainsSubstring(" BAD-ICRC BAD-VCRC"));
}

TEST_CASE("the dump of a MAD names attributes by class, and has the status") {
    Mad mad;
    mad.bytes[1] = 0x04;
    mad.bytes[3] = 0x81;
    mad.set(mad_header::kAttributeId, attr::kPortCounters);
    CHECK_THAT(dump_mad(mad), ContainsSubstring("MAD Perf GetResp PortCounters mod 0x0"));
    mad.set(mad_header::kStatus, 0x1c);
    CHECK_THAT(dump_mad(mad), ContainsSubstring(" status 0x001c"));
    mad.bytes[1] = 0x03;  // SA, whose attributes dump_mad() does not name
    mad.bytes[3] = 0x12;
    CHECK_THAT(dump_mad(mad), ContainsSubstring("MAD SA 0x12 0x12 mod"));
    mad.bytes[1] = 0x7f;
    CHECK_THAT(dump_mad(mad), ContainsSubstring("MAD 0x7f 0x12"));
    mad.bytes[1] = 0x81;
    mad.bytes[4] = 0x80;  // D: on the way back
    mad.bytes[7] = 255;   // more hops than the path has
    initial_path(mad)[63] = 9;
    CHECK_THAT(dump_mad(mad), ContainsSubstring(" back hop 0/255 path 0,0"));
    CHECK(dump_mad(mad).ends_with(",9"));
}

TEST_CASE("the dump of a MAD names its attribute") {
    Mad mad;
    mad.bytes[1] = 0x81;
    mad.bytes[3] = 0x01;
    mad.bytes[7] = 2;
    mad.set(mad_header::kAttributeId, attr::kNodeInfo);
    initial_path(mad)[1] = 1;
    initial_path(mad)[2] = 7;
    PacketHeaders h;
    h.lrh.vl = kVl15;
    h.bth.opcode = 0x64;
    const std::string line = dump(h, kMadSize, mad.bytes);
    CHECK_THAT(line, ContainsSubstring("vl15"));
    CHECK_THAT(line, ContainsSubstring("MAD DR-SMP Get NodeInfo"));
    CHECK_THAT(line, ContainsSubstring("out hop 0/2 path 1,7"));
}

TEST_CASE("any bytes can be dumped") {
    CHECK_THAT(dump_packet({}, Crcs::kElided), ContainsSubstring("truncated"));
    std::mt19937 random(5);
    for (int run = 0; run < 2000; ++run) {
        std::vector<uint8_t> bytes(random() % 400);
        for (auto& byte : bytes) {
            byte = static_cast<uint8_t>(random());
        }
        if (bytes.size() >= 8) {
            bytes[0] &= 0xF0;
            bytes.resize(bytes.size() / 4 * 4);
            store_be(&bytes[4], static_cast<uint16_t>((bytes.size() + 4) / 4));
        }
        CHECK_FALSE(dump_packet(bytes, Crcs::kElided).empty());
        Mad mad;
        std::copy_n(bytes.begin(), std::min(bytes.size(), mad.bytes.size()), mad.bytes.begin());
        CHECK_FALSE(dump_mad(mad).empty());
    }
}
