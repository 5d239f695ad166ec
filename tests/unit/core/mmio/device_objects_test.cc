// SPDX-License-Identifier: GPL-2.0-or-later
// Objects from creation to destruction: bounds (T06), addresses (T12), rollback (T07), busy objects
// (T08), stale handles (T09), exhaustion (T10). docs/fault-cases.md has the cases T06 to T21.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "bench.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

// Lists as many pages as the queue needs, or fewer if the memory has fewer.
pib_hca_create_eq eq_request(const GuestMemory& memory, uint8_t log_depth) {
    pib_hca_create_eq in{};
    in.pages = memory.list();
    const uint64_t bytes = sizeof(pib_hca_eqe) << (log_depth & 31);
    in.pages.page_count =
        static_cast<uint32_t>(std::min<uint64_t>(in.pages.page_count, (bytes + 4095) / 4096));
    in.log_depth = log_depth;
    return in;
}

pib_hca_create_cq cq_request(const ReadyBench& bench, const GuestMemory& memory,
                             uint8_t log_depth) {
    pib_hca_create_cq in{};
    in.pages = memory.list();
    in.eqn = bench.eq.eqn;
    in.log_depth = log_depth;
    return in;
}

pib_hca_create_mr mr_request(const ReadyBench& bench, const GuestMemory& memory) {
    pib_hca_create_mr in{};
    in.pd = bench.pd;
    in.iova = 0x10000;
    in.length = memory.bytes();
    in.pages = memory.list();
    return in;
}

pib_hca_create_qp qp_request(const ReadyBench& bench, const GuestMemory& memory) {
    pib_hca_create_qp in{};
    in.pages = memory.list();
    in.pd = bench.pd;
    in.send_cq = in.recv_cq = bench.cq.cqn;
    in.sq_offset = 64;
    in.rq_offset = 64 + (64 << 8);
    in.type = PIB_HCA_QP_RC;
    in.log_sq_depth = 8;
    in.log_rq_depth = 8;
    in.log_sq_stride = 6;
    in.log_rq_stride = 6;
    return in;
}

CommandOutcome create_something(ReadyBench& bench, const GuestMemory& memory, unsigned kind) {
    MiniDriver& d = bench.driver;
    switch (kind) {
        case 0:
            return d.command_in(PIB_HCA_CMD_CREATE_EQ, 0, eq_request(memory, 11));
        case 1:
            return d.command_in(PIB_HCA_CMD_CREATE_CQ, 0, cq_request(bench, memory, 9));
        case 2:
            return d.command_in(PIB_HCA_CMD_CREATE_MR, 0, mr_request(bench, memory));
        default:
            return d.command_in(PIB_HCA_CMD_CREATE_QP, 0, qp_request(bench, memory));
    }
}

}  // namespace

TEST_CASE("queue sizes are bounded") {
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    const GuestMemory memory(bench.host, 1 << 20);
    const auto eq = [&](const pib_hca_create_eq& in) {
        const CommandOutcome outcome = d.command_in(PIB_HCA_CMD_CREATE_EQ, 0, in);
        if (outcome.ok()) {
            d.destroy(PIB_HCA_CMD_DESTROY_EQ, outcome.result);
        }
        return outcome.status;
    };
    const auto cq = [&](const pib_hca_create_cq& in) {
        const CommandOutcome outcome = d.command_in(PIB_HCA_CMD_CREATE_CQ, 0, in);
        if (outcome.ok()) {
            d.destroy(PIB_HCA_CMD_DESTROY_CQ, outcome.result);
        }
        return outcome.status;
    };
    CHECK(eq(eq_request(memory, 16)) == PIB_HCA_CMD_STATUS_OK);
    auto more = eq_request(memory, 15);
    CHECK(eq(more) == PIB_HCA_CMD_STATUS_OK);
    ++more.pages.page_count;
    CHECK(eq(more) == PIB_HCA_CMD_STATUS_BAD_PARAM);
    for (const uint8_t log_depth : {0, 17, 32, 64, 255}) {
        CHECK(eq(eq_request(memory, log_depth)) == PIB_HCA_CMD_STATUS_BAD_PARAM);
    }
    const GuestMemory exact(bench.host, 64 + (64 << 10));
    const GuestMemory small(bench.host, 64 << 10);
    CHECK(cq(cq_request(bench, exact, 10)) == PIB_HCA_CMD_STATUS_OK);
    CHECK(cq(cq_request(bench, small, 10)) == PIB_HCA_CMD_STATUS_BAD_PARAM);
    CHECK(cq(cq_request(bench, GuestMemory(bench.host, 128), 0)) == PIB_HCA_CMD_STATUS_OK);
    for (const uint8_t log_depth : {22, 23, 32, 64, 255}) {
        CHECK(cq(cq_request(bench, exact, log_depth)) == PIB_HCA_CMD_STATUS_BAD_PARAM);
    }
    for (const uint32_t pages : {0u, 1u << 20, UINT32_MAX}) {
        auto in = cq_request(bench, exact, 10);
        in.pages.page_count = pages;
        CHECK(cq(in) == PIB_HCA_CMD_STATUS_BAD_PARAM);
    }
    auto in = eq_request(memory, 4);
    in.vector = 9;
    CHECK(eq(in) == PIB_HCA_CMD_STATUS_BAD_PARAM);
    in.vector = UINT32_MAX;
    CHECK(eq(in) == PIB_HCA_CMD_STATUS_BAD_PARAM);
}

