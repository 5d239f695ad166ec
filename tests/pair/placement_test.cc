// SPDX-License-Identifier: GPL-2.0-or-later
// FLUSH and ATOMIC WRITE (IBA annex A19), masked atomics: their effects, the rights that they need,
// refusals by a responder, and that a repeated request does nothing twice.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "ib/wire/opcode.h"
#include "key_requests.h"
#include "pair.h"

using namespace pib::hca;
using namespace pib::hca::test;
namespace op = pib::ib::opcode;

namespace {

constexpr uint32_t kFlushable = Hca::kAllAccess | PIB_HCA_ACCESS_FLUSH_GLOBAL;

struct Placement : Pair {
    explicit Placement(uint32_t qp_access = kFlushable) {
        auto connection = rc_pair({.access_flags = qp_access});
        qa = connection.a;
        qb = connection.b;
        from = a.make_buffer(4096);
        to = b.make_buffer(8192, kFlushable);
    }
    pib_hca_cqe result(const SendWr& wr) {
        cqe.reset();
        a.post(qa, wr);
        REQUIRE(run_until([&] {
            cqe = cqe ? cqe : a.poll(qa);
            return cqe.has_value();
        }));
        return *cqe;
    }
    uint8_t status(const SendWr& wr) { return result(wr).status; }

    pib_hca_wqe_flush flush() const {
        return {.remote_addr = to.addr,
                .rkey = to.key,
                .length = 4096,
                .placement = PIB_HCA_FLUSH_GLOBAL,
                .level = PIB_HCA_FLUSH_RANGE,
                .reserved = {}};
    }
    static SendWr wr(const pib_hca_wqe_flush& flush) {
        return {.opcode = PIB_HCA_WQE_FLUSH, .segment = bytes_of(flush)};
    }
    SendWr atomic_write(uint64_t value, uint64_t offset = 0) const {
        return {.opcode = PIB_HCA_WQE_ATOMIC_WRITE,
                .inline_data = bytes_of(value),
                .remote_addr = to.addr + offset,
                .rkey = to.key};
    }
    SendWr masked(uint8_t opcode, uint64_t operand, uint64_t swap_mask, uint64_t compare,
                  uint64_t compare_mask) const {
        return {.opcode = opcode,
                .sges = {from.sge(0, 8)},
                .remote_addr = to.addr,
                .rkey = to.key,
                .swap_or_add = operand,
                .compare = compare,
                .swap_mask = swap_mask,
                .compare_mask = compare_mask};
    }
    uint64_t word(uint64_t offset = 0) const { return b.host.peek<uint64_t>(to.addr + offset); }

    Qp qa, qb;
    Buffer from, to;
    std::optional<pib_hca_cqe> cqe;
};

}  // namespace

TEST_CASE("FLUSH of a range or a region completes after the WRITEs before it") {
    Placement p;
    auto flush = p.flush();
    SECTION("range") {}
    SECTION("no bytes") {
        flush.length = 0;
    }
    SECTION("region") {
        flush.level = PIB_HCA_FLUSH_REGION;
        flush.length = 0;
        flush.remote_addr = 0;
    }
    p.a.host.poke<uint64_t>(p.from.addr, 99);
    uint64_t barriers_after_write = 0;
    p.tap = [&](const pib::ib::PacketView& packet) {
        if (packet.opcode().kind == pib::ib::OpKind::kFlush) {
            CHECK(packet.payload().empty());
            barriers_after_write = p.b.host.barriers;
        }
    };
    p.a.write_send(p.qa, {.opcode = PIB_HCA_WQE_RDMA_WRITE,
                          .flags = 0,
                          .sges = {p.from.sge(0, 8)},
                          .remote_addr = p.to.addr,
                          .rkey = p.to.key});
    const auto cqe = p.result(Placement::wr(flush));
    CHECK(cqe.status == PIB_HCA_WC_SUCCESS);
    CHECK(cqe.opcode == PIB_HCA_CQE_FLUSH);
    CHECK(cqe.byte_count == 0);
    CHECK(p.b.host.barriers > barriers_after_write);
    CHECK(p.word() == 99);
}

