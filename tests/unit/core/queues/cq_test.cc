// SPDX-License-Identifier: GPL-2.0-or-later
// Completion queues: arming for the next and for solicited completions, overrun (T19 in
// docs/fault-cases.md).
#include "queues/cq.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <utility>

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
    void interrupt_raised(const RaisedInterrupt&) override {}

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
        return cqs.post(cq.cqn, {.wqe_counter = wqe_counter}, solicited);
    }
    bool post_without_hurry() { return cqs.post(cq.cqn, {}, false, true); }
    pib_hca_cqe entry(uint32_t index) const {
        return cq.memory.peek<pib_hca_cqe>(PIB_HCA_QUEUE_HEADER_SIZE + index * sizeof(pib_hca_cqe));
    }
    void consume(uint32_t counter) { cq.memory.poke(0, counter); }
    bool arm(uint32_t counter, bool solicited = false, uint32_t uar = kUar) {
        return cqs.doorbell(uar, uint64_t{counter} << PIB_HCA_DB_COUNTER_SHIFT | cq.cqn |
                                     (solicited ? PIB_HCA_DB_CQ_SOLICITED : 0));
    }
};

// A buffer for the queue to move to, and the command that moves it.
struct Move {
    MiniCq to;
    pib_hca_resize_cq in{};

    Move(Queue& q, uint8_t log_depth) {
        to.memory =
            GuestMemory(q.host, PIB_HCA_QUEUE_HEADER_SIZE + (sizeof(pib_hca_cqe) << log_depth));
        to.log_depth = log_depth;
        to.cqn = q.cq.cqn;
        in.pages = to.memory.list();
        in.log_depth = log_depth;
    }
};

}  // namespace

