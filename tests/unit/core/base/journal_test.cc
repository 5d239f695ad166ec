// SPDX-License-Identifier: GPL-2.0-or-later
// The device's journal: its entries, what it leaves out, and its bound.
#include "base/journal.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace pib::hca;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("journal: a failed request has its connection") {
    Journal journal;
    journal.failed(7000, {.qpn = 0x41,
                          .counter = 3,
                          .send = true,
                          .status = WcStatus::kRetryExcErr,
                          .connected = true,
                          .port = 1,
                          .dlid = 9,
                          .dest_qpn = 0x40,
                          .timeout = 20,
                          .retry_cnt = 7,
                          .rnr_retry = 6});
    CHECK(journal.json(8000) ==
          R"({"now_ns":8000,"lost":0,"entries":[{"time_ns":7000,"kind":"completion","qpn":65,)"
          R"("queue":"send","counter":3,"status":"IBV_WC_RETRY_EXC_ERR","vendor_err":0,"port":1,)"
          R"("dlid":9,"dest_qpn":64,"timeout":20,"retry_cnt":7,"rnr_retry":6}]})");
}

TEST_CASE("journal: a datagram's failure has no connection") {
    Journal journal;
    journal.failed(1, {.qpn = 2, .status = WcStatus::kLocLenErr, .broken = refuse(Rule::kWqeLong)});
    CHECK_THAT(journal.json(1), ContainsSubstring(R"("queue":"recv")"));
    CHECK_THAT(journal.json(1), ContainsSubstring(R"("vendor_err":5})"));
}

TEST_CASE("journal: successes, flushes and everyday events are left out") {
    Journal journal;
    journal.failed(1, {.status = WcStatus::kSuccess});
    journal.failed(1, {.status = WcStatus::kWrFlushErr});
    for (const Event event :
         {Event::kCompletion, Event::kCommEstablished, Event::kSqDrained, Event::kCommand,
          Event::kSrqLimitReached, Event::kLastWqeReached, Event::kPageFault}) {
        journal.raised(1, {.type = event});
    }
    CHECK(journal.json(2) == R"({"now_ns":2,"lost":0,"entries":[]})");
}

TEST_CASE("journal: events have libibverbs' names") {
    Journal journal;
    journal.raised(1, {.type = Event::kQpAccessError, .number = 0x40});
    journal.raised(
        2, {.type = Event::kPort, .data = port_event::kError | port_event::kLidChange, .port = 2});
    const std::string text = journal.json(3);
    CHECK_THAT(text, ContainsSubstring(R"("event":"IBV_EVENT_QP_ACCESS_ERR","number":64)"));
    CHECK_THAT(text, ContainsSubstring(R"("event":"IBV_EVENT_PORT_ERR IBV_EVENT_LID_CHANGE")"));
    CHECK_THAT(text, ContainsSubstring(R"("port":2})"));
}

TEST_CASE("journal: the newest entries replace the oldest") {
    Journal journal;
    for (uint32_t i = 0; i < Journal::kMost + 2; ++i) {
        journal.raised(i, {.type = Event::kQpFatal, .number = i});
    }
    const std::string text = journal.json(1000);
    CHECK_THAT(text, ContainsSubstring(R"("lost":2,"entries":[{"time_ns":2,)"));
    CHECK_THAT(text, ContainsSubstring(R"("number":257,"data":0,"port":0}]})"));
}
