// SPDX-License-Identifier: GPL-2.0-or-later
// A switch's journal of its links: order, repetitions, and the bound.
#include "switch/link_journal.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

using namespace pib::fabric;

TEST_CASE("link journal: entries are in order, repetitions are counted") {
    LinkJournal journal;
    journal.add(10, 3, LinkChange::kError, "buffer overrun");
    journal.add(20, 3, LinkChange::kError, "buffer overrun");
    journal.add(30, 4, LinkChange::kError, "buffer overrun");
    journal.add(40, 4, LinkChange::kError, "local link integrity");
    journal.add(50, 4, LinkChange::kDown);
    const auto& entries = journal.entries();
    REQUIRE(entries.size() == 4);
    CHECK(entries[0].time_ns == 20);
    CHECK(entries[0].times == 2);
    CHECK(entries[1].port == 4);
    CHECK(entries[1].times == 1);
    CHECK(entries[2].detail == "local link integrity");
    CHECK(entries[3].change == LinkChange::kDown);
    CHECK(journal.lost() == 0);
    CHECK(journal.changes() == 5);
}

TEST_CASE("link journal: a port that flaps pushes out only its own entries") {
    LinkJournal journal;
    for (uint8_t port = 1; port <= 36; ++port) {
        journal.add(port, port, LinkChange::kUp);
    }
    for (uint64_t i = 0; i < 10'000; ++i) {
        journal.add(100 + i, 7, i % 2 == 0 ? LinkChange::kDown : LinkChange::kUp);
    }
    CHECK(journal.entries().size() == LinkJournal::kMost);
    for (uint8_t port = 1; port <= 36; ++port) {
        CHECK(std::ranges::count(journal.entries(), port, &LinkJournal::Entry::port) != 0);
    }
    CHECK(journal.entries().back().time_ns == 10'099);
}

TEST_CASE("link journal: the newest entries replace the oldest") {
    LinkJournal journal;
    for (uint64_t i = 0; i < LinkJournal::kMost + 3; ++i) {
        journal.add(i, 1, i % 2 == 0 ? LinkChange::kUp : LinkChange::kDown);
    }
    CHECK(journal.entries().size() == LinkJournal::kMost);
    CHECK(journal.entries().front().time_ns == 3);
    CHECK(journal.lost() == 3);
    CHECK(journal.changes() == LinkJournal::kMost + 3);
}