TEST_CASE("a CQE has its time, and its owner bit is written last") {
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

TEST_CASE("the CQ is armed for the next completion") {
    Queue q;
    REQUIRE(q.post());
    CHECK(q.events() == 0);
    // The driver has not seen the CQE when it arms, so the event comes at once.
    REQUIRE(q.arm(0));
    CHECK(q.events() == 1);
    REQUIRE(q.post());
    CHECK(q.events() == 1);  // the event has disarmed the CQ
    REQUIRE(q.arm(2));
    CHECK(q.events() == 1);
    REQUIRE(q.post());
    CHECK(q.events() == 2);
    REQUIRE(q.post());
    CHECK(q.events() == 2);
}

namespace {

pib_hca_moderate_cq moderation(uint16_t count, uint16_t period) {
    pib_hca_moderate_cq in{};
    in.count = count;
    in.period = period;
    return in;
}

void moderate(Queue& q, uint16_t count, uint16_t period) {
    REQUIRE(q.cqs.moderate(q.cq.cqn, moderation(count, period)) == CmdStatus::kOk);
}

}  // namespace

TEST_CASE("moderation: an event waits for its count of completions") {
    Queue q(5);
    moderate(q, 3, 0);
    REQUIRE(q.arm(0));
    REQUIRE(q.post());
    REQUIRE(q.post());
    CHECK(q.events() == 0);
    CHECK(q.cqs.next_deadline() == kNever);
    REQUIRE(q.post());
    CHECK(q.events() == 1);
    // The driver arms with two completions that it has not polled: the event waits for a third.
    REQUIRE(q.post());
    REQUIRE(q.post());
    REQUIRE(q.arm(3));
    CHECK(q.events() == 1);
    REQUIRE(q.post());
    CHECK(q.events() == 2);
    // The driver polls and arms again while an event waits: that event is dropped, and the count
    // of completions starts again.
    REQUIRE(q.arm(6));
    REQUIRE(q.post());
    REQUIRE(q.arm(7));
    REQUIRE(q.post());
    REQUIRE(q.post());
    CHECK(q.events() == 2);
    REQUIRE(q.post());
    CHECK(q.events() == 3);
}

TEST_CASE("moderation: an event waits for its period") {
    Queue q(5);
    moderate(q, 100, 50);
    REQUIRE(q.arm(0));
    CHECK(q.cqs.next_deadline() == kNever);
    REQUIRE(q.post());
    const uint64_t due = q.host.clock_ns + 50'000;
    CHECK(q.cqs.next_deadline() == due);
    q.host.clock_ns += 30'000;
    REQUIRE(q.post());
    CHECK(q.cqs.next_deadline() == due);  // the first completion starts the period
    q.cqs.timer(due - 1);
    CHECK(q.events() == 0);
    q.cqs.timer(due);
    CHECK(q.events() == 1);
    CHECK(q.cqs.next_deadline() == kNever);
    REQUIRE(q.post());
    CHECK(q.cqs.next_deadline() == kNever);  // not armed
}

TEST_CASE("moderation: a solicited completion and the end of moderation raise the event") {
    Queue q(5);
    moderate(q, 100, 50);
    REQUIRE(q.arm(0));
    REQUIRE(q.post());
    REQUIRE(q.post(true));
    CHECK(q.events() == 1);
    CHECK(q.cqs.next_deadline() == kNever);
    REQUIRE(q.arm(0, true));
    CHECK(q.events() == 2);
    REQUIRE(q.arm(2));
    REQUIRE(q.post());
    moderate(q, 0, 0);
    CHECK(q.events() == 3);
    REQUIRE(q.arm(3));
    REQUIRE(q.post());
    CHECK(q.events() == 4);
    pib_hca_moderate_cq bad = moderation(1, 1);
    bad.reserved[3] = 1;
    CHECK(q.cqs.moderate(q.cq.cqn, bad) == CmdStatus::kBadReserved);
    CHECK(q.cqs.moderate(999, moderation(1, 1)) == CmdStatus::kBadResource);
}

TEST_CASE("an event that may wait also reports later completions") {
    Queue q(5);
    REQUIRE(q.arm(0));
    REQUIRE(q.post_without_hurry());
    CHECK(q.entry(0).owner == PIB_HCA_OWNER_BIT);
    CHECK(q.events() == 0);
    const uint64_t due = q.host.clock_ns + 1'000'000;
    CHECK(q.cqs.next_deadline() == due);

    SECTION("another completion raises it") {
        REQUIRE(q.post());
        CHECK(q.events() == 1);
        CHECK(q.cqs.next_deadline() == kNever);
    }
    SECTION("the time since the first one raises it") {
        q.host.clock_ns += 500'000;
        REQUIRE(q.post_without_hurry());
        q.cqs.timer(due - 1);
        CHECK(q.events() == 0);
        q.cqs.timer(due);
        CHECK(q.events() == 1);
    }
    SECTION("software that has seen the completion gets no event") {
        REQUIRE(q.arm(1));
        CHECK(q.events() == 0);
        CHECK(q.cqs.next_deadline() == kNever);
        REQUIRE(q.post());
        CHECK(q.events() == 1);
    }
    SECTION("software that arms without having seen it gets an event") {
        REQUIRE(q.arm(0));
        CHECK(q.events() == 1);
    }
}

TEST_CASE("an arm for solicited completions drops no delayed event of a pending arm") {
    Queue q(5);
    SECTION("delayed by moderation") {
        moderate(q, 10, 50);
        REQUIRE(q.arm(0));
        REQUIRE(q.post());
        REQUIRE(q.arm(0, true));
        CHECK(q.events() == 0);
        q.cqs.timer(q.host.clock_ns + 50'000);
    }
    SECTION("that may wait") {
        REQUIRE(q.arm(0));
        REQUIRE(q.post_without_hurry());
        REQUIRE(q.arm(0, true));
    }
    CHECK(q.events() == 1);
    CHECK(q.cqs.next_deadline() == kNever);
}

TEST_CASE("an event that may wait is moderated, and a solicited completion raises it at once") {
    Queue q(5);
    moderate(q, 2, 0);
    REQUIRE(q.arm(0));
    REQUIRE(q.post_without_hurry());
    CHECK(q.cqs.next_deadline() == kNever);
    REQUIRE(q.post_without_hurry());
    CHECK(q.events() == 1);
    REQUIRE(q.arm(2));
    REQUIRE(q.cqs.post(q.cq.cqn, {}, true, true));
    CHECK(q.events() == 2);
}

TEST_CASE("moderation: a delayed event is dropped with its CQ") {
    Queue q;
    moderate(q, 100, 50);
    REQUIRE(q.arm(0));
    REQUIRE(q.post());
    SECTION("destroyed") {
        CHECK(q.cqs.destroy(q.cq.cqn) == CmdStatus::kOk);
    }
    SECTION("reset") {
        q.cqs.clear();
    }
    CHECK(q.cqs.next_deadline() == kNever);
    q.cqs.timer(q.host.clock_ns + 1'000'000);
    CHECK(q.events() == 0);
}

TEST_CASE("the CQ is armed for solicited completions") {
    Queue q;
    REQUIRE(q.post());
    REQUIRE(q.arm(0, true));
    CHECK(q.events() == 0);
    REQUIRE(q.post());
    CHECK(q.events() == 0);
    REQUIRE(q.post(true));
    CHECK(q.events() == 1);
    REQUIRE(q.post());
    // Completion 2 is solicited, 3 is not: only a consumer counter of 2 leaves a solicited one.
    REQUIRE(q.arm(2, true));
    CHECK(q.events() == 2);
    REQUIRE(q.arm(3, true));
    CHECK(q.events() == 2);
    // A request for a solicited completion does not replace the earlier one for any completion.
    REQUIRE(q.arm(4));
    REQUIRE(q.arm(4, true));
    REQUIRE(q.post());
    CHECK(q.events() == 3);
}

TEST_CASE("a doorbell of another UAR arms no CQ") {
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
    CHECK_FALSE(q.post());  // the CQ stays in error
    CHECK(q.cqs.post(other.cqn, {}, false));
}

TEST_CASE("the consumer counter frees entries of the ring") {
    Queue q;
    for (uint32_t i = 0; i < 1000; ++i) {
        REQUIRE(q.post(false, i));
        const uint8_t owner = (i >> 3 & 1) == 0 ? PIB_HCA_OWNER_BIT : 0;
        REQUIRE(q.entry(i % 8).owner == owner);
        REQUIRE(q.entry(i % 8).wqe_counter == i);
        q.consume(i < 7 ? 0 : i - 6);  // the queue stays nearly full
    }
    CHECK(q.errors() == 0);
}

TEST_CASE("an impossible consumer counter is an overrun") {
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

TEST_CASE("a CQ whose memory vanishes is in error") {
    Queue q;
    q.host.make_hole(q.cq.memory.page(0), 4096);
    CHECK_FALSE(q.post());
    CHECK(q.errors() == 1);
    CHECK(q.async_memory.peek<pib_hca_eqe>(0).data ==
          static_cast<uint32_t>(CqErrorSyndrome::kMemory));
}

TEST_CASE("a solicited completion of the past raises no event when the counters wrap") {
    Queue q;
    REQUIRE(q.post(true));
    CompletionQueue& cq = *q.cqs.find(q.cq.cqn);
    cq.producer = cq.consumer = UINT32_MAX - 3;
    cq.solicited_producer = cq.producer + 4;  // nearly 2^32 completions ago
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
    CHECK(q.cqs.destroy(q.cq.cqn) == CmdStatus::kBusy);
    CHECK(q.eqs.destroy(q.eqn) == CmdStatus::kBusy);
    q.cqs.find(q.cq.cqn)->users = 0;
    CHECK(q.cqs.destroy(q.cq.cqn) == CmdStatus::kOk);
    CHECK_FALSE(q.post());
    CHECK(q.eqs.destroy(q.eqn) == CmdStatus::kOk);
}

TEST_CASE("a resize keeps the waiting completions") {
    const uint8_t log_depth = GENERATE(uint8_t{2}, uint8_t{3}, uint8_t{6});
    const uint32_t taken = GENERATE(0u, 5u, 13u);
    Queue q;
    for (uint32_t i = 0; i < taken + 3; ++i) {
        q.consume(std::min(i, taken));
        REQUIRE(q.post(false, i));
    }
    q.consume(taken);
    Move move(q, log_depth);
    REQUIRE(q.cqs.resize(q.cq.cqn, move.in) == CmdStatus::kOk);
    q.cq = move.to;
    for (uint32_t i = 0; i < 3; ++i) {
        CHECK(q.entry(i).wqe_counter == taken + i);
        CHECK(q.entry(i).owner == PIB_HCA_OWNER_BIT);
    }
    CHECK(q.entry(3).owner == 0);
    CHECK(q.cq.memory.peek<uint32_t>(0) == 0);
    for (uint32_t i = 3; i < 1u << log_depth; ++i) {
        REQUIRE(q.post(false, taken + i));
        CHECK(q.entry(i).wqe_counter == taken + i);
    }
    CHECK(q.errors() == 0);
    CHECK_FALSE(q.post());
    CHECK(q.errors() == 1);
}

TEST_CASE("a resize keeps the queue armed and writes to the new memory only") {
    const bool solicited = GENERATE(false, true);
    Queue q;
    REQUIRE(q.post(true));
    REQUIRE(q.arm(1, solicited));
    Move move(q, 5);
    REQUIRE(q.cqs.resize(q.cq.cqn, move.in) == CmdStatus::kOk);
    MiniCq old = std::exchange(q.cq, move.to);
    CHECK(q.events() == 0);
    REQUIRE(q.post());
    CHECK(q.events() == (solicited ? 0 : 1));
    REQUIRE(q.post(true));
    CHECK(q.events() == 1);
    CHECK(old.memory.peek<pib_hca_cqe>(PIB_HCA_QUEUE_HEADER_SIZE + sizeof(pib_hca_cqe)).owner == 0);
    // The resize has kept the number of the last solicited CQE.
    REQUIRE(q.arm(3, true));
    CHECK(q.events() == 1);
    REQUIRE(q.arm(2, true));
    CHECK(q.events() == 2);
}

TEST_CASE("a resize does not change the count of completions for which an event waits") {
    Queue q(5);
    for (uint32_t i = 0; i < 20; ++i) {
        REQUIRE(q.post());
    }
    q.consume(20);
    moderate(q, 3, 0);
    REQUIRE(q.arm(20));
    REQUIRE(q.post());
    Move move(q, 5);
    REQUIRE(q.cqs.resize(q.cq.cqn, move.in) == CmdStatus::kOk);
    q.cq = move.to;
    REQUIRE(q.post());
    CHECK(q.events() == 0);
    REQUIRE(q.post());
    CHECK(q.events() == 1);
}

TEST_CASE("a completion that waits for a resize stays solicited") {
    Queue q;
    REQUIRE(q.post());
    REQUIRE(q.post(true));
    REQUIRE(q.post());
    q.consume(1);
    Move move(q, 5);
    REQUIRE(q.cqs.resize(q.cq.cqn, move.in) == CmdStatus::kOk);
    q.cq = move.to;
    REQUIRE(q.arm(1, true));  // the remaining CQE is not solicited
    CHECK(q.events() == 0);
    REQUIRE(q.arm(0, true));
    CHECK(q.events() == 1);
}

TEST_CASE("a refused resize changes nothing") {
    Queue q;
    for (uint32_t i = 0; i < 5; ++i) {
        REQUIRE(q.post(false, i));
    }
    Move move(q, 3);
    const auto refused = [&](CmdStatus status) {
        CHECK(q.cqs.resize(q.cq.cqn, move.in) == status);
        CHECK(q.post());
        CHECK(q.entry(5).owner == PIB_HCA_OWNER_BIT);
    };
    SECTION("too small") {
        move.in.log_depth = 2;
        refused(CmdStatus::kBadParam);
    }
    SECTION("too large") {
        move.in.log_depth = PIB_HCA_MAX_CQ_LOG_DEPTH + 1;
        refused(CmdStatus::kBadParam);
    }
    SECTION("reserved") {
        move.in.reserved[14] = 1;
        refused(CmdStatus::kBadReserved);
    }
    SECTION("no memory") {
        move.in.pages.root = 0xdead000;
        refused(CmdStatus::kBadMemory);
    }
    SECTION("an impossible consumer counter") {
        q.consume(6);
        CHECK(q.cqs.resize(q.cq.cqn, move.in) == CmdStatus::kBadParam);
        q.consume(0);
        CHECK(q.post());
    }
    CHECK(q.cqs.resize(999, move.in) == CmdStatus::kBadResource);
}

TEST_CASE("a queue in error is not resized") {
    Queue q(0);
    REQUIRE(q.post());
    REQUIRE_FALSE(q.post());
    Move move(q, 3);
    CHECK(q.cqs.resize(q.cq.cqn, move.in) == CmdStatus::kBadState);
}

TEST_CASE("a long resize takes several calls, and the queue works meanwhile") {
    Queue q(14);
    constexpr uint32_t kWaiting = 2 * CqTable::kCqesPerCall + 1;
    for (uint32_t i = 0; i < kWaiting; ++i) {
        REQUIRE(q.post(false, i));
    }
    Move move(q, 15);
    REQUIRE(q.cqs.resize(q.cq.cqn, move.in) == CmdStatus::kOk);
    REQUIRE(q.cqs.is_resizing());
    REQUIRE(q.post(true, kWaiting));
    CHECK(q.entry(kWaiting).wqe_counter == kWaiting);
    for (int calls = 0; calls < 2; ++calls) {
        REQUIRE(q.cqs.is_resizing());
        REQUIRE(q.cqs.resize_more() == CmdStatus::kOk);
    }
    CHECK_FALSE(q.cqs.is_resizing());
    q.cq = move.to;
    REQUIRE(q.post(false, kWaiting + 1));
    for (uint32_t i = 0; i < kWaiting + 2; ++i) {
        REQUIRE(q.entry(i).wqe_counter == i);
        REQUIRE(q.entry(i).owner == PIB_HCA_OWNER_BIT);
    }
    CHECK(q.entry(kWaiting + 2).owner == 0);
    REQUIRE(q.arm(kWaiting + 1, true));
    CHECK(q.events() == 0);
    REQUIRE(q.arm(kWaiting, true));
    CHECK(q.events() == 1);
}

TEST_CASE("a queue that overruns during a resize stays where it is") {
    Queue q(13);
    for (uint32_t i = 0; i < 1u << 13; ++i) {
        REQUIRE(q.post(false, i));
    }
    Move move(q, 14);
    REQUIRE(q.cqs.resize(q.cq.cqn, move.in) == CmdStatus::kOk);
    CHECK_FALSE(q.post());
    CHECK(q.cqs.resize_more() == CmdStatus::kBadState);
    CHECK_FALSE(q.cqs.is_resizing());
    CHECK(q.cqs.find(q.cq.cqn)->log_depth == 13);
}
