// SPDX-License-Identifier: GPL-2.0-or-later
// Event queues: arming without a lost interrupt, full queues (T20 in
// docs/fault-cases.md), memory that vanishes.
#include "queues/eq.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <set>

#include "mini_driver.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

struct Queues : EqTable::Events {
    FakeHost host;
    EqTable eqs{host, *this, 4, 8};
    uint32_t fatal = PIB_HCA_FATAL_NONE;
    unsigned fatals = 0;
    unsigned interrupts = 0;

    void eq_fatal(uint32_t cause) override {
        fatal = cause;
        ++fatals;
    }
    void interrupt_raised(const RaisedInterrupt&) override { ++interrupts; }

    MiniEq create(uint8_t log_depth = 2, bool async = false, uint32_t vector = 3) {
        MiniEq eq;
        eq.memory = GuestMemory(host, sizeof(pib_hca_eqe) << log_depth);
        eq.log_depth = log_depth;
        pib_hca_create_eq in{};
        in.pages = eq.memory.list();
        in.vector = vector;
        in.log_depth = log_depth;
        in.flags = async ? PIB_HCA_EQ_ASYNC : 0;
        eq.eqn = eqs.create(in).value();
        return eq;
    }
    std::optional<pib_hca_eqe> poll(MiniEq& eq) {
        const uint32_t at = eq.consumer & ((1u << eq.log_depth) - 1);
        const auto eqe = eq.memory.peek<pib_hca_eqe>(at * sizeof(pib_hca_eqe));
        const uint8_t pass = (eq.consumer >> eq.log_depth & 1) == 0 ? 1 : 0;
        if ((eqe.owner & PIB_HCA_OWNER_BIT) != pass) {
            return std::nullopt;
        }
        ++eq.consumer;
        return eqe;
    }
    bool doorbell(const MiniEq& eq, bool arm) {
        return eqs.doorbell(uint64_t{eq.consumer} << PIB_HCA_DB_COUNTER_SHIFT | eq.eqn |
                            (arm ? PIB_HCA_DB_EQ_ARM : 0));
    }
};

}  // namespace

TEST_CASE("an armed queue interrupts once, an unarmed one never") {
    Queues q;
    MiniEq eq = q.create();
    q.eqs.completion_event(eq.eqn, 5);
    CHECK(q.host.interrupt_count() == 0);
    // The event is older than the arming: the interrupt comes at once.
    REQUIRE(q.doorbell(eq, true));
    CHECK(q.host.interrupts[3] == 1);
    q.eqs.completion_event(eq.eqn, 6);
    CHECK(q.host.interrupts[3] == 1);
    CHECK(q.poll(eq)->number == 5);
    CHECK(q.poll(eq)->number == 6);
    CHECK_FALSE(q.poll(eq));
    REQUIRE(q.doorbell(eq, true));
    CHECK(q.host.interrupts[3] == 1);
    q.eqs.completion_event(eq.eqn, 7);
    CHECK(q.host.interrupts[3] == 2);
    CHECK(q.interrupts == 2);
}

TEST_CASE("a full completion EQ loses no event") {
    Queues q;
    MiniEq eq = q.create(2);
    for (uint32_t cqn = 0; cqn < 10; ++cqn) {
        q.eqs.completion_event(eq.eqn, cqn);
        q.eqs.completion_event(eq.eqn, 3);  // while the EQ is full, these merge into one
    }
    std::multiset<uint32_t> seen;
    for (unsigned round = 0; round < 20; ++round) {
        while (const auto eqe = q.poll(eq)) {
            seen.insert(eqe->number);
        }
        REQUIRE(q.doorbell(eq, true));
    }
    for (uint32_t cqn = 0; cqn < 10; ++cqn) {
        CHECK(seen.contains(cqn));
    }
    CHECK(seen.size() < 14);
    CHECK(q.fatals == 0);
    // A CQ that is destroyed while its event waits gets no EQE.
    for (uint32_t cqn = 20; cqn < 30; ++cqn) {
        q.eqs.completion_event(eq.eqn, cqn);
    }
    q.eqs.forget_completion(eq.eqn, 29);
    seen.clear();
    for (unsigned round = 0; round < 20; ++round) {
        while (const auto eqe = q.poll(eq)) {
            seen.insert(eqe->number);
        }
        REQUIRE(q.doorbell(eq, false));
    }
    CHECK(seen.size() == 9);
    CHECK_FALSE(seen.contains(29));
}

TEST_CASE("a doorbell with an impossible counter is refused") {
    Queues q;
    MiniEq eq = q.create();
    q.eqs.completion_event(eq.eqn, 1);
    eq.consumer = 2;
    CHECK_FALSE(q.doorbell(eq, true));
    eq.consumer = UINT32_MAX;
    CHECK_FALSE(q.doorbell(eq, true));
    CHECK(q.host.interrupt_count() == 0);
    eq.consumer = 1;
    CHECK(q.doorbell(eq, true));
    eq.consumer = 0;  // backwards
    CHECK_FALSE(q.doorbell(eq, true));
    CHECK_FALSE(q.eqs.doorbell(77));
}