TEST_CASE("FLUSH that is not allowed is a remote access error") {
    Placement p(kFlushable | PIB_HCA_ACCESS_FLUSH_PERSISTENT);
    auto flush = p.flush();
    SECTION("a right that the region does not have") {
        flush.placement = PIB_HCA_FLUSH_PERSISTENT;
    }
    SECTION("both rights") {
        flush.placement = PIB_HCA_FLUSH_GLOBAL | PIB_HCA_FLUSH_PERSISTENT;
    }
    SECTION("a region without the right") {
        flush.rkey = p.b.make_buffer(4096).key;
    }
    SECTION("range beyond the region") {
        flush.length = 8193;
    }
    SECTION("no such region") {
        flush.rkey ^= 1;
    }
    SECTION("no key") {
        flush.rkey ^= 1;
        flush.level = PIB_HCA_FLUSH_REGION;
        flush.length = 0;
    }
    SECTION("zero bytes with a wrong key") {
        flush.rkey ^= 1;
        flush.length = 0;
    }
    CHECK(p.status(Placement::wr(flush)) == PIB_HCA_WC_REM_ACCESS_ERR);
    CHECK(p.b.state(p.qb) == PIB_HCA_QPS_ERR);
}

TEST_CASE("FLUSH and ATOMIC WRITE without the QP's permission are invalid requests") {
    Placement p(PIB_HCA_ACCESS_REMOTE_READ);
    const bool flush = GENERATE(false, true);
    CHECK(p.status(flush ? Placement::wr(p.flush()) : p.atomic_write(1)) ==
          PIB_HCA_WC_REM_INV_REQ_ERR);
    CHECK(p.word() == 0);
}

TEST_CASE("malformed FLUSH WQEs fail") {
    Placement p;
    auto flush = p.flush();
    SECTION("no placement") {
        flush.placement = 0;
    }
    SECTION("unknown placement") {
        flush.placement = 4;
    }
    SECTION("unknown level") {
        flush.level = 2;
    }
    SECTION("length of a region") {
        flush.level = PIB_HCA_FLUSH_REGION;
    }
    SECTION("reserved") {
        flush.reserved[13] = 1;
    }
    CHECK(p.status(Placement::wr(flush)) == PIB_HCA_WC_LOC_QP_OP_ERR);
}

TEST_CASE("ATOMIC WRITE writes one word, from inline data or SGEs") {
    Placement p;
    p.b.host.poke<uint64_t>(p.to.addr + 8, 7);
    SECTION("inline") {
        const auto cqe = p.result(p.atomic_write(0x1122334455667788));
        CHECK(cqe.status == PIB_HCA_WC_SUCCESS);
        CHECK(cqe.opcode == PIB_HCA_CQE_ATOMIC_WRITE);
    }
    SECTION("from two SGEs") {
        p.a.host.poke<uint64_t>(p.from.addr, 0x1122334455667788);
        SendWr wr = p.atomic_write(0);
        wr.inline_data.clear();
        wr.sges = {p.from.sge(0, 3), p.from.sge(3, 5)};
        CHECK(p.status(wr) == PIB_HCA_WC_SUCCESS);
    }
    SECTION("inline on a QP without inline data") {
        auto plain = p.rc_pair({.access_flags = kFlushable}, {.log_sq_stride = 6});
        p.qa = plain.a;
        CHECK(p.status(p.atomic_write(0x1122334455667788)) == PIB_HCA_WC_SUCCESS);
    }
    CHECK(p.word() == 0x1122334455667788);
    CHECK(p.word(8) == 7);
}

