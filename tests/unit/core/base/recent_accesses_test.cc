// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/recent_accesses.h"

#include <catch2/catch_test_macros.hpp>

using namespace pib::hca;

namespace {

MmioAccess load(uint64_t offset, uint64_t value) {
    return {.value = value, .offset = offset, .bar = 0, .size = 4};
}

MmioAccess store(uint64_t offset, uint64_t value) {
    return {.value = value, .offset = offset, .bar = 2, .size = 4, .store = true};
}

}  // namespace

TEST_CASE("recent accesses: before the first there is none") {
    CHECK(RecentAccesses().text() == "no access");
}

TEST_CASE("recent accesses: loads and stores, the oldest first") {
    RecentAccesses recent;
    recent.add(load(8, 1));
    recent.add(store(0x10, 0x41));
    CHECK(recent.text() == "BAR0+0x8 is 0x1, BAR2+0x10 = 0x41");
}

TEST_CASE("recent accesses: a width other than 4 bytes is named") {
    RecentAccesses recent;
    recent.add({.value = UINT64_MAX, .offset = UINT64_MAX, .bar = 5, .size = 8});
    CHECK(recent.text() == "BAR5+0xffffffffffffffff is 0xffffffffffffffff (8 bytes)");
}

TEST_CASE("recent accesses: repeated loads count as one only if they are equal and adjacent") {
    RecentAccesses recent;
    recent.add(load(8, 1));
    recent.add(load(8, 1));
    CHECK(recent.text() == "BAR0+0x8 is 0x1");
    SECTION("a new value") {
        recent.add(load(8, 2));
        recent.add(load(8, 2));
        CHECK(recent.text() == "BAR0+0x8 is 0x1, BAR0+0x8 is 0x2");
    }
    SECTION("another access in between") {
        recent.add(store(4, 3));
        recent.add(load(8, 1));
        CHECK(recent.text() == "BAR0+0x8 is 0x1, BAR2+0x4 = 0x3, BAR0+0x8 is 0x1");
    }
}

TEST_CASE("recent accesses: each of several equal stores counts") {
    RecentAccesses recent;
    recent.add(store(4, 3));
    recent.add(store(4, 3));
    CHECK(recent.text() == "BAR2+0x4 = 0x3, BAR2+0x4 = 0x3");
}

TEST_CASE("recent accesses: the newest accesses are kept") {
    RecentAccesses recent;
    for (uint64_t value = 1; value <= RecentAccesses::kKept + 2; ++value) {
        recent.add(load(4, value));
        recent.add(load(4, value));
    }
    CHECK(recent.text() ==
          "BAR0+0x4 is 0x3, BAR0+0x4 is 0x4, BAR0+0x4 is 0x5, BAR0+0x4 is 0x6, BAR0+0x4 is 0x7, "
          "BAR0+0x4 is 0x8");
}
