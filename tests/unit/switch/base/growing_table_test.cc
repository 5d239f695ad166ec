// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/growing_table.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>

namespace pib::test {

TEST_CASE("a growing table is unused beyond its highest entry") {
    fabric::GrowingTable<uint8_t, 0xFF> table(100);
    CHECK(table.size() == 100);
    CHECK(table[0] == 0xFF);
    CHECK(table[99] == 0xFF);
    table.set(50, 7);
    CHECK(table[49] == 0xFF);
    CHECK(table[50] == 7);
    CHECK(table[51] == 0xFF);
    table.set(99, 0xFF);
    CHECK(table[99] == 0xFF);
    table.set(50, 0xFF);
    table.set(3, 4);
    CHECK(table[50] == 0xFF);
    CHECK(table[3] == 4);
    CHECK(table.size() == 100);
}

}  // namespace pib::test