TEST_CASE("malformed ATOMIC WRITE WQEs fail") {
    Placement p;
    SECTION("other lengths") {
        SendWr wr = p.atomic_write(1);
        wr.inline_data.resize(GENERATE(1, 7, 9));
        CHECK(p.status(wr) == PIB_HCA_WC_LOC_LEN_ERR);
    }
    SECTION("misaligned") {
        CHECK(p.status(p.atomic_write(1, 4)) == PIB_HCA_WC_REM_INV_REQ_ERR);
    }
    SECTION("beyond the region") {
        CHECK(p.status(p.atomic_write(1, 8192)) == PIB_HCA_WC_REM_ACCESS_ERR);
    }
    SECTION("without the right") {
        SendWr wr = p.atomic_write(1);
        const Buffer readable = p.b.make_buffer(4096, PIB_HCA_ACCESS_REMOTE_READ);
        wr.remote_addr = readable.addr;
        wr.rkey = readable.key;
        CHECK(p.status(wr) == PIB_HCA_WC_REM_ACCESS_ERR);
    }
    SECTION("QP without resources for READs") {
        auto none = p.rc_pair({.max_rd_atomic = 0, .access_flags = kFlushable});
        p.qa = none.a;
        CHECK(p.status(p.atomic_write(1)) == PIB_HCA_WC_LOC_QP_OP_ERR);
    }
    CHECK(p.word() == 0);
}

TEST_CASE("malformed packets of FLUSH and ATOMIC WRITE are invalid requests") {
    Placement p;
    pib::ib::PacketHeaders headers;
    headers.lrh.dlid = pib::ib::Lid(p.b.port.lid());
    headers.lrh.slid = pib::ib::Lid(p.a.port.lid());
    headers.bth = {.opcode = op::kFlush, .dest_qp = pib::ib::Qpn(p.qb.qpn)};
    headers.bth.mig_req = true;
    headers.bth.pkey = pib::ib::kDefaultPKey;
    headers.reth = {.va = p.to.addr, .rkey = pib::ib::RKey(p.to.key), .dma_len = 8};
    headers.feth = {.placement = 1, .selectivity = 0};
    size_t payload = 0;
    SECTION("no placement") {
        headers.feth.placement = 0;
    }
    SECTION("reserved placement") {
        headers.feth.placement = 5;
    }
    SECTION("reserved level") {
        headers.feth.selectivity = 2;
    }
    SECTION("ATOMIC WRITE of 4 bytes") {
        headers.bth.opcode = op::kAtomicWrite;
        payload = 4;
    }
    SECTION("ATOMIC WRITE of 8 bytes with length 16") {
        headers.bth.opcode = op::kAtomicWrite;
        headers.reth.dma_len = 16;
        payload = 8;
    }
    const std::vector<uint8_t> bytes(payload, 0xff);
    bool naked = false;
    p.tap = [&](const pib::ib::PacketView& packet) {
        const auto aeth = packet.aeth();
        naked = naked || (aeth && aeth->kind() == pib::ib::AethKind::kNak &&
                          aeth->code() == static_cast<uint8_t>(pib::ib::NakCode::kInvalidRequest));
    };
    p.inject(p.b, headers, bytes);
    p.settle();
    CHECK(naked);
    CHECK(p.b.state(p.qb) == PIB_HCA_QPS_ERR);
    CHECK(p.word() == 0);
}

TEST_CASE("repeated requests are answered again and not executed again") {
    Placement p;
    p.filter = [&](const pib::ib::PacketView& packet) {
        return !packet.opcode().is_response() || p.random() % 3 != 0;
    };
    unsigned done = 0;
    for (uint64_t i = 1; i <= 8; ++i) {
        p.a.write_send(p.qa, p.atomic_write(i, 8 * i));
        p.a.write_send(p.qa, Placement::wr(p.flush()));
        p.a.write_send(p.qa, p.masked(PIB_HCA_WQE_MASKED_FETCH_ADD, 1, 0, 0, 0));
    }
    p.a.ring(p.qa);
    REQUIRE(p.run_until([&] {
        for (const auto& cqe : p.a.poll_all(p.qa)) {
            CHECK(cqe.status == PIB_HCA_WC_SUCCESS);
            ++done;
        }
        return done == 24;
    }));
    CHECK(p.word() == 8);
    for (uint64_t i = 1; i <= 8; ++i) {
        CHECK(p.word(8 * i) == i);
    }
}

