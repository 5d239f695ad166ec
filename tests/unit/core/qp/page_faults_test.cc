// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/page_faults.h"

#include <catch2/catch_test_macros.hpp>

using namespace pib::hca;

namespace {

PageMiss at(uint64_t addr) {
    return {.key = 5, .addr = addr, .length = 4096, .for_write = true};
}

bool is_none(const PageFault& fault) {
    return fault.miss.length == 0;
}

}  // namespace

TEST_CASE("page faults: a fault has its QP, half and miss") {
    PageFaults faults;
    CHECK(faults.add(40, QpHalf::kResponder, at(0x7000)));
    const PageFault fault = faults.take();
    CHECK(fault.qpn == 40);
    CHECK(fault.half == QpHalf::kResponder);
    CHECK(fault.miss.key == 5);
    CHECK(fault.miss.addr == 0x7000);
    CHECK(fault.miss.length == 4096);
    CHECK(fault.miss.for_write);
    CHECK(is_none(faults.take()));
}

TEST_CASE("page faults: one event announces all faults until the driver finds none") {
    PageFaults faults;
    CHECK(faults.add(40, QpHalf::kRequester, at(0x1000)));
    CHECK_FALSE(faults.add(41, QpHalf::kRequester, at(0x2000)));
    CHECK_FALSE(is_none(faults.take()));
    CHECK_FALSE(is_none(faults.take()));
    // The driver has not yet seen that there are no more.
    CHECK_FALSE(faults.add(40, QpHalf::kRequester, at(0x1000)));
    CHECK_FALSE(is_none(faults.take()));
    CHECK(is_none(faults.take()));
    CHECK(faults.add(40, QpHalf::kRequester, at(0x1000)));
}

TEST_CASE("page faults: each half of a QP has at most one fault, the newest") {
    PageFaults faults;
    (void)faults.add(40, QpHalf::kRequester, at(0x1000));
    (void)faults.add(40, QpHalf::kResponder, at(0x2000));
    (void)faults.add(40, QpHalf::kRequester, at(0x3000));
    uint64_t requester = 0;
    uint64_t responder = 0;
    for (int i = 0; i < 2; ++i) {
        const PageFault fault = faults.take();
        (fault.half == QpHalf::kRequester ? requester : responder) = fault.miss.addr;
    }
    CHECK(requester == 0x3000);
    CHECK(responder == 0x2000);
    CHECK(is_none(faults.take()));
}

TEST_CASE("page faults: a forgotten QP has no fault in either half") {
    PageFaults faults;
    (void)faults.add(40, QpHalf::kRequester, at(0x1000));
    (void)faults.add(40, QpHalf::kResponder, at(0x2000));
    (void)faults.add(41, QpHalf::kResponder, at(0x3000));
    faults.forget(40);
    faults.forget(99);
    CHECK(faults.take().qpn == 41);
    CHECK(is_none(faults.take()));
}

TEST_CASE("page faults: after clear() there are none, and the next one needs an event") {
    PageFaults faults;
    (void)faults.add(40, QpHalf::kRequester, at(0x1000));
    SECTION("none are left") {
        faults.clear();
        CHECK(is_none(faults.take()));
    }
    SECTION("the next one is announced") {
        faults.clear();
        CHECK(faults.add(41, QpHalf::kRequester, at(0x2000)));
    }
}
