// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/qp_table.h"

#include <catch2/catch_test_macros.hpp>

using namespace pib;
using namespace pib::hca;

namespace {

QueuePair special(QpType type, uint8_t port) {
    QueuePair qp;
    qp.type = type;
    qp.special_port = port;
    return qp;
}

}  // namespace

TEST_CASE("QP table: SMI and GSI QPs have fixed numbers and receive packets to QP0 and QP1") {
    QpTable qps;
    QueuePair& gsi = qps.insert(special(QpType::kGsi, 2));
    CHECK(gsi.qpn == 3);
    CHECK(qps.find(3) == &gsi);
    CHECK(qps.find_wire(2, ib::kQp1) == &gsi);
    CHECK(qps.find_wire(1, ib::kQp1) == nullptr);
    CHECK(qps.find_wire(2, ib::kQp0) == nullptr);
    CHECK(qps.find_wire(2, ib::Qpn(3)) == nullptr);
}

TEST_CASE("QP table: a port has one QP of each special type") {
    QpTable qps;
    CHECK(qps.check_room(1, QpType::kSmi) == CmdStatus::kOk);
    const uint32_t smi = qps.insert(special(QpType::kSmi, 1)).qpn;
    CHECK(qps.check_room(1, QpType::kSmi) == CmdStatus::kBusy);
    CHECK(qps.check_room(1, QpType::kGsi) == CmdStatus::kOk);
    CHECK(qps.check_room(2, QpType::kSmi) == CmdStatus::kOk);
    qps.erase(smi);
    CHECK(qps.check_room(1, QpType::kSmi) == CmdStatus::kOk);
}

TEST_CASE("QP table: other QPs get numbers in order and keep their address") {
    QpTable qps;
    QueuePair& first = qps.insert({});
    CHECK(first.qpn == kFirstQpn);
    for (unsigned i = 1; i < 100; ++i) {
        qps.insert({});
    }
    CHECK(qps.find(kFirstQpn) == &first);
    CHECK(qps.find_wire(1, ib::Qpn(kFirstQpn)) == &first);
    CHECK(qps.find(kFirstQpn + 100) == nullptr);
    qps.erase(kFirstQpn);
    CHECK(qps.find(kFirstQpn) == nullptr);
}

TEST_CASE("QP table: QPs are counted by the CQs, SRQ and PD that they use") {
    QpTable qps;
    qps.insert(special(QpType::kSmi, 1)).pd = 7;
    qps.insert({}).pd = 7;
    qps.insert({}).pd = 8;
    const auto of_pd = [&](uint32_t pd) {
        return qps.count_if([&](const QueuePair& qp) { return qp.pd == pd; });
    };
    CHECK(of_pd(7) == 2);
    CHECK(of_pd(8) == 1);
    qps.clear();
    CHECK(of_pd(7) == 0);
    CHECK(qps.check_room(1, QpType::kSmi) == CmdStatus::kOk);
}
