// SPDX-License-Identifier: GPL-2.0-or-later
#include "ib/mgmt/counter_set.h"

#include <catch2/catch_test_macros.hpp>

using namespace pib::ib;

TEST_CASE("each counter of a set counts separately") {
    for (size_t i = 0; i < kCounterCount; ++i) {
        CounterSet counters;
        counters.add(static_cast<Counter>(i), 3);
        counters.add(static_cast<Counter>(i), 4);
        for (size_t j = 0; j < kCounterCount; ++j) {
            CAPTURE(i, j);
            CHECK(counters[static_cast<Counter>(j)] == (i == j ? 7 : 0));
        }
    }
}

TEST_CASE("the counter of an SL or VL is found by its block too") {
    for (const Counter first :
         {Counter::kPortXmitDataSl, Counter::kPortRcvDataSl, Counter::kPortVlXmitWait,
          Counter::kPortVlXmitFlowCtlUpdateErrors}) {
        CounterSet counters;
        for (size_t i = 0; i < kPerPriority; ++i) {
            counters.add(first, i, i + 1);
        }
        for (size_t i = 0; i < kPerPriority; ++i) {
            CHECK(counters[counter_of(first, i)] == i + 1);
        }
    }
}

TEST_CASE("sets of counters are equal if all counters are") {
    CounterSet one, two;
    for (const Counter counter :
         {Counter::kSymbolErrors, Counter::kPortXmitDataSl, counter_of(Counter::kPortRcvDataSl, 9),
          Counter::kFecUncorrectableBlocksLane}) {
        one.add(counter, 1);
        CHECK_FALSE(one == two);
        two.add(counter, 1);
        CHECK(one == two);
    }
    // A counter that is 0 again has storage, but the same value.
    one.add(counter_of(Counter::kPortVlXmitWait, 3), 1);
    one.add(counter_of(Counter::kPortVlXmitWait, 3), uint64_t(0) - 1);
    CHECK(one == two);
}
