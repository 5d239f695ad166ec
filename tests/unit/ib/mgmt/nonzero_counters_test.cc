// SPDX-License-Identifier: GPL-2.0-or-later
#include "ib/mgmt/nonzero_counters.h"

#include <catch2/catch_test_macros.hpp>
#include <random>

using namespace pib::ib;

TEST_CASE("each counter has the value that was set last") {
    NonzeroCounters counters;
    std::array<uint64_t, kCounterCount> expected{};
    std::mt19937_64 random(7);
    for (unsigned i = 0; i < 2000; ++i) {
        const size_t index = random() % kCounterCount;
        const uint64_t value = random() % 3 == 0 ? 0 : random();
        counters.set(static_cast<Counter>(index), value);
        expected[index] = value;
        for (size_t j = 0; j < kCounterCount; ++j) {
            CAPTURE(i, j);
            REQUIRE(counters[static_cast<Counter>(j)] == expected[j]);
        }
    }
}

TEST_CASE("counters with equal values are equal, whatever values they had before") {
    NonzeroCounters one, two;
    one.set(Counter::kSymbolErrors, 1);
    one.set(Counter::kFecUncorrectableBlocksLane, 2);
    two.set(Counter::kFecUncorrectableBlocksLane, 2);
    two.set(Counter::kSymbolErrors, 5);
    CHECK_FALSE(one == two);
    two.set(Counter::kSymbolErrors, 1);
    two.set(Counter::kLinkDowned, 3);
    CHECK_FALSE(one == two);
    two.set(Counter::kLinkDowned, 0);
    CHECK(one == two);
}
