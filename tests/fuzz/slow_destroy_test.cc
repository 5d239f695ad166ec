// SPDX-License-Identifier: GPL-2.0-or-later
// The provider destroys an object whose events are not acknowledged, while another thread creates
// one. The kernel gives the new object the number of the old one.
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "provider/lying_device.h"

namespace {

std::string text(const char* fault) {
    return fault == nullptr ? "" : fault;
}

}  // namespace

TEST_CASE("provider: while a QP is destroyed another thread may create one") {
    CHECK(text(slow_destroy_of_qp()).empty());
}

TEST_CASE("provider: while an XRC SRQ is destroyed another thread may create one") {
    CHECK(text(slow_destroy_of_srq()).empty());
}

TEST_CASE("provider: a thread may create, destroy and reset QPs of the CQ that it polls") {
    CHECK(text(create_qp_of_polled_cq()).empty());
}

TEST_CASE("provider: two threads may reset QPs of two CQs, one of which one thread polls") {
    CHECK(text(reset_qps_of_polled_cq()).empty());
}
