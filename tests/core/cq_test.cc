// SPDX-License-Identifier: GPL-2.0-or-later
// Completion queues: arming for the next and for solicited completions, overrun (T19).
#include "cq.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "mini_driver.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

constexpr uint32_t kUar = 3;

struct Queue : EqTable::Events {
    FakeHost host;
    EqTable eqs{host, *this, 4, 8};
    CqTable cqs{host, eqs, 16};
    MiniCq cq;
    uint32_t eqn = 0;
    GuestMemory async_memory{host, 4096};
    uint32_t async_eqn = 0;

    explicit Queue(uint8_t log_depth = 3) {
        const GuestMemory memory(host, 4096);
        pib_hca_create_eq eq{};
        eq.pages = memory.list();
        eq.vector = 1;
        eq.log_depth = 8;
        eqn = eqs.create(eq).value();
        eq.pages = async_memory.list();
        eq.flags = PIB_HCA_EQ_ASYNC;
        async_eqn = eqs.create(eq).value();
        cq = create(log_depth);
    }
    void eq_fatal(uint32_t) override { FAIL("an EQ failed"); }
    void interrupt_raised() override {}

    MiniCq create(uint8_t log_depth) {
        MiniCq made;
        made.memory =
            GuestMemory(host, PIB_HCA_QUEUE_HEADER_SIZE + (sizeof(pib_hca_cqe) << log_depth));
        made.log_depth = log_depth;
        pib_hca_create_cq in{};
        in.pages = made.memory.list();
        in.eqn = eqn;
        in.uar = kUar;
        in.log_depth = log_depth;
        made.cqn = cqs.create(in).value();
        return made;
    }
    // Completion events so far.
    uint32_t events() { return eqs.find(eqn)->producer; }
    uint32_t errors() { return eqs.find(async_eqn)->producer; }
    bool post(bool solicited = false, uint32_t wqe_counter = 0) {
        pib_hca_cqe cqe{};
        cqe.wqe_counter = wqe_counter;
        return cqs.post(cq.cqn, cqe, solicited);
    }
    pib_hca_cqe entry(uint32_t index) const {
        return cq.memory.peek<pib_hca_cqe>(PIB_HCA_QUEUE_HEADER_SIZE + index * sizeof(pib_hca_cqe));
    }
    void consume(uint32_t counter) { cq.memory.poke(0, counter); }
    bool arm(uint32_t counter, bool solicited = false, uint32_t uar = kUar) {
        return cqs.doorbell(uar, uint64_t{counter} << PIB_HCA_DB_COUNTER_SHIFT | cq.cqn |
                                     (solicited ? PIB_HCA_DB_CQ_SOLICITED : 0));
    }
};

}  // namespace

TEST_CASE("a CQE is written body first, with time and owner") {
    Queue q;
    q.host.clock_ns = 12345;
    q.host.record_writes = true;
    REQUIRE(q.post(false, 99));
    CHECK(q.entry(0).wqe_counter == 99);
    CHECK(q.entry(0).timestamp == 12345);
    CHECK(q.entry(0).owner == PIB_HCA_OWNER_BIT);
    CHECK(q.entry(1).owner == 0);
    REQUIRE(q.host.writes.size() == 2);
    CHECK(q.host.writes[1].bytes == 1);
    CHECK(q.host.writes[0].barriers_before < q.host.writes[1].barriers_before);
}

TEST_CASE("armed for the next completion") {
    Queue q;
    REQUIRE(q.post());
    CHECK(q.events() == 0);
    // The driver has not seen it when it arms.
    REQUIRE(q.arm(0));
    CHECK(q.events() == 1);
    REQUIRE(q.post());
    CHECK(q.events() == 1);  // fired: not armed any more
    REQUIRE(q.arm(2));
    CHECK(q.events() == 1);
    REQUIRE(q.post());
    CHECK(q.events() == 2);
    REQUIRE(q.post());
    CHECK(q.events() == 2);
}

TEST_CASE("armed for solicited completions") {
    Queue q;
    REQUIRE(q.post());
    REQUIRE(q.arm(0, true));
    CHECK(q.events() == 0);
    REQUIRE(q.post());
    CHECK(q.events() == 0);
    REQUIRE(q.post(true));
    CHECK(q.events() == 1);
    REQUIRE(q.post());
    // One solicited completion is beyond the counter, then none.
    REQUIRE(q.arm(2, true));
    CHECK(q.events() == 2);
    REQUIRE(q.arm(3, true));
    CHECK(q.events() == 2);
    // Asking for solicited ones does not weaken what was asked for before.
    REQUIRE(q.arm(4));
    REQUIRE(q.arm(4, true));
    REQUIRE(q.post());
    CHECK(q.events() == 3);
}

