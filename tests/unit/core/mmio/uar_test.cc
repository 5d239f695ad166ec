// SPDX-License-Identifier: GPL-2.0-or-later
// Doorbells: a UAR page reaches only its own objects (T02), and a storm of doorbells is little work
// (T24). docs/fault-cases.md has these cases.
#include <catch2/catch_test_macros.hpp>

#include "bench.h"

using namespace pib::hca;
using namespace pib::hca::test;

TEST_CASE("a doorbell for another UAR's object, or for none, is counted and ignored") {
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    const uint32_t uar = d.alloc_uar();
    const uint32_t other = d.alloc_uar();
    MiniCq cq = d.create_cq(bench.eq.eqn, 4, uar);
    d.arm(bench.eq);
    const uint64_t before = bench.host.interrupt_count();
    const auto foreign = [&] { return bench.counter(PIB_HCA_COUNTER_FOREIGN_DOORBELL); };

    // The consumer counter says that a completion was missed: a valid arm raises an event at once.
    const uint64_t arm = uint64_t{5} << PIB_HCA_DB_COUNTER_SHIFT | cq.cqn;
    d.ring(other, PIB_HCA_UAR_CQ_ARM, arm, 8);
    CHECK(foreign() == 1);
    d.ring(500, PIB_HCA_UAR_CQ_ARM, arm, 8);  // a page that no process has
    CHECK(foreign() == 2);
    d.ring(uar, PIB_HCA_UAR_EQ, bench.eq.eqn, 8);  // only page 0 may ring for EQs
    CHECK(foreign() == 3);
    d.ring(uar, PIB_HCA_UAR_SEND, PIB_HCA_FIRST_QPN);
    d.ring(uar, PIB_HCA_UAR_RECV, UINT32_MAX);
    CHECK(foreign() == 5);
    d.ring(uar, PIB_HCA_UAR_CQ_ARM, arm | 1u << 25, 8);  // reserved bits
    d.ring(0, PIB_HCA_UAR_EQ, uint64_t{bench.eq.eqn} | 1u << 31, 8);
    CHECK(foreign() == 7);
    CHECK(bench.host.interrupt_count() == before);

    d.ring(uar, PIB_HCA_UAR_CQ_ARM, arm, 8);
    CHECK(foreign() == 7);
    CHECK(bench.host.interrupt_count() == before + 1);
}

TEST_CASE("64-bit doorbells take one store, holes of a UAR page take none") {
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    d.arm(bench.eq);
    const uint64_t arm = uint64_t{5} << PIB_HCA_DB_COUNTER_SHIFT | bench.cq.cqn;
    d.ring(0, PIB_HCA_UAR_CQ_ARM, arm, 4);
    d.ring(0, PIB_HCA_UAR_CQ_ARM + 4, arm >> 32, 4);
    d.ring(0, PIB_HCA_UAR_SEND, UINT64_MAX, 8);
    d.ring(0, 0x18, 1, 4);
    for (uint32_t offset = 0x48; offset < PIB_HCA_UAR_PAGE_SIZE; offset += 4) {
        d.ring(0, offset, UINT32_MAX, 4);
        REQUIRE(bench.device->mmio_read(PIB_HCA_BAR_UAR, offset, 4) == 0);
    }
    CHECK(bench.host.interrupts[1] == 0);
    CHECK(bench.counter(PIB_HCA_COUNTER_FOREIGN_DOORBELL) == 0);
    CHECK(bench.device->mmio_read(PIB_HCA_BAR_UAR, PIB_HCA_UAR_CLOCK, 8) == bench.host.clock_ns);
    CHECK(bench.device->mmio_read(PIB_HCA_BAR_UAR, PIB_HCA_UAR_PAGE_SIZE + PIB_HCA_UAR_CLOCK, 8) ==
          0);
    d.ring(1u << 20, PIB_HCA_UAR_CQ_ARM, arm, 8);  // past the BAR
    CHECK(bench.host.interrupts[1] == 0);
}

TEST_CASE("a doorbell without work reads the queue once") {
    ReadyBench bench;
    MiniDriver& d = bench.driver;
    const uint32_t uar = d.alloc_uar();
    QpShape shape = bench.shape(PIB_HCA_QP_UD);
    shape.uar = uar;
    const MiniQp qp = d.create_qp(shape);
    d.connect_ud(qp, 1, 0x1234);
    REQUIRE(d.pump());
    bench.host.woken = false;
    bench.host.direct = false;  // so that dma_reads counts all reads
    const uint64_t reads = bench.host.dma_reads;
    const uint64_t writes = bench.host.dma_writes;
    constexpr uint32_t kStorm = 100'000;
    for (uint32_t i = 0; i < kStorm; ++i) {
        d.ring_send(qp);
        d.ring(uar, PIB_HCA_UAR_RECV, qp.qpn);
        d.ring(uar, PIB_HCA_UAR_SEND, PIB_HCA_FIRST_QPN + 1 + i);
        d.ring(uar, PIB_HCA_UAR_CQ_ARM, i, 8);
    }
    CHECK(bench.host.dma_reads - reads <= kStorm);
    CHECK(bench.host.dma_writes == writes);
    CHECK_FALSE(bench.host.woken);
    CHECK(d.query(qp).state == PIB_HCA_QPS_RTS);
}
