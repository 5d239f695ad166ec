// SPDX-License-Identifier: GPL-2.0-or-later
// Reasons of refusals: each rule has one that a command provokes, and a guest cannot flood the log.
#include "rules/refusals.h"

#include <catch2/catch_test_macros.hpp>

#include "base/rule_number.h"
#include "refusal_room.h"
#include "rules/rule_table.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

// Sections of the manual whose rules tests/pair breaks: in request_rules_test.cc and
// refused_keys_test.cc.
constexpr unsigned kWorkRequests = 12, kKeys = 13;

std::string text_in(const pib_hca_refusal& refusal) {
    return reinterpret_cast<const char*>(refusal.text);
}

}  // namespace

TEST_CASE("each rule is named by the refusal or misuse that breaks it") {
    std::set<std::string> named = check_accesses(access_refusals());
    for (const auto& cases :
         {command_refusals(), memory_refusals(), queue_refusals(), qp_refusals()}) {
        named.merge(check_refusals(cases));
    }
    named.merge(check_misuses(misuses()));
    std::set<std::string> rules;
    for (const RuleText& rule : rule_texts()) {
        if (section_of(rule.rule) != kWorkRequests && section_of(rule.rule) != kKeys) {
            rules.insert(dotted_number(rule.rule));
        }
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

TEST_CASE("a refused command's completion has the rule, and QUERY_REFUSAL its reason") {
    RefusalRoom room(refusal_config());
    pib_hca_refusal last{};
    REQUIRE(room.d.command_out(PIB_HCA_CMD_QUERY_REFUSAL, 0, last).ok());
    CHECK(last.number == 0);
    auto in = room.rtr_in();
    in.av.sl = 16;
    room.host.clock_ns += 77;
    const CommandOutcome refused = room.send(in);
    CHECK(refused.result == (14u << 16 | 1u << 8 | 5));
    REQUIRE(room.d.command_out(PIB_HCA_CMD_QUERY_REFUSAL, 0, last).ok());
    CHECK(last.number == 1);
    CHECK(last.time == room.host.clock_ns);
    CHECK(last.rule == refused.result);
    CHECK(last.kind == PIB_HCA_REFUSAL_COMMAND);
    CHECK(last.opcode == PIB_HCA_CMD_MODIFY_QP);
    CHECK(last.object == room.qp.qpn);
    CHECK(last.status == PIB_HCA_CMD_STATUS_BAD_PARAM);
    CHECK(last.structure == PIB_HCA_REFUSAL_IN_INPUT);
    CHECK(last.offset == offsetof(pib_hca_modify_qp, av) + offsetof(pib_hca_av, sl));
    CHECK(last.value == 16);
    CHECK(last.limit == 15);
    CHECK("pib-hca: " + text_in(last) == room.host.last_guest_error);
}

TEST_CASE("QUERY_REFUSAL counts back from the last refusal, and returns 0 beyond the oldest one") {
    RefusalRoom room(refusal_config());
    pib_hca_refusal shown{};
    for (unsigned i = 0; i < Refusals::kKept + 3; ++i) {
        CHECK_FALSE(room.d.command(PIB_HCA_CMD_FREE_PD, 1000 + i).ok());
    }
    room.d.write32(PIB_HCA_REG_CONTROL, 0x84 | PIB_HCA_CONTROL_ENABLE);
    REQUIRE(room.d.command_out(PIB_HCA_CMD_QUERY_REFUSAL, 0, shown).ok());
    CHECK(shown.number == Refusals::kKept + 4);
    CHECK(shown.kind == PIB_HCA_REFUSAL_ACCESS);
    CHECK(shown.bar == PIB_HCA_BAR_REGS);
    CHECK(shown.object == PIB_HCA_REG_CONTROL);
    CHECK(shown.structure == PIB_HCA_REFUSAL_IN_NONE);
    REQUIRE(room.d.command_out(PIB_HCA_CMD_QUERY_REFUSAL, Refusals::kKept - 1, shown).ok());
    CHECK(shown.number == 5);
    CHECK(shown.kind == PIB_HCA_REFUSAL_COMMAND);
    CHECK(shown.structure == PIB_HCA_REFUSAL_IN_ENTRY);
    CHECK(shown.offset == offsetof(pib_hca_cmd, object));
    CHECK(shown.value == 1004);
    for (const uint32_t index : {uint32_t{Refusals::kKept}, UINT32_MAX}) {
        REQUIRE(room.d.command_out(PIB_HCA_CMD_QUERY_REFUSAL, index, shown).ok());
        CHECK(shown.number == 0);
        CHECK(shown.rule == 0);
    }
}

TEST_CASE("QUERY_REFUSAL returns a misuse that a strict device names") {
    RefusalRoom room(strict_config());
    MiniCq ahead = room.cq;
    ahead.consumer = 5;
    room.d.arm(ahead);
    pib_hca_refusal last{};
    REQUIRE(room.d.command_out(PIB_HCA_CMD_QUERY_REFUSAL, 0, last).ok());
    CHECK(last.kind == PIB_HCA_REFUSAL_MISUSE);
    CHECK(last.object == room.cq.cqn);
    CHECK(last.rule == (10u << 16 | 1u << 8 | 3));
    CHECK(text_in(last).starts_with("CQ 0x1 misused: "));
}

TEST_CASE("few of a guest's repeated refusals are printed in a second, and the last are kept") {
    RefusalRoom room(refusal_config());
    const unsigned before = room.host.guest_errors;
    for (unsigned i = 0; i < 1000; ++i) {
        CHECK_FALSE(room.d.command(PIB_HCA_CMD_FREE_PD, 1000 + i).ok());
    }
    CHECK(room.host.guest_errors - before == GuestErrors::kLinesPerSecond);
    const std::string objects = room.device->objects();
    CHECK(objects.find("\"refusals\":{\"count\":1000,") != std::string::npos);
    CHECK(objects.find("object 0x7cf at byte 4 of the entry") != std::string::npos);
    static_assert(2000 - Refusals::kKept == 0x790);
    CHECK(objects.find("object 0x790 at") != std::string::npos);
    CHECK(objects.find("object 0x78f at") == std::string::npos);

    room.host.clock_ns += 1'000'000'000;
    CHECK_FALSE(room.d.command(PIB_HCA_CMD_FREE_PD, 7).ok());
    CHECK(room.host.guest_errors - before == GuestErrors::kLinesPerSecond + 2);
    CHECK(room.host.last_guest_error.starts_with("pib-hca: FREE_PD id "));
}

TEST_CASE("the refusals outlive a reset of the device") {
    RefusalRoom room(refusal_config());
    CHECK_FALSE(room.d.command(PIB_HCA_CMD_FREE_PD, 1000).ok());
    room.device->reset(false);
    CHECK(room.device->objects().find("object 0x3e8 at byte 4 of the entry") != std::string::npos);
}

TEST_CASE("a work request that breaks a rule is printed") {
    RefusalRoom room(refusal_config());
    room.pass(room.rts_in());
    room.d.post_send(room.qp, {.opcode = 0xee});
    room.d.pump();
    CHECK(room.host.last_guest_error ==
          "pib-hca: send WQE 0 of QP 0x40 refused: opcode 0xee at byte 0 is not an operation "
          "(manual 12.4 rule 1)");
    pib_hca_refusal last{};
    REQUIRE(room.d.command_out(PIB_HCA_CMD_QUERY_REFUSAL, 0, last).ok());
    CHECK(last.kind == PIB_HCA_REFUSAL_SEND_WQE);
    CHECK(last.structure == PIB_HCA_REFUSAL_IN_WQE);
    CHECK(last.object == room.qp.qpn);
    CHECK(last.counter == 0);
    CHECK(last.status == PIB_HCA_WC_LOC_QP_OP_ERR);
    CHECK(last.offset == 0);
    CHECK(last.value == 0xee);
}
