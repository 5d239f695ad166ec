// SPDX-License-Identifier: GPL-2.0-or-later
// CQEs that the driver of a strict device may leave. strict_rules_test.cc has those that it may
// not.
#include "mmio/cqe_watch.h"

#include <catch2/catch_test_macros.hpp>

#include "strict_room.h"

using namespace pib::hca;
using namespace pib::hca::test;

TEST_CASE("a driver may leave CQEs in a CQ that is armed, or that it polls and never arms") {
    LegalRoom room;
    room.working_qp();
    room.to_state(PIB_HCA_QPS_ERR);
    for (int i = 0; i < 2; ++i) {
        room.d.post_send(room.qp, {.opcode = PIB_HCA_WQE_SEND});
    }
    SECTION("armed for later completions") {
        room.d.pump();
        room.cq.consumer = 2;
        room.d.arm(room.cq);
    }
    SECTION("neither armed nor polled, of sends only") {
        room.d.pump();
    }
    SECTION("polled") {
        (void)room.d.wait(room.cq);
    }
    SECTION("polled after an event") {
        room.d.arm(room.cq);
        (void)room.d.wait(room.cq);
    }
    room.take_events();
    let_steps_pass(room, 2 * Strict::kSteps);
}

TEST_CASE("a driver that polls a CQ may leave CQEs in it after a resize") {
    LegalRoom room;
    room.working_qp();
    room.d.post_recv(room.qp, {});
    room.to_state(PIB_HCA_QPS_ERR);
    for (int i = 0; i < 2; ++i) {
        room.d.post_send(room.qp, {.opcode = PIB_HCA_WQE_SEND});
    }
    (void)room.d.wait(room.cq);
    const GuestMemory larger(room.host, 64 + (sizeof(pib_hca_cqe) << 8));
    pib_hca_resize_cq in{};
    in.pages = larger.list();
    in.log_depth = 8;
    room.object = room.cq.cqn;
    room.pass(in);
    room.take_events();
    let_steps_pass(room, 2 * Strict::kSteps);
}

TEST_CASE("a driver may take a CQE up to a minute late, and a process may leave it") {
    LegalRoom room;
    room.pass(room.rts_in());
    room.to_state(PIB_HCA_QPS_ERR);
    for (int i = 0; i < 3; ++i) {
        room.d.post_send(room.qp, {.opcode = PIB_HCA_WQE_SEND});
        room.d.pump();
        room.take_events();
        let_steps_pass(room, Strict::kSteps);
        (void)room.d.wait(room.cq);
        room.d.arm(room.cq);
    }
    const uint32_t uar = room.d.alloc_uar();
    MiniCq cq = room.d.create_cq(room.eq.eqn, 6, uar);
    QpShape shape = room.shape(PIB_HCA_QP_UD);
    shape.uar = uar;
    shape.send_cq = shape.recv_cq = cq.cqn;
    MiniQp qp = room.d.create_qp(shape);
    room.d.connect_ud(qp, 1, 0);
    SendWr datagram;
    datagram.av.dlid = 2;
    datagram.av.port = 1;
    datagram.dest_qpn = qp.qpn;
    room.d.post_send(qp, datagram);
    room.take_events();
    let_steps_pass(room, 2 * Strict::kSteps);
    CHECK(room.d.poll(cq).has_value());
}

TEST_CASE(
    "a driver may arm a CQ a thousand times with a CQE, and without one as often as it likes") {
    LegalRoom room;
    room.working_qp();
    room.to_state(PIB_HCA_QPS_ERR);
    const auto arm_often = [&](uint32_t times) {
        for (uint32_t i = 0; i < times; ++i) {
            room.d.arm(room.cq);
        }
    };
    for (int round = 0; round < 2; ++round) {
        room.d.post_send(room.qp, {.opcode = PIB_HCA_WQE_SEND});
        room.d.pump();
        arm_often(Strict::kMostArmings);
        (void)room.d.wait(room.cq);
        arm_often(3 * Strict::kMostArmings);
    }
}