TEST_CASE("the objects that a command names must exist") {
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    const GuestMemory memory(bench.host, 1 << 14);
    auto cq = cq_request(bench, memory, 4);
    cq.eqn = 77;
    CHECK(d.command_in(PIB_HCA_CMD_CREATE_CQ, 0, cq).status == PIB_HCA_CMD_STATUS_BAD_RESOURCE);
    cq = cq_request(bench, memory, 4);
    cq.uar = 5;
    CHECK(d.command_in(PIB_HCA_CMD_CREATE_CQ, 0, cq).status == PIB_HCA_CMD_STATUS_BAD_RESOURCE);
    auto mr = mr_request(bench, memory);
    mr.pd = 99;
    CHECK(d.command_in(PIB_HCA_CMD_CREATE_MR, 0, mr).status == PIB_HCA_CMD_STATUS_BAD_RESOURCE);
    auto async = eq_request(memory, 4);
    async.flags = PIB_HCA_EQ_ASYNC;  // there is one already
    CHECK(d.command_in(PIB_HCA_CMD_CREATE_EQ, 0, async).status == PIB_HCA_CMD_STATUS_BUSY);
    for (const auto opcode :
         {PIB_HCA_CMD_FREE_UAR, PIB_HCA_CMD_FREE_PD, PIB_HCA_CMD_DESTROY_MR, PIB_HCA_CMD_DESTROY_EQ,
          PIB_HCA_CMD_DESTROY_CQ, PIB_HCA_CMD_DESTROY_QP}) {
        for (const uint32_t object : {0u, 1000u, 0xffffffu, UINT32_MAX}) {
            CHECK(d.command(opcode, object).status == PIB_HCA_CMD_STATUS_BAD_RESOURCE);
        }
    }
}

// T12, T21: memory that is not RAM is refused when the object is created.
TEST_CASE("buffers must be guest RAM") {
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    const GuestMemory memory(bench.host, 5 * 4096);
    const auto create = [&] {
        return d.command_in(PIB_HCA_CMD_CREATE_CQ, 0, cq_request(bench, memory, 8)).status;
    };
    bench.host.make_hole(memory.page(4), 1);
    CHECK(create() == PIB_HCA_CMD_STATUS_BAD_MEMORY);
    bench.host.heal();
    bench.host.make_read_only(memory.page(0), 4096);
    CHECK(create() == PIB_HCA_CMD_STATUS_BAD_MEMORY);
    bench.host.heal();
    bench.host.make_hole(memory.list().root, 8);
    CHECK(create() == PIB_HCA_CMD_STATUS_BAD_MEMORY);
    bench.host.heal();

    auto contiguous = cq_request(bench, memory, 8);
    contiguous.pages.levels = 0;
    const uint64_t end = FakeHost::kRamBase + FakeHost::kRamSize;
    for (const uint64_t root : {uint64_t{0}, end - 4096, UINT64_MAX & ~uint64_t{4095}}) {
        contiguous.pages.root = root;
        CHECK_FALSE(d.command_in(PIB_HCA_CMD_CREATE_CQ, 0, contiguous).ok());
    }
    CHECK(create() == PIB_HCA_CMD_STATUS_OK);
    // ROM is memory enough for a region that is only read.
    bench.host.make_read_only(memory.page(0), 4096);
    CHECK(d.command_in(PIB_HCA_CMD_CREATE_MR, 0, mr_request(bench, memory)).ok());
}

