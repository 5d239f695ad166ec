// SPDX-License-Identifier: GPL-2.0-or-later
// Reasons of refusals: each rule has one that a command provokes, and a guest cannot flood the log.
#include "rules/refusals.h"

#include <catch2/catch_test_macros.hpp>

#include "refusal_room.h"
#include "rules/rule_table.h"

using namespace pib::hca;
using namespace pib::hca::test;

TEST_CASE("each rule is named by the refusal or misuse that breaks it") {
    std::set<std::string> named = check_accesses(access_refusals());
    for (const auto& cases :
         {command_refusals(), memory_refusals(), queue_refusals(), qp_refusals()}) {
        named.merge(check_refusals(cases));
    }
    named.merge(check_misuses(misuses()));
    std::set<std::string> rules;
    for (const RuleText& rule : rule_texts()) {
        rules.insert(number_text(rule.rule));
    }
    CHECK(named == rules);
}

TEST_CASE("a refusal is printed with command, field, offset, value, limit and rule") {
    RefusalRoom room(refusal_config());
    auto in = room.cq_in();
    in.log_depth = 31;
    CHECK_FALSE(room.send(in).ok());
    CHECK(room.host.last_guest_error ==
          "pib-hca: CREATE_CQ id 5 refused: log_depth 31 at byte 24, at most 22 "
          "(manual 6.13 rule 2)");
}

TEST_CASE("a guest that repeats refusals has few of them printed in a second, and the last kept") {
    RefusalRoom room(refusal_config());
    const unsigned before = room.host.guest_errors;
    for (unsigned i = 0; i < 1000; ++i) {
        CHECK_FALSE(room.d.command(PIB_HCA_CMD_FREE_PD, 1000 + i).ok());
    }
    CHECK(room.host.guest_errors - before == GuestErrors::kLinesPerSecond);
    const std::string objects = room.device->objects();
    CHECK(objects.find("\"refusals\":{\"count\":1000,") != std::string::npos);
    CHECK(objects.find("object 1999 at byte 4 of the entry") != std::string::npos);
    CHECK(objects.find("object " + std::to_string(2000 - Refusals::kKept) + " at") !=
          std::string::npos);
    CHECK(objects.find("object " + std::to_string(1999 - Refusals::kKept) + " at") ==
          std::string::npos);

    room.host.clock_ns += 1'000'000'000;
    CHECK_FALSE(room.d.command(PIB_HCA_CMD_FREE_PD, 7).ok());
    CHECK(room.host.guest_errors - before == GuestErrors::kLinesPerSecond + 2);
    CHECK(room.host.last_guest_error.starts_with("pib-hca: FREE_PD id "));
}

TEST_CASE("the refusals outlive a reset of the device") {
    RefusalRoom room(refusal_config());
    CHECK_FALSE(room.d.command(PIB_HCA_CMD_FREE_PD, 1000).ok());
    room.device->reset(false);
    CHECK(room.device->objects().find("object 1000 at byte 4 of the entry") != std::string::npos);
}

TEST_CASE("a work request that breaks a rule is printed") {
    RefusalRoom room(refusal_config());
    room.pass(room.rts_in());
    room.d.post_send(room.qp, {.opcode = 0xee});
    room.d.pump();
    CHECK(room.host.last_guest_error ==
          "pib-hca: send WQE 0 of QP 64 refused: IBV_WC_LOC_QP_OP_ERR (manual 16.2 rule 2)");
}
