// SPDX-License-Identifier: GPL-2.0-or-later
#include "ib/mgmt/sl_to_vl_table.h"

#include <catch2/catch_test_macros.hpp>

using namespace pib::ib;

namespace {

constexpr size_t kInputs = 5;
constexpr SlToVl kFirst{0, 1, 2, 3};
constexpr SlToVl kOther{3, 2, 1, 0};

}  // namespace

TEST_CASE("an SL to VL table has one row for all inputs until one of them differs") {
    SlToVlTable table(kInputs, kFirst);
    CHECK(table.size() == kInputs);
    CHECK(&table[0] == &table[kInputs - 1]);
    table.set(2, kFirst);
    CHECK(&table[0] == &table[kInputs - 1]);
    table.set(2, kOther);
    for (size_t input = 0; input < kInputs; ++input) {
        CHECK(table[input] == (input == 2 ? kOther : kFirst));
    }
}

TEST_CASE("an SL to VL table has one row again when all inputs have got the same") {
    SlToVlTable table(kInputs, kFirst);
    for (size_t input = 0; input < kInputs; ++input) {
        CHECK_FALSE(table == SlToVlTable(kInputs, kOther));
        table.set(input, kOther);
        CHECK(table[input] == kOther);
    }
    CHECK(&table[0] == &table[kInputs - 1]);
    CHECK(table == SlToVlTable(kInputs, kOther));
}

TEST_CASE("the SL to VL table of a channel adapter has a single input") {
    SlToVlTable table(1, kFirst);
    table.set(0, kOther);
    CHECK(table.size() == 1);
    CHECK(table[0] == kOther);
}
