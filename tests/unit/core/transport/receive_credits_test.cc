// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/receive_credits.h"

#include <catch2/catch_test_macros.hpp>

using namespace pib;
using namespace pib::hca;

namespace {

ib::Aeth ack(uint32_t credits, uint32_t msn) {
    return ib::Aeth::ack(ib::credit_code(credits), msn);
}

}  // namespace

TEST_CASE("numbers of messages are compared modulo 2^24") {
    struct Case {
        uint32_t a;
        uint32_t b;
        bool after;
    };
    for (const Case& c :
         {Case{1, 0, true}, Case{0, 1, false}, Case{5, 5, false}, Case{0, 0xffffff, true},
          Case{0xffffff, 0, false}, Case{0x7fffff, 0, true}, Case{0x1000001, 0xffffff, true}}) {
        INFO(c.a << " after " << c.b);
        CHECK(requester::is_after(c.a, c.b) == c.after);
    }
}

TEST_CASE("the last message that finds a receive WQE moves forward only, also past 2^24") {
    RequesterState req;
    req.lsn = 0xfffff0;
    requester::credits_told(req, ack(12, 0xfffff2));
    CHECK(req.lsn == 0xfffffe);
    requester::credits_told(req, ack(12, 0xfffff8));
    CHECK((req.lsn & 0xffffff) == 4);
    requester::credits_told(req, ack(0, 0xffffff));  // an ACK that another one has overtaken
    CHECK((req.lsn & 0xffffff) == 4);
    CHECK_FALSE(req.no_credits);
}