TEST_CASE("a full async EQ loses no event and keeps one of equal events") {
    Queues q;
    MiniEq eq = q.create(2, true);
    for (int i = 0; i < 3; ++i) {
        for (uint32_t qpn = 64; qpn < 74; ++qpn) {
            q.eqs.async_event(Event::kQpFatal, qpn);
            q.eqs.async_event(Event::kLastWqeReached, qpn);
        }
    }
    CHECK(q.fatals == 0);
    std::multiset<std::pair<unsigned, uint32_t>> seen;
    for (unsigned round = 0; round < 20; ++round) {
        while (const auto eqe = q.poll(eq)) {
            seen.emplace(eqe->type, eqe->number);
        }
        REQUIRE(q.doorbell(eq, true));
    }
    for (uint32_t qpn = 64; qpn < 74; ++qpn) {
        CHECK(seen.contains({PIB_HCA_EVENT_QP_FATAL, qpn}));
        CHECK(seen.contains({PIB_HCA_EVENT_LAST_WQE_REACHED, qpn}));
    }
    // The EQ took the first four of the 20 events at once, so these may come again.
    CHECK(seen.size() <= 24);
    CHECK(q.fatals == 0);
}

TEST_CASE("a destroyed object drops its waiting events") {
    Queues q;
    MiniEq eq = q.create(2, true);
    for (uint32_t number = 64; number < 72; ++number) {
        q.eqs.async_event(Event::kQpFatal, number);
    }
    q.eqs.async_event(Event::kSrqLimitReached, 70);
    q.eqs.forget_events(EventSource::kQp, 70);
    std::set<std::pair<unsigned, uint32_t>> seen;
    for (unsigned round = 0; round < 10; ++round) {
        while (const auto eqe = q.poll(eq)) {
            seen.emplace(eqe->type, eqe->number);
        }
        REQUIRE(q.doorbell(eq, true));
    }
    CHECK(seen.size() == 8);
    CHECK_FALSE(seen.contains({PIB_HCA_EVENT_QP_FATAL, 70}));
    CHECK(seen.contains({PIB_HCA_EVENT_SRQ_LIMIT_REACHED, 70}));
}

TEST_CASE("the waiting events of a port become one event with its current state") {
    Queues q;
    MiniEq eq = q.create(2, true);
    for (uint32_t qpn = 64; qpn < 68; ++qpn) {
        q.eqs.async_event(Event::kQpFatal, qpn);
    }
    q.eqs.async_event(Event::kPort, 0, PIB_HCA_PORT_EVENT_ERROR, 1);
    q.eqs.async_event(Event::kPort, 0, PIB_HCA_PORT_EVENT_LID_CHANGE, 1);
    q.eqs.async_event(Event::kPort, 0, PIB_HCA_PORT_EVENT_ACTIVE, 1);
    q.eqs.async_event(Event::kPort, 0, PIB_HCA_PORT_EVENT_ERROR, 2);
    while (q.poll(eq)) {
    }
    REQUIRE(q.doorbell(eq, true));
    const auto first = q.poll(eq);
    REQUIRE(first);
    CHECK(first->port == 1);
    CHECK(first->data == (PIB_HCA_PORT_EVENT_ACTIVE | PIB_HCA_PORT_EVENT_LID_CHANGE));
    const auto second = q.poll(eq);
    REQUIRE(second);
    CHECK(second->port == 2);
    CHECK(second->data == PIB_HCA_PORT_EVENT_ERROR);
    CHECK_FALSE(q.poll(eq));
}

TEST_CASE("events of commands wait, one for each command") {
    Queues q;
    MiniEq eq = q.create(2, true);
    for (uint32_t i = 0; i < 8; ++i) {
        q.eqs.async_event(Event::kCommand, i);
    }
    CHECK(q.fatals == 0);
    std::vector<uint32_t> seen;
    for (unsigned round = 0; round < 4; ++round) {
        while (const auto eqe = q.poll(eq)) {
            seen.push_back(eqe->number);
        }
        REQUIRE(q.doorbell(eq, true));
    }
    CHECK(seen == std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("an EQ whose memory vanishes stops the device") {
    const bool async = GENERATE(false, true);
    Queues q;
    MiniEq eq = q.create(2, async);
    q.host.make_hole(eq.memory.page(0), 4096);
    if (async) {
        q.eqs.async_event(Event::kPort, 0);
    } else {
        q.eqs.completion_event(eq.eqn, 1);
    }
    CHECK(q.fatal == PIB_HCA_FATAL_EQ_DMA);
    q.eqs.completion_event(eq.eqn, 2);
    CHECK(q.fatals == 1);
    CHECK_FALSE(q.doorbell(eq, true));
    q.eqs.clear();
    q.host.heal();
    eq = q.create(2, async);
    q.eqs.completion_event(eq.eqn, 3);
    CHECK(q.poll(eq)->number == 3);
}

TEST_CASE("events without an async EQ are dropped") {
    Queues q;
    CHECK_FALSE(q.eqs.has_async());
    q.eqs.async_event(Event::kPort, 0);
    MiniEq eq = q.create(2, true);
    CHECK(q.eqs.has_async());
    CHECK_FALSE(q.poll(eq));
    q.eqs.async_event(Event::kQpFatal, 0x41, 9, 0);
    const auto eqe = q.poll(eq);
    REQUIRE(eqe);
    CHECK(eqe->type == PIB_HCA_EVENT_QP_FATAL);
    CHECK(eqe->number == 0x41);
    CHECK(eqe->data == 9);
    CHECK(q.eqs.destroy(eq.eqn) == CmdStatus::kOk);
    CHECK_FALSE(q.eqs.has_async());
}

TEST_CASE("the owner bit changes with each pass around the ring") {
    Queues q;
    MiniEq eq = q.create(1);
    for (uint32_t i = 0; i < 100; ++i) {
        q.eqs.completion_event(eq.eqn, i);
        const auto eqe = q.poll(eq);
        REQUIRE(eqe);
        REQUIRE(eqe->number == i);
        REQUIRE_FALSE(q.poll(eq));
        REQUIRE(q.doorbell(eq, false));
    }
}