TEST_CASE("another UAR's doorbell arms nothing") {
    Queue q;
    CHECK_FALSE(q.arm(5, false, kUar + 1));
    REQUIRE(q.post());
    CHECK(q.events() == 0);
}

TEST_CASE("an overrun ends the queue and overwrites nothing") {
    Queue q;
    const MiniCq other = q.create(3);
    for (uint32_t i = 0; i < 8; ++i) {
        REQUIRE(q.post(false, i));
    }
    CHECK_FALSE(q.post(false, 100));
    CHECK_FALSE(q.post(false, 101));
    for (uint32_t i = 0; i < 8; ++i) {
        CHECK(q.entry(i).wqe_counter == i);
    }
    CHECK(q.errors() == 1);
    const auto event = q.async_memory.peek<pib_hca_eqe>(0);
    CHECK(event.type == PIB_HCA_EVENT_CQ_ERROR);
    CHECK(event.number == q.cq.cqn);
    CHECK(event.data == static_cast<uint32_t>(CqErrorSyndrome::kOverrun));
    q.consume(8);
    CHECK_FALSE(q.post());  // for good
    CHECK(q.cqs.post(other.cqn, {}, false));
}

TEST_CASE("room is what the consumer counter says") {
    Queue q;
    for (uint32_t i = 0; i < 1000; ++i) {
        REQUIRE(q.post(false, i));
        const uint8_t owner = (i >> 3 & 1) == 0 ? PIB_HCA_OWNER_BIT : 0;
        REQUIRE(q.entry(i % 8).owner == owner);
        REQUIRE(q.entry(i % 8).wqe_counter == i);
        q.consume(i < 7 ? 0 : i - 6);  // nearly full all the time
    }
    CHECK(q.errors() == 0);
}

TEST_CASE("a consumer counter that cannot be is an overrun") {
    const uint32_t counter = GENERATE(9u, 0x80000000u, UINT32_MAX);
    Queue q;
    for (uint32_t i = 0; i < 8; ++i) {
        REQUIRE(q.post());
    }
    q.consume(counter);
    CHECK_FALSE(q.post());
    CHECK(q.errors() == 1);
    for (const uint32_t arm : {0u, 8u, 9u, UINT32_MAX}) {
        CHECK(q.arm(arm));
        CHECK(q.arm(arm, true));
    }
}

TEST_CASE("memory that vanishes ends the queue") {
    Queue q;
    q.host.make_hole(q.cq.memory.page(0), 4096);
    CHECK_FALSE(q.post());
    CHECK(q.errors() == 1);
    CHECK(q.async_memory.peek<pib_hca_eqe>(0).data ==
          static_cast<uint32_t>(CqErrorSyndrome::kMemory));
}

TEST_CASE("an old solicited completion stays old when the counters wrap") {
    Queue q;
    REQUIRE(q.post(true));
    CompletionQueue& cq = *q.cqs.find(q.cq.cqn);
    cq.producer = cq.consumer = UINT32_MAX - 3;
    cq.solicited_producer = cq.producer - 8;
    for (uint32_t i = 0; i < 8; ++i) {
        q.consume(cq.producer);
        REQUIRE(q.post());
        REQUIRE(q.arm(cq.producer - 1, true));
        CHECK(q.events() == 0);
    }
    REQUIRE(q.post(true));
    CHECK(q.events() == 1);
}

TEST_CASE("a queue in use is not destroyed") {
    Queue q;
    q.cqs.find(q.cq.cqn)->users = 1;
    CHECK(q.cqs.destroy(q.cq.cqn) == PIB_HCA_CMD_STATUS_BUSY);
    CHECK(q.eqs.destroy(q.eqn) == PIB_HCA_CMD_STATUS_BUSY);
    q.cqs.find(q.cq.cqn)->users = 0;
    CHECK(q.cqs.destroy(q.cq.cqn) == PIB_HCA_CMD_STATUS_OK);
    CHECK_FALSE(q.post());
    CHECK(q.eqs.destroy(q.eqn) == PIB_HCA_CMD_STATUS_OK);
}
