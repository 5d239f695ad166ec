// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/send_window.h"

#include <catch2/catch_test_macros.hpp>

using namespace pib;
using namespace pib::hca;

namespace {

constexpr uint32_t kStride = 64;

// Fills the window as far as the budget permits; returns how many WQEs fit.
uint32_t fill(SendWindow& window, SnapshotBudget& budget) {
    while (!window.reserve(kStride, budget).empty()) {
        window.push(0, {}).wqe = {};
    }
    return window.size();
}

}  // namespace

TEST_CASE("send window: a budget limits how far windows grow") {
    SnapshotBudget budget;
    SendWindow window;
    CHECK(fill(window, budget) == SendWindow::kMaxSlots);
    CHECK(budget.left < SnapshotBudget::kBytes);
    window.release(budget);
    CHECK(budget.left == SnapshotBudget::kBytes);
    budget.left = 0;
    CHECK(fill(window, budget) == SendWindow::kFirstSlots);
}

TEST_CASE("send window: a window returns to the budget only what it has taken") {
    SnapshotBudget budget{.left = 100};
    SendWindow window;
    for (int i = 0; i < 3; ++i) {
        CHECK(fill(window, budget) == SendWindow::kFirstSlots);
        window.release(budget);
        CHECK(budget.left == 100);
    }
}

TEST_CASE("send window: a new request has no values of an earlier one in its slot") {
    SnapshotBudget budget;
    SendWindow window;
    for (uint32_t i = 0; i < 2 * SendWindow::kFirstSlots; ++i) {
        REQUIRE_FALSE(window.reserve(kStride, budget).empty());
        SendRequest& request = window.push(i, ib::Psn(i + 7));
        CHECK(request.counter == i);
        CHECK(request.psn_first == ib::Psn(i + 7));
        CHECK(request.psn_asked == ib::Psn());
        CHECK(request.ssn == 0);
        CHECK(request.packets == 0);
        CHECK_FALSE(request.failed());
        CHECK_FALSE(request.started);
        request.psn_asked = ib::Psn(1);
        request.ssn = 2;
        request.packets = 3;
        request.error.status = WcStatus::kLocProtErr;
        request.started = true;
        window.pop();
    }
}
