// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/timers.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <random>
#include <utility>

using namespace pib::hca;

namespace {

// A map with the same deadlines, which finds the earliest one by looking at all.
struct Model {
    std::map<uint32_t, uint64_t> deadlines;

    std::pair<uint64_t, uint32_t> first() const {
        std::pair<uint64_t, uint32_t> first{kNever, Timers::kNone};
        for (const auto& [id, deadline_ns] : deadlines) {
            first = std::min(first, {deadline_ns, id});
        }
        return first;
    }
    uint32_t take_due(uint64_t now_ns) {
        const auto [deadline_ns, id] = first();
        return deadline_ns <= now_ns && deadlines.erase(id) != 0 ? id : Timers::kNone;
    }
};

}  // namespace

TEST_CASE("timers: deadlines expire in their order and not before their time") {
    Timers timers;
    timers.set(7, 300);
    timers.set(2, 100);
    timers.set(9, 200);
    CHECK(timers.next() == 100);
    CHECK(timers.take_due(99) == Timers::kNone);
    CHECK(timers.take_due(100) == 2);
    CHECK(timers.next() == 200);
    CHECK(timers.take_due(250) == 9);
    CHECK(timers.take_due(250) == Timers::kNone);
    CHECK(timers.take_due(1000) == 7);
    CHECK(timers.next() == kNever);
}

TEST_CASE("timers: without deadlines nothing is due at any time") {
    Timers timers;
    CHECK(timers.next() == kNever);
    CHECK(timers.take_due(kNever) == Timers::kNone);
}

TEST_CASE("timers: equal deadlines expire by id") {
    Timers timers;
    for (const uint32_t id : {5, 3, 8, 1}) {
        timers.set(id, 100);
    }
    for (const uint32_t id : {1, 3, 5, 8}) {
        CHECK(timers.take_due(100) == id);
    }
}

TEST_CASE("timers: a new deadline replaces the former one of its id") {
    Timers timers;
    timers.set(1, 100);
    timers.set(2, 200);
    timers.set(3, 300);
    SECTION("a later one") {
        timers.set(1, 250);
        CHECK(timers.take_due(1000) == 2);
        CHECK(timers.take_due(1000) == 1);
        CHECK(timers.take_due(1000) == 3);
    }
    SECTION("an earlier one") {
        timers.set(3, 150);
        CHECK(timers.take_due(1000) == 1);
        CHECK(timers.take_due(1000) == 3);
        CHECK(timers.take_due(1000) == 2);
    }
    CHECK(timers.take_due(1000) == Timers::kNone);
}

TEST_CASE("timers: a cancelled deadline does not expire, and others stay") {
    Timers timers;
    timers.set(1, 100);
    timers.set(2, 200);
    timers.set(3, 300);
    timers.cancel(1);
    timers.cancel(1);
    timers.cancel(3);
    timers.cancel(77);
    CHECK(timers.next() == 200);
    CHECK(timers.take_due(1000) == 2);
    CHECK(timers.take_due(1000) == Timers::kNone);
    timers.set(1, 400);
    CHECK(timers.next() == 400);
}

TEST_CASE("timers: after clear() the same ids can be set again") {
    Timers timers;
    timers.set(1, 100);
    timers.set(2, 200);
    timers.clear();
    CHECK(timers.next() == kNever);
    timers.set(2, 300);
    CHECK(timers.next() == 300);
    CHECK(timers.take_due(300) == 2);
    CHECK(timers.take_due(kNever) == Timers::kNone);
}

TEST_CASE("timers: many deadlines that move and are cancelled expire as in a simple model") {
    Timers timers;
    Model model;
    std::minstd_rand random(1);
    uint64_t now_ns = 0;
    for (int step = 0; step < 5000; ++step) {
        const uint32_t id = random() % 64;
        if (const auto action = random() % 8; action < 5) {
            const uint64_t deadline_ns = now_ns + random() % 100;
            timers.set(id, deadline_ns);
            model.deadlines[id] = deadline_ns;
        } else if (action < 6) {
            timers.cancel(id);
            model.deadlines.erase(id);
        } else {
            now_ns += random() % 8;
            REQUIRE(timers.take_due(now_ns) == model.take_due(now_ns));
        }
        REQUIRE(timers.next() == model.first().first);
    }
}
