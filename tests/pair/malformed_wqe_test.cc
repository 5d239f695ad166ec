// SPDX-License-Identifier: GPL-2.0-or-later
// Malformed WQEs: each completes with the status that IBA names and takes its QP to Error (a UD QP
// to SQE), and later WQEs are flushed. Values at the limits are accepted.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include "pair.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

struct Case {
    const char* what;
    void (*spoil)(std::vector<uint8_t>& wqe);
    uint8_t status;
    VendorError detail;
};

using Wqe = std::vector<uint8_t>&;

void put32(Wqe wqe, size_t offset, uint32_t value) {
    std::memcpy(wqe.data() + offset, &value, sizeof value);
}

const Case kMalformed[] = {
    Case{"opcode 63", [](Wqe w) { w[0] = 63; }, PIB_HCA_WC_LOC_QP_OP_ERR, VendorError::kOpcode},
    Case{"opcode 255", [](Wqe w) { w[0] = 0xff; }, PIB_HCA_WC_LOC_QP_OP_ERR, VendorError::kOpcode},
    Case{"unknown flag", [](Wqe w) { w[1] |= 0x80; }, PIB_HCA_WC_LOC_QP_OP_ERR,
         VendorError::kReserved},
    Case{"reserved byte", [](Wqe w) { w[3] = 1; }, PIB_HCA_WC_LOC_QP_OP_ERR,
         VendorError::kReserved},
    Case{"reserved word", [](Wqe w) { w[15] = 1; }, PIB_HCA_WC_LOC_QP_OP_ERR,
         VendorError::kReserved},
    Case{"33 SGEs", [](Wqe w) { w[2] = 33; }, PIB_HCA_WC_LOC_QP_OP_ERR, VendorError::kSgeCount},
    Case{"SGEs beyond the WQE", [](Wqe w) { w[2] = 16; }, PIB_HCA_WC_LOC_QP_OP_ERR,
         VendorError::kSgeCount},
    Case{"inline beyond max_inline",
         [](Wqe w) { w[1] |= PIB_HCA_WQE_INLINE, w[2] = 0, put32(w, 8, 193); },
         PIB_HCA_WC_LOC_LEN_ERR, VendorError::kInline},
    Case{"inline of 4 GiB",
         [](Wqe w) { w[1] |= PIB_HCA_WQE_INLINE, w[2] = 0, put32(w, 8, 0xffffffff); },
         PIB_HCA_WC_LOC_LEN_ERR, VendorError::kInline},
    Case{"inline with SGEs", [](Wqe w) { w[1] |= PIB_HCA_WQE_INLINE; }, PIB_HCA_WC_LOC_QP_OP_ERR,
         VendorError::kInline},
    Case{"inline length without the flag", [](Wqe w) { w[8] = 1; }, PIB_HCA_WC_LOC_QP_OP_ERR,
         VendorError::kReserved},
    Case{"more than 2^31 bytes", [](Wqe w) { put32(w, 16 + 8, 0x80000001); },
         PIB_HCA_WC_LOC_LEN_ERR, VendorError::kLength},
    Case{"2^32 bytes in two SGEs",
         [](Wqe w) {
             std::copy_n(w.begin() + 16, 16, w.begin() + 32);
             w[2] = 2, put32(w, 16 + 8, 0x80000000), put32(w, 32 + 8, 0x80000000);
         },
         PIB_HCA_WC_LOC_LEN_ERR, VendorError::kLength},
    Case{"wrong L_Key", [](Wqe w) { w[16 + 12] ^= 1; }, PIB_HCA_WC_LOC_PROT_ERR,
         VendorError::kLocalKey},
    Case{"inline READ",
         [](Wqe w) { w[0] = PIB_HCA_WQE_RDMA_READ, w[1] |= PIB_HCA_WQE_INLINE, w[2] = 0; },
         PIB_HCA_WC_LOC_QP_OP_ERR, VendorError::kInline},
    Case{"reserved word of RDMA", [](Wqe w) { w[0] = PIB_HCA_WQE_RDMA_WRITE, w[28] = 1; },
         PIB_HCA_WC_LOC_QP_OP_ERR, VendorError::kReserved},
    Case{"atomic without 8 bytes",
         [](Wqe w) {
             std::fill(w.begin() + 16, w.end(), uint8_t{0});
             w[0] = PIB_HCA_WQE_FETCH_ADD, w[2] = 0;
         },
         PIB_HCA_WC_LOC_LEN_ERR, VendorError::kLength},
    Case{"atomic with masks",
         [](Wqe w) {
             w[0] = PIB_HCA_WQE_FETCH_ADD;
             w[48] = 1;
         },
         PIB_HCA_WC_LOC_QP_OP_ERR, VendorError::kReserved}};

}  // namespace

