// SPDX-License-Identifier: GPL-2.0-or-later
// The dump names what a reader looks for, and takes any bytes.
#include "ib/wire/dump.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <random>
#include <vector>

using namespace pib::ib;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string dump(const PacketHeaders& headers, std::size_t payload_bytes,
                 std::span<const std::uint8_t> payload = {}) {
    std::vector<std::uint8_t> buffer(kMaxPacket + kMaxHeaders);
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

TEST_CASE("the dump of a MAD names its attribute") {
    Mad mad;
    mad.bytes[1] = 0x81;
    mad.bytes[3] = 0x01;
    mad.bytes[7] = 2;
    mad.set(mad_header::kAttributeId, attr::kNodeInfo);
    mad.initial_path()[1] = 1;
    mad.initial_path()[2] = 7;
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
        std::vector<std::uint8_t> bytes(random() % 400);
        for (auto& byte : bytes) {
            byte = static_cast<std::uint8_t>(random());
        }
        if (bytes.size() >= 8) {
            bytes[0] &= 0xF0;
            bytes.resize(bytes.size() / 4 * 4);
            store_be(&bytes[4], static_cast<std::uint16_t>((bytes.size() + 4) / 4));
        }
        CHECK_FALSE(dump_packet(bytes, Crcs::kElided).empty());
        Mad mad;
        std::copy_n(bytes.begin(), std::min(bytes.size(), mad.bytes.size()), mad.bytes.begin());
        CHECK_FALSE(dump_mad(mad).empty());
    }
}
