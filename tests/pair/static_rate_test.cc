// SPDX-License-Identifier: GPL-2.0-or-later
// Every packet asks the port for room with the static rate of its address vector (IBA 9.11): the
// port, which knows the link's rate, does the rest (unit/core/port/port_share_test.cc).
#include <catch2/catch_test_macros.hpp>

#include "pair.h"

using namespace pib;
using namespace pib::hca;
using namespace pib::hca::test;

namespace {

constexpr uint8_t kRate5 = 5;
constexpr uint8_t kRate20 = 6;

void connect(Pair& pair, Qp& qa, Qp& qb) {
    pib_hca_av to_b = pair.a.av_to(pair.b);
    pib_hca_av to_a = pair.b.av_to(pair.a);
    to_b.static_rate = kRate5;
    to_a.static_rate = kRate20;
    pair.connect(qa, qb, to_b, to_a);
}

}  // namespace

TEST_CASE("static rates: each side sends at the rate of its own address vector") {
    Pair pair;
    Qp qa = pair.a.create();
    Qp qb = pair.b.create();
    connect(pair, qa, qb);
    const Buffer from = pair.a.make_buffer(8192);
    const Buffer to = pair.b.make_buffer(8192);
    for (const uint8_t opcode : {PIB_HCA_WQE_RDMA_WRITE, PIB_HCA_WQE_RDMA_READ}) {
        pair.a.port.last_request = pair.b.port.last_request = {};
        pair.a.post(
            qa, {.opcode = opcode, .sges = {from.all()}, .remote_addr = to.addr, .rkey = to.key});
        CHECK(pair.a.port.last_request.static_rate == kRate5);
        pair.settle();
        CHECK(pair.b.port.last_request.static_rate == kRate20);
        CHECK(pair.a.poll(qa)->status == PIB_HCA_WC_SUCCESS);
    }
}

TEST_CASE("static rates: a datagram has the rate of its address vector; reserved rates fail") {
    Pair pair;
    Qp qp = pair.a.create({.type = PIB_HCA_QP_UD});
    start_datagram(pair.a, qp, 5);
    const Buffer from = pair.a.make_buffer(64);
    pib_hca_av av = pair.a.av_to(pair.b);
    av.port = 1;
    for (const uint8_t rate : {uint8_t{0}, kRate5, uint8_t{22}}) {
        av.static_rate = rate;
        pair.a.post(qp, {.sges = {from.all()}, .av = av, .dest_qpn = 99, .qkey = 5});
        CHECK(pair.a.port.last_request.static_rate == rate);
        CHECK(pair.a.poll(qp)->status == PIB_HCA_WC_SUCCESS);
    }
    av.static_rate = 23;
    pair.a.post(qp, {.sges = {from.all()}, .av = av, .dest_qpn = 99, .qkey = 5});
    CHECK(pair.a.poll(qp)->status == PIB_HCA_WC_LOC_QP_OP_ERR);
}