TEST_CASE("a malformed RC WQE fails, earlier ones succeed, later ones are flushed") {
    const Case c = GENERATE(from_range(kMalformed));
    INFO(c.what);
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    const Buffer buffer = pair.a.make_buffer(4096);
    const Buffer target = pair.b.make_buffer(4096);
    pair.b.post_recv(qb, {target.all()});
    pair.b.post_recv(qb, {target.all()});

    const SendWr good{.flags = 0, .sges = {buffer.sge(0, 100)}};
    pair.a.write_send(qa, good);
    auto bad = encode(qa, good);
    c.spoil(bad);
    pair.a.write_raw_send(qa, bad);
    pair.a.write_send(qa, good);
    pair.a.ring(qa);
    pair.settle();

    const auto cqes = pair.a.poll_all(qa);
    REQUIRE(cqes.size() == 2);
    CHECK(cqes[0].wqe_counter == 1);
    CHECK(cqes[0].status == c.status);
    CHECK(cqes[0].vendor_error == static_cast<uint8_t>(c.detail));
    CHECK(cqes[1].vendor_error == 0);
    CHECK(cqes[1].wqe_counter == 2);
    CHECK(cqes[1].status == PIB_HCA_WC_WR_FLUSH_ERR);
    CHECK(pair.a.state(qa) == PIB_HCA_QPS_ERR);
    CHECK(pair.b.poll_all(qb).size() == 1);
    CHECK(pair.b.state(qb) == PIB_HCA_QPS_RTS);
}

TEST_CASE("a WQE is copied before its checks") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    const Buffer buffer = pair.a.make_buffer(4096);
    const Buffer target = pair.b.make_buffer(4096);
    pair.b.post_recv(qb, {target.all()});
    pair.a.write_send(qa, {.sges = {buffer.sge(0, 100)}});
    const uint64_t wqe = qa.addr + qa.sq_offset;
    unsigned reads = 0;
    pair.a.host.before_dma = [&](uint64_t addr, size_t bytes, bool) {
        if (addr <= wqe && wqe < addr + bytes) {
            ++reads;
        } else if (reads != 0) {
            pair.a.host.poke<uint8_t>(wqe + 2, 255);
        }
    };
    pair.a.ring(qa);
    pair.settle();
    CHECK(reads == 1);
    REQUIRE(pair.a.poll_all(qa).size() == 1);
    CHECK(pair.b.poll_all(qb)[0].byte_count == 100);
}

TEST_CASE("WQEs with 32 SGEs or the largest inline data complete") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair({}, {.log_sq_stride = 10, .log_rq_stride = 10});
    const Buffer buffer = pair.a.make_buffer(4096);
    const Buffer target = pair.b.make_buffer(4096);
    pair.b.post_recv(qb, std::vector<pib_hca_sge>(32, target.sge(0, 100)));
    pair.b.post_recv(qb, {target.all()});
    pair.a.post(qa, {.sges = std::vector<pib_hca_sge>(32, buffer.sge(0, 7))});
    pair.a.post(qa, {.inline_data = std::vector<uint8_t>(960, 0x5a)});
    pair.settle();
    const auto received = pair.b.poll_all(qb);
    REQUIRE(received.size() == 2);
    CHECK(received[0].byte_count == 224);
    CHECK(received[1].byte_count == 960);
    CHECK(pair.b.host.peek<uint8_t>(target.addr + 959) == 0x5a);
}

