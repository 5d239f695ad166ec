// SPDX-License-Identifier: GPL-2.0-or-later
// Each header is written as the bytes that IBA draws, and is parsed back.
#include "ib/wire/headers.h"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <vector>

using namespace pib::ib;

namespace {

template <typename Header>
std::vector<uint8_t> bytes_of(const Header& header) {
    std::array<uint8_t, Header::kSize> out;
    out.fill(0xEE);  // every byte must be written
    header.write(out);
    return {out.begin(), out.end()};
}

template <typename Header>
void check(const Header& header, const std::vector<uint8_t>& expected) {
    const auto bytes = bytes_of(header);
    CHECK(bytes == expected);
    CHECK(Header::parse(std::span(bytes).template first<Header::kSize>()) == header);
}

}  // namespace

TEST_CASE("LRH fields have their places") {
    check(Lrh{.vl = Vl(7),
              .lver = 0,
              .sl = Sl(1),
              .lnh = Lnh::kIbaLocal,
              .dlid = Lid(0x375C),
              .pkt_len = 0x00E,
              .slid = Lid(0x17D2)},
          {0x70, 0x12, 0x37, 0x5C, 0x00, 0x0E, 0x17, 0xD2});
}

TEST_CASE("GRH fields have their places") {
    Grh grh{.tclass = 0xAB, .flow_label = 0x12345, .pay_len = 0x0102, .hop_lmt = 64};
    grh.sgid.bytes[0] = 0xFE;
    grh.dgid.bytes[15] = 0x99;
    std::vector<uint8_t> expected = {0x6A, 0xB1, 0x23, 0x45, 0x01, 0x02, 0x1B, 0x40};
    expected.resize(40);
    expected[8] = 0xFE;
    expected[39] = 0x99;
    check(grh, expected);
}

TEST_CASE("BTH fields have their places") {
    check(Bth{.opcode = 0x0A,
              .solicited_event = true,
              .mig_req = true,
              .pad_count = 2,
              .pkey = PKey(0x2487),
              .fecn = true,
              .becn = true,
              .dest_qp = Qpn(0x87B1B3),
              .ack_req = true,
              .psn = Psn(0x0DEC2A)},
          {0x0A, 0xE0, 0x24, 0x87, 0xC0, 0x87, 0xB1, 0xB3, 0x80, 0x0D, 0xEC, 0x2A});
}

TEST_CASE("fields of extended transport headers have their places") {
    check(Rdeth{.ee_context = 0x123456}, {0, 0x12, 0x34, 0x56});
    check(Deth{.qkey = QKey(0x80010000), .src_qp = Qpn(0x000102)}, {0x80, 1, 0, 0, 0, 0, 1, 2});
    check(Reth{.va = 0x0102030405060708, .rkey = RKey(0x11223344), .dma_len = 0x100},
          {1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x22, 0x33, 0x44, 0, 0, 1, 0});
    check(AtomicEth{.va = 0x10, .rkey = RKey(2), .swap_or_add = 3, .compare = 4},
          {0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4});
    check(AtomicAckEth{.original_data = 0x0102}, {0, 0, 0, 0, 0, 0, 1, 2});
    check(ImmDt{.data = {9, 8, 7, 6}}, {9, 8, 7, 6});
    check(Ieth{.rkey = RKey(0xDEADBEEF)}, {0xDE, 0xAD, 0xBE, 0xEF});
    check(Xrceth{.xrc_srq = 0x00ABCD}, {0, 0, 0xAB, 0xCD});
}

TEST_CASE("an AETH syndrome has a kind and a value") {
    check(Aeth::ack(31, 7), {0x1F, 0, 0, 7});
    check(Aeth::rnr_nak(14, 0x123456), {0x2E, 0x12, 0x34, 0x56});
    check(Aeth::nak(NakCode::kRemoteAccessError, 1), {0x62, 0, 0, 1});
    CHECK(Aeth::ack(3, 0).kind() == AethKind::kAck);
    CHECK(Aeth::rnr_nak(3, 0).kind() == AethKind::kRnrNak);
    CHECK(Aeth::nak(NakCode::kInvalidRequest, 0).kind() == AethKind::kNak);
    CHECK(Aeth::nak(NakCode::kInvalidRequest, 0).code() == 1);
    CHECK(Aeth{.syndrome = 0x40, .msn = 0}.kind() == AethKind::kReserved);
}

TEST_CASE("RNR timers and credits follow their tables") {
    CHECK(rnr_timer_ns(0) == 655'360'000);
    CHECK(rnr_timer_ns(1) == 10'000);
    CHECK(rnr_timer_ns(2) == 20'000);
    CHECK(rnr_timer_ns(3) == 30'000);
    CHECK(rnr_timer_ns(12) == 640'000);
    CHECK(rnr_timer_ns(31) == 491'520'000);
    // From code 4 on, each time is twice that of the code two before.
    for (uint8_t code = 4; code < 32; ++code) {
        CHECK(rnr_timer_ns(code) == 2 * rnr_timer_ns(static_cast<uint8_t>(code - 2)));
    }
    const uint32_t counts[] = {0,    1,    2,    3,    4,    6,     8,     12,    16,   24,   32,
                               48,   64,   96,   128,  192,  256,   384,   512,   768,  1024, 1536,
                               2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};
    for (uint8_t code = 0; code < 31; ++code) {
        CHECK(credit_count(code) == counts[code]);
        CHECK(credit_code(counts[code]) == code);
    }
    CHECK_FALSE(credit_count(31).has_value());
    for (uint32_t credits = 0; credits < counts[30]; ++credits) {
        const uint8_t code = credit_code(credits);
        CHECK((counts[code] <= credits && credits < counts[code + 1]));
    }
    CHECK(credit_code(1'000'000) == 30);
    CHECK(credit_code(0xFFFF'FFFF) == 30);
}