TEST_CASE("masked atomics compare, swap and add within their masks") {
    Placement p;
    p.b.host.poke<uint64_t>(p.to.addr, 0x00ff'1234'ffff'5678);
    const auto fetched = [&] { return p.a.host.peek<uint64_t>(p.from.addr); };
    SECTION("equal under the mask") {
        const auto wr = p.masked(PIB_HCA_WQE_MASKED_CMP_SWAP, 0xaaaa'bbbb'cccc'dddd,
                                 0xffff'0000'0000'00ff, 0x1234'0000'0000, 0xffff'0000'0000);
        const auto cqe = p.result(wr);
        CHECK(cqe.status == PIB_HCA_WC_SUCCESS);
        CHECK(cqe.opcode == PIB_HCA_CQE_MASKED_CMP_SWAP);
        CHECK(cqe.byte_count == 8);
        CHECK(fetched() == 0x00ff'1234'ffff'5678);
        CHECK(p.word() == 0xaaaa'1234'ffff'56dd);
    }
    SECTION("different under the mask") {
        const auto wr = p.masked(PIB_HCA_WQE_MASKED_CMP_SWAP, 0, UINT64_MAX, 0x1235'0000'0000,
                                 0xffff'0000'0000);
        CHECK(p.status(wr) == PIB_HCA_WC_SUCCESS);
        CHECK(fetched() == 0x00ff'1234'ffff'5678);
        CHECK(p.word() == 0x00ff'1234'ffff'5678);
    }
    SECTION("fields of 16 bits do not carry into each other") {
        const auto wr = p.masked(PIB_HCA_WQE_MASKED_FETCH_ADD, 0xff01'0001'0001'a988, 0, 0,
                                 0x8000'8000'8000'8000);
        const auto cqe = p.result(wr);
        CHECK(cqe.opcode == PIB_HCA_CQE_MASKED_FETCH_ADD);
        CHECK(p.word() == 0x0000'1235'0000'0000);
    }
    SECTION("one field of 64 bits carries") {
        const auto wr = p.masked(PIB_HCA_WQE_MASKED_FETCH_ADD, 0xa988, 0, 0, 0);
        CHECK(p.status(wr) == PIB_HCA_WC_SUCCESS);
        CHECK(p.word() == 0x00ff'1235'0000'0000);
    }
    SECTION("plain atomics have no masks") {
        auto wr = p.masked(PIB_HCA_WQE_FETCH_ADD, 1, 0, 0, 1);
        CHECK(p.status(wr) == PIB_HCA_WC_LOC_QP_OP_ERR);
    }
    SECTION("misaligned") {
        auto wr = p.masked(PIB_HCA_WQE_MASKED_CMP_SWAP, 1, 1, 1, 1);
        wr.remote_addr += 4;
        CHECK(p.status(wr) == PIB_HCA_WC_REM_INV_REQ_ERR);
    }
}

TEST_CASE("a window permits FLUSH by the rights of its binding") {
    Placement p;
    const Buffer region = p.b.make_buffer(8192, kFlushable | PIB_HCA_ACCESS_MW_BIND);
    const uint32_t window = *p.b.mpt.alloc_window({.pd = 1, .type = PIB_HCA_MW_TYPE_1, .key = 1});
    const bool allowed = GENERATE(false, true);
    const uint32_t access = allowed ? PIB_HCA_ACCESS_FLUSH_GLOBAL : PIB_HCA_ACCESS_REMOTE_WRITE;
    p.b.post(p.qb, bind_mw({.rkey = next_key(window),
                            .lkey = region.key,
                            .access = access | PIB_HCA_ACCESS_ZERO_BASED,
                            .reserved = 0,
                            .addr = region.addr + 4096,
                            .length = 4096}));
    REQUIRE(p.b.poll(p.qb)->status == PIB_HCA_WC_SUCCESS);
    auto flush = p.flush();
    flush.rkey = next_key(window);
    flush.remote_addr = 0;
    const bool whole = GENERATE(false, true);
    if (whole) {
        flush.level = PIB_HCA_FLUSH_REGION;
        flush.length = 0;
    }
    CHECK(p.status(Placement::wr(flush)) ==
          (allowed ? PIB_HCA_WC_SUCCESS : PIB_HCA_WC_REM_ACCESS_ERR));
}
