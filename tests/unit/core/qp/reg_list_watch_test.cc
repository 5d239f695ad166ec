// SPDX-License-Identifier: GPL-2.0-or-later
// Page lists that software may change. strict_rules_test.cc has those that it may not.
#include "qp/reg_list_watch.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "strict_room.h"

using namespace pib::hca;
using namespace pib::hca::test;

TEST_CASE("a driver may change the page list of a REG_MR that the device has read, if it knows") {
    const bool flushed = GENERATE(false, true);
    LegalRoom room;
    SECTION("from the completion") {
        const auto posted = post_registration(room, std::nullopt);
        CHECK(room.d.wait(room.cq).status == PIB_HCA_WC_SUCCESS);
        room.host.poke(posted.table, uint64_t{0});
    }
    SECTION("from a message of the peer") {
        const auto posted = post_registration(room, PIB_HCA_WQE_SEND);
        room.d.post_recv(room.qp, {});
        arrive(room, room.qp, pib::ib::opcode::kSendOnly, 0);
        CHECK(room.d.wait(room.cq).status == PIB_HCA_WC_SUCCESS);
        room.host.poke(posted.table, uint64_t{0});
    }
    SECTION("because it has destroyed the region") {
        const auto posted = post_registration(room, PIB_HCA_WQE_SEND);
        room.d.destroy(PIB_HCA_CMD_DESTROY_MR, posted.key);
        room.host.poke(posted.table, uint64_t{0});
    }
    SECTION("and entries that the list does not use") {
        const auto posted = post_registration(room, PIB_HCA_WQE_SEND);
        room.host.poke(posted.table + 2 * sizeof(uint64_t), uint64_t{1});
    }
    if (flushed) {
        room.to_state(PIB_HCA_QPS_ERR);
    }
    room.d.destroy(PIB_HCA_CMD_DESTROY_QP, room.qp.qpn);
}

TEST_CASE("a page list that makes its REG_MR fail is named before the failure") {
    RefusalRoom room(strict_config());
    const auto posted = post_registration(room, PIB_HCA_WQE_RDMA_READ);
    room.host.poke(posted.table, uint64_t{1});
    arrive(room, room.qp, pib::ib::opcode::kRdmaReadResponseOnly, 0);
    room.d.pump();
    REQUIRE(room.host.warnings.size() == 2);
    CHECK(room.host.warnings[0].ends_with("(manual 8.3 rule 12)"));
    CHECK(last_rule(*room.device).starts_with("12.4.34 "));
}

TEST_CASE("a page list may change when its queue pair is reset, and its counters used again") {
    LegalRoom room;
    const auto posted = post_registration(room, PIB_HCA_WQE_RDMA_READ);
    room.to_state(PIB_HCA_QPS_RESET);
    room.host.poke(posted.table, uint64_t{0});
    room.d.destroy(PIB_HCA_CMD_DESTROY_QP, room.qp.qpn);
}
