// SPDX-License-Identifier: GPL-2.0-or-later
#include "links/note_budget.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

namespace pib::test {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
using fabric::NoteBudget;

}  // namespace

TEST_CASE("notes: a port that causes many leaves room for those of others") {
    NoteBudget notes;
    unsigned permitted = 0;
    for (unsigned i = 0; i < 1000; ++i) {
        permitted += notes.permit_port("port 1", kSecond + i) ? 1 : 0;
    }
    CHECK(permitted == NoteBudget::kMostOfOne);
    CHECK(notes.permit_port("port 2", kSecond));
    CHECK(notes.permit_newcomer("192.0.2.1", kSecond));
    CHECK_FALSE(notes.permit_port("port 1", 2 * kSecond - 1));
    CHECK(notes.permit_port("port 1", 2 * kSecond));
}

TEST_CASE("notes: many new connections hide no port's first note, and share one limit") {
    NoteBudget notes;
    unsigned permitted = 0;
    for (unsigned i = 0; i < 1000; ++i) {
        permitted += notes.permit_newcomer("2001:db8:0:" + std::to_string(i) + "::", 0) ? 1 : 0;
    }
    CHECK(permitted == NoteBudget::kMost);
    CHECK(notes.permit_port("port 1", 0));
    CHECK_FALSE(notes.permit_port("port 1", 0));
    CHECK(notes.permit_port("port 2", 0));
}

TEST_CASE("notes: new connections of one network leave room for those of others") {
    NoteBudget notes;
    unsigned permitted = 0;
    for (unsigned i = 0; i < 1000; ++i) {
        permitted += notes.permit_newcomer("192.0.2.1", 0) ? 1 : 0;
    }
    CHECK(permitted == NoteBudget::kMostOfOne);
    CHECK(notes.permit_newcomer("192.0.2.2", 0));
}

}  // namespace pib::test
