// SPDX-License-Identifier: GPL-2.0-or-later
#include "ib/mgmt/lazy.h"

#include <array>
#include <catch2/catch_test_macros.hpp>

using pib::ib::Lazy;

namespace {

using Numbers = std::array<int, 4>;

}  // namespace

TEST_CASE("a lazy value is the default without storage") {
    Lazy<Numbers> lazy;
    CHECK_FALSE(lazy);
    CHECK(*lazy == Numbers{});
    CHECK(lazy->size() == 4);
    lazy.make()[2] = 7;
    CHECK(lazy);
    CHECK(*lazy == Numbers{0, 0, 7, 0});
    lazy.make()[3] = 8;
    CHECK(*lazy == Numbers{0, 0, 7, 8});
}

TEST_CASE("copies of a lazy value are independent") {
    Lazy<Numbers> one;
    one.make()[0] = 1;
    Lazy<Numbers> two = one;
    two.make()[0] = 2;
    CHECK((*one)[0] == 1);
    CHECK((*two)[0] == 2);
    two = one;
    CHECK((*two)[0] == 1);
    two = {};
    CHECK_FALSE(two);
    CHECK_FALSE(Lazy<Numbers>(two));
    const Lazy<Numbers> moved = std::move(one);
    CHECK((*moved)[0] == 1);
}

TEST_CASE("lazy values are equal if their contents are, with storage or without") {
    const Lazy<Numbers> none;
    Lazy<Numbers> some;
    CHECK(some == none);
    some.make()[1] = 0;
    CHECK(some == none);
    some.make()[1] = 5;
    CHECK_FALSE(some == none);
    CHECK(some == Lazy<Numbers>(some));
}
