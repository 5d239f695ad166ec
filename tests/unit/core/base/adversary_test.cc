// SPDX-License-Identifier: GPL-2.0-or-later
// The random choices of an adversarial device: parsing of its property, sequences, limits.
#include "base/adversary.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <numeric>
#include <set>
#include <vector>

#include "base/config.h"

using namespace pib::hca;

namespace {

AdversaryPlan plan(const char* text) {
    return AdversaryPlan::parse(text).value();
}

}  // namespace

TEST_CASE("an adversary is a seed, or a seed and kinds") {
    CHECK(plan("7").seed == 7);
    CHECK(plan("7").kinds == AdversaryPlan::kGentle);
    CHECK((plan("7").kinds & AdversaryPlan::bit(Adversity::kEnd)) == 0);
    CHECK(plan("18446744073709551615:end").seed == UINT64_MAX);
    CHECK(plan("1:clock+end").kinds ==
          (AdversaryPlan::bit(Adversity::kClock) | AdversaryPlan::bit(Adversity::kEnd)));
    CHECK(Config().knobs.adversary.kinds == 0);
    for (const char* bad : {"", "x", "7x", "-1", "18446744073709551616", ":clock"}) {
        CHECK(AdversaryPlan::parse(bad).error().find("must be a number") != std::string::npos);
    }
    for (const char* bad : {"7:", "7:clocks", "7:clock+", "7:clock end"}) {
        CHECK(AdversaryPlan::parse(bad).error().find("commands, interrupts, events") !=
              std::string::npos);
    }
}

TEST_CASE("a seed determines the choices, and each kind has a sequence of its own") {
    Adversary first(plan("7")), again(plan("7")), other(plan("8")), fewer(plan("7:clock"));
    std::vector<uint64_t> numbers[4];
    for (unsigned i = 0; i < 100; ++i) {
        (void)first.event_wait();  // a choice of another kind
        numbers[0].push_back(first.below(Adversity::kClock, 1000));
        numbers[1].push_back(again.below(Adversity::kClock, 1000));
        numbers[2].push_back(other.below(Adversity::kClock, 1000));
        numbers[3].push_back(fewer.below(Adversity::kClock, 1000));
    }
    CHECK(numbers[0] == numbers[1]);
    CHECK(numbers[0] != numbers[2]);
    CHECK(numbers[0] == numbers[3]);
}

TEST_CASE("no wait is longer than the manual permits, and most are zero") {
    Adversary adversary(plan("3"));
    uint64_t longest = 0;
    unsigned at_once = 0;
    for (unsigned i = 0; i < 100'000; ++i) {
        CHECK(adversary.event_wait() <= Adversary::kEventNs);
        CHECK(adversary.interrupt_wait() <= Adversary::kEventNs);
        CHECK(adversary.fetch_wait() <= Adversary::kFetchNs);
        CHECK(adversary.step() <= Adversary::kStepNs);
        const uint64_t command = adversary.command_wait();
        longest = std::max(longest, command);
        at_once += command == 0 ? 1 : 0;
    }
    CHECK(longest == Adversary::kCommandNs);
    CHECK(at_once > 50'000);
}

TEST_CASE("a kind that is left out does not happen") {
    Adversary adversary(plan("3:numbers"));
    for (unsigned i = 0; i < 10'000; ++i) {
        CHECK(adversary.command_wait() + adversary.event_wait() + adversary.interrupt_wait() +
                  adversary.fetch_wait() ==
              0);
        CHECK_FALSE(adversary.spurious_interrupt(8));
        CHECK_FALSE((adversary.repeats_interrupt() || adversary.fetches_twice() ||
                     adversary.looks_early() || adversary.loses_request() ||
                     adversary.loses_mad()));
        CHECK(adversary.setback() == Setback::kNone);
    }
}

TEST_CASE("every setback occurs, and no two MADs in succession are lost") {
    Adversary adversary(plan("3:retries"));
    std::set<Setback> seen;
    unsigned lost = 0;
    bool last = false;
    for (unsigned i = 0; i < 100'000; ++i) {
        seen.insert(adversary.setback());
        const bool loses = adversary.loses_mad();
        CHECK_FALSE((last && loses));
        last = loses;
        lost += loses ? 1 : 0;
    }
    CHECK(seen.size() == 4);
    CHECK(lost > 1000);
}

TEST_CASE("each order of four elements occurs") {
    Adversary adversary(plan("3"));
    std::set<std::vector<int>> orders;
    for (unsigned i = 0; i < 1000; ++i) {
        std::vector<int> order(4);
        std::iota(order.begin(), order.end(), 0);
        adversary.shuffle(Adversity::kEvents, std::span(order));
        orders.insert(order);
    }
    CHECK(orders.size() == 24);
}

TEST_CASE("an adversary sets the test knobs that the user has not set") {
    TestKnobs knobs;
    CHECK_FALSE(knobs.joined().poison_wc);
    knobs.adversary = plan("1");
    CHECK((knobs.joined().poison_wc && knobs.joined().shuffle_srq));
    CHECK(knobs.joined().qpn_choice == NumberChoice::kLowest);
    CHECK(knobs.joined().number_choice == NumberChoice::kLowest);
    knobs.qpn_choice = NumberChoice::kRandom;
    CHECK(knobs.joined().qpn_choice == NumberChoice::kRandom);
    knobs.adversary = plan("1:clock");
    CHECK_FALSE((knobs.joined().poison_wc || knobs.joined().shuffle_srq));
    CHECK(knobs.joined().number_choice == NumberChoice::kRound);
}