// T07: a creation that fails at any DMA access leaves nothing behind.
TEST_CASE("a creation that fails half-way leaves no object") {
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    const GuestMemory memory(bench.host, 9 * 4096);
    const auto drain = [&] {
        while (d.poll(bench.async_eq)) {
        }
    };
    uint32_t refused = 0;
    for (uint32_t i = 0; i < 10'000; ++i) {
        // Access 1 reads the command's entry. Only access `step` fails, not the completion.
        const uint64_t step = 2 + i / 4 % 10;
        uint64_t accesses = 0;
        bench.host.before_dma = [&](uint64_t, size_t, bool) {
            bench.host.bus_master = ++accesses != step;
        };
        const auto outcome = create_something(bench, memory, i % 4);
        bench.host.before_dma = nullptr;
        bench.host.bus_master = true;
        REQUIRE(outcome.status == PIB_HCA_CMD_STATUS_BAD_MEMORY);
        ++refused;
        drain();
    }
    CHECK(refused == 10'000);
    // The refused commands have used up no number and left no reference to an object.
    const MiniQp qp = d.create_qp(bench.shape());
    CHECK(qp.qpn == PIB_HCA_FIRST_QPN);
    d.destroy(PIB_HCA_CMD_DESTROY_QP, qp.qpn);
    const MiniEq eq = d.create_eq(0);
    CHECK(eq.eqn == bench.eq.eqn + 1);
    d.destroy(PIB_HCA_CMD_DESTROY_EQ, eq.eqn);
    const MiniCq cq = d.create_cq(bench.eq.eqn);
    CHECK(cq.cqn == bench.cq.cqn + 1);
    d.destroy(PIB_HCA_CMD_DESTROY_CQ, cq.cqn);
    d.destroy(PIB_HCA_CMD_DESTROY_CQ, bench.cq.cqn);
    d.destroy(PIB_HCA_CMD_DESTROY_EQ, bench.eq.eqn);
    d.destroy(PIB_HCA_CMD_FREE_PD, bench.pd);
}

TEST_CASE("numbers of destroyed CQs are reused any number of times") {
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    const GuestMemory memory(bench.host, 9 * 4096);
    for (uint32_t i = 0; i < 70'000; ++i) {
        const auto cq = d.command_in(PIB_HCA_CMD_CREATE_CQ, 0, cq_request(bench, memory, 9));
        REQUIRE(cq.ok());
        REQUIRE(d.command(PIB_HCA_CMD_DESTROY_CQ, cq.result).ok());
        while (d.poll(bench.async_eq)) {
        }
    }
}

TEST_CASE("objects in use cannot be destroyed") {
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    const uint32_t uar = d.alloc_uar();
    const MiniCq cq = d.create_cq(bench.eq.eqn, 4, uar);
    const MiniMr mr = d.create_mr(bench.pd, 100, 0);
    const auto status = [&](pib_hca_cmd_opcode opcode, uint32_t object) {
        return d.command(opcode, object).status;
    };
    CHECK(status(PIB_HCA_CMD_FREE_UAR, uar) == PIB_HCA_CMD_STATUS_BUSY);
    CHECK(status(PIB_HCA_CMD_DESTROY_EQ, bench.eq.eqn) == PIB_HCA_CMD_STATUS_BUSY);
    CHECK(status(PIB_HCA_CMD_FREE_PD, bench.pd) == PIB_HCA_CMD_STATUS_BUSY);
    QpShape shape = bench.shape();
    shape.uar = uar;
    const MiniQp qp = d.create_qp(shape);
    CHECK(status(PIB_HCA_CMD_DESTROY_CQ, bench.cq.cqn) == PIB_HCA_CMD_STATUS_BUSY);
    d.destroy(PIB_HCA_CMD_DESTROY_MR, mr.key);
    CHECK(status(PIB_HCA_CMD_FREE_PD, bench.pd) == PIB_HCA_CMD_STATUS_BUSY);
    d.destroy(PIB_HCA_CMD_DESTROY_CQ, cq.cqn);
    CHECK(status(PIB_HCA_CMD_FREE_UAR, uar) == PIB_HCA_CMD_STATUS_BUSY);
    d.destroy(PIB_HCA_CMD_DESTROY_QP, qp.qpn);
    d.destroy(PIB_HCA_CMD_FREE_PD, bench.pd);
    d.destroy(PIB_HCA_CMD_FREE_UAR, uar);
    d.destroy(PIB_HCA_CMD_DESTROY_CQ, bench.cq.cqn);
    d.destroy(PIB_HCA_CMD_DESTROY_EQ, bench.eq.eqn);
    d.destroy(PIB_HCA_CMD_DESTROY_EQ, bench.async_eq.eqn);
    CHECK(status(PIB_HCA_CMD_FREE_UAR, 0) == PIB_HCA_CMD_STATUS_BAD_RESOURCE);
}

TEST_CASE("the number of a destroyed object does not name the next one") {
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    const MiniMr old = d.create_mr(bench.pd, 100, 0);
    d.destroy(PIB_HCA_CMD_DESTROY_MR, old.key);
    const MiniMr young = d.create_mr(bench.pd, 100, 0);
    CHECK(young.key != old.key);
    CHECK(d.command(PIB_HCA_CMD_DESTROY_MR, old.key).status == PIB_HCA_CMD_STATUS_BAD_RESOURCE);
    // A key with another key byte is another key, which does not exist.
    CHECK(d.command(PIB_HCA_CMD_DESTROY_MR, young.key ^ 1).status ==
          PIB_HCA_CMD_STATUS_BAD_RESOURCE);
    d.destroy(PIB_HCA_CMD_DESTROY_CQ, bench.cq.cqn);
    CHECK(d.create_cq(bench.eq.eqn).cqn != bench.cq.cqn);
    const uint32_t pd = d.alloc_pd();
    d.destroy(PIB_HCA_CMD_FREE_PD, pd);
    CHECK(d.alloc_pd() != pd);
}

TEST_CASE("a creation beyond a limit returns NO_RESOURCES") {
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    const auto exhaust = [&](pib_hca_cmd_opcode opcode, uint32_t expected) {
        uint32_t n = 0;
        CommandOutcome outcome;
        while ((outcome = d.command(opcode)).ok()) {
            ++n;
            while (d.poll(bench.async_eq)) {
            }
        }
        while (d.poll(bench.async_eq)) {
        }
        CHECK(outcome.status == PIB_HCA_CMD_STATUS_NO_RESOURCES);
        CHECK(n == expected);
    };
    exhaust(PIB_HCA_CMD_ALLOC_UAR, PIB_HCA_MAX_UARS - 1);
    exhaust(PIB_HCA_CMD_ALLOC_PD, Limits::kPds - 1);
    const GuestMemory memory(bench.host, 4096);
    uint32_t eqs = 2;
    while (d.command_in(PIB_HCA_CMD_CREATE_EQ, 0, eq_request(memory, 1)).ok()) {
        ++eqs;
        while (d.poll(bench.async_eq)) {
        }
    }
    CHECK(eqs == Limits::kEqs);
    d.destroy(PIB_HCA_CMD_FREE_UAR, 17);
    CHECK(d.alloc_uar() == 17);
    d.destroy(PIB_HCA_CMD_DESTROY_CQ, bench.cq.cqn);
}

// T10: one process creates as many objects as possible; objects of others still work.
TEST_CASE("as many CQs, QPs and regions can be created as the limits say") {
    const unsigned kind = GENERATE(1u, 2u, 3u);
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    const GuestMemory memory(bench.host, 9 * 4096);
    const MiniMr mr = d.create_mr(bench.pd, 100, 0);
    const MiniQp qp = d.create_qp(bench.shape());
    uint32_t last = 0;
    CommandOutcome outcome;
    for (uint64_t i = 0; (outcome = create_something(bench, memory, kind)).ok(); ++i) {
        REQUIRE(i < uint64_t{Limits::kMrs});
        last = outcome.result;
        while (d.poll(bench.async_eq)) {
        }
    }
    CHECK(outcome.status == PIB_HCA_CMD_STATUS_NO_RESOURCES);
    CHECK(d.modify(qp, {}).status != PIB_HCA_CMD_STATUS_BAD_RESOURCE);
    while (d.poll(bench.async_eq)) {
    }
    constexpr pib_hca_cmd_opcode kDestroy[] = {PIB_HCA_CMD_DESTROY_EQ, PIB_HCA_CMD_DESTROY_CQ,
                                               PIB_HCA_CMD_DESTROY_MR, PIB_HCA_CMD_DESTROY_QP};
    d.destroy(kDestroy[kind], last);
    CHECK(create_something(bench, memory, kind).ok());
    d.destroy(PIB_HCA_CMD_DESTROY_MR, mr.key);
    d.destroy(PIB_HCA_CMD_DESTROY_QP, qp.qpn);
}