TEST_CASE("a malformed receive WQE ends both QPs with an error") {
    struct Spoil {
        uint64_t offset;
        uint8_t value;
    };
    const Spoil spoil = GENERATE(Spoil{0, 33}, Spoil{0, 255}, Spoil{3, 1}, Spoil{8, 1});
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    const Buffer target = pair.b.make_buffer(4096);
    pair.b.post_recv(qb, {target.all()});
    pair.b.post_recv(qb, {target.all()});
    pair.b.host.poke<uint8_t>(qb.addr + qb.rq_offset + spoil.offset, spoil.value);
    pair.a.post(qa, {});
    pair.settle();
    const auto received = pair.b.poll_all(qb);
    REQUIRE(received.size() == 2);
    CHECK(received[0].status == PIB_HCA_WC_LOC_QP_OP_ERR);
    CHECK(received[1].status == PIB_HCA_WC_WR_FLUSH_ERR);
    CHECK(pair.a.poll(qa)->status == PIB_HCA_WC_REM_OP_ERR);
    CHECK(pair.a.state(qa) == PIB_HCA_QPS_ERR);
    CHECK(pair.b.state(qb) == PIB_HCA_QPS_ERR);
}

TEST_CASE("an impossible producer moves only its QP to Error") {
    const uint32_t jump = GENERATE(65u, 1000u, 0x80000000u, 0xffffffffu);
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    const bool receive_side = GENERATE(false, true);
    if (receive_side) {
        pair.b.set_rq_producer(qb, jump);
        pair.a.post(qa, {});
        pair.settle();
        CHECK(pair.b.state(qb) == PIB_HCA_QPS_ERR);
        CHECK(pair.b.saw_event(PIB_HCA_EVENT_QP_FATAL, qb.qpn));
        return;
    }
    pair.a.set_sq_producer(qa, jump);
    pair.a.ring(qa);
    pair.settle();
    CHECK(pair.a.state(qa) == PIB_HCA_QPS_ERR);
    CHECK(pair.a.saw_event(PIB_HCA_EVENT_QP_FATAL, qa.qpn));
    CHECK(pair.a.poll_all(qa).empty());
    CHECK(pair.b.state(qb) == PIB_HCA_QPS_RTS);
}

TEST_CASE("requests under way keep their places in the queue") {
    const bool overrun = GENERATE(false, true);
    const SendWr wr{.opcode = PIB_HCA_WQE_RDMA_WRITE};
    Pair pair;
    auto [qa, qb] = pair.rc_pair({.timeout = 0}, {.log_depth = 2});
    pair.filter = [](const pib::ib::PacketView&) { return false; };
    for (int i = 0; i < 3; ++i) {
        pair.a.post(qa, wr);
    }
    pair.settle();
    pair.a.write_send(qa, wr);
    if (overrun) {
        pair.a.write_send(qa, wr);  // overwrites the first WQE
    }
    pair.a.ring(qa);
    pair.settle();
    CHECK(pair.a.state(qa) == (overrun ? PIB_HCA_QPS_ERR : PIB_HCA_QPS_RTS));
    CHECK(pair.a.saw_event(PIB_HCA_EVENT_QP_FATAL, qa.qpn) == overrun);
}

TEST_CASE("a full queue works, and its counters wrap around") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair({}, {.log_depth = 2});
    for (int round = 0; round < 10; ++round) {
        for (int i = 0; i < 4; ++i) {
            pair.b.post_recv(qb, {});
            pair.a.write_send(qa, {});
        }
        pair.a.ring(qa);
        pair.settle();
        CHECK(pair.a.poll_all(qa).size() == 4);
        CHECK(pair.b.poll_all(qb).size() == 4);
    }
}
