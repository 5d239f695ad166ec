// SPDX-License-Identifier: GPL-2.0-or-later
// Send WQEs that may wait for their doorbell. strict_rules_test.cc has those that may not.
#include "mmio/doorbell_watch.h"

#include <catch2/catch_test_macros.hpp>
#include <cstddef>

#include "strict_room.h"

using namespace pib::hca;
using namespace pib::hca::test;

TEST_CASE("a driver may ring a send doorbell up to a minute late, again and again") {
    LegalRoom room;
    room.take_events();
    room.qp = room.d.create_qp(room.shape(PIB_HCA_QP_UD));
    room.d.connect_ud(room.qp, 1, 0);
    for (int i = 0; i < 3; ++i) {
        SendWr datagram;
        datagram.av.dlid = 2;
        datagram.av.port = 1;
        datagram.dest_qpn = room.qp.qpn;
        room.d.post_send(room.qp, datagram, true);
        let_steps_pass(room, Strict::kSteps);
        room.d.ring_send(room.qp);
        CHECK(room.d.wait(room.cq).status == PIB_HCA_WC_SUCCESS);
    }
}

TEST_CASE("send WQEs need no doorbell in SQD, because the device finds them in RTS") {
    LegalRoom room;
    room.take_events();
    MiniQp& qp = room.working_qp();
    room.to_state(PIB_HCA_QPS_SQD);
    room.d.post_send(qp, {.opcode = PIB_HCA_WQE_SEND}, true);
    let_steps_pass(room, 2 * Strict::kSteps);
    room.to_state(PIB_HCA_QPS_RTS);
    let_steps_pass(room, 2 * Strict::kSteps);
}

TEST_CASE("a producer that cannot be right is not taken for WQEs without a doorbell") {
    RefusalRoom room(strict_config());
    room.pass(room.rts_in());
    room.qp.memory.poke(offsetof(pib_hca_qp_header, sq_producer), 0xdeadbeefu);
    while (room.d.poll(room.async_eq)) {
    }
    let_steps_pass(room, 2 * Strict::kSteps);
    CHECK(last_rule(*room.device).empty());
}

TEST_CASE("a process may stop before it rings a doorbell") {
    LegalRoom room;
    room.take_events();
    QpShape shape = room.shape(PIB_HCA_QP_UD);
    shape.uar = room.d.alloc_uar();
    MiniQp qp = room.d.create_qp(shape);
    room.d.connect_ud(qp, 1, 0);
    room.d.post_send(qp, {.opcode = PIB_HCA_WQE_SEND}, true);
    let_steps_pass(room, 2 * Strict::kSteps);
}
