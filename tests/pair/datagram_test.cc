// SPDX-License-Identifier: GPL-2.0-or-later
// UD, SMI and GSI: placement, completions, checks, dropped packets, SQE.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "pair.h"

using namespace pib;
using namespace pib::hca;
using namespace pib::hca::test;

namespace {

constexpr uint32_t kQkey = 0x11111111;
constexpr uint32_t kGsiQkey = 0x80010000;

struct Datagrams {
    explicit Datagrams(pib_hca_qp_type type = PIB_HCA_QP_UD, uint32_t qkey = kQkey,
                       uint16_t pkey_index = 0) {
        const uint8_t port = type == PIB_HCA_QP_UD ? 0 : 1;
        qa = pair.a.create({.type = type, .port = port});
        qb = pair.b.create({.type = type, .port = port});
        start_datagram(pair.a, qa, qkey, pkey_index);
        start_datagram(pair.b, qb, qkey, pkey_index);
        from = pair.a.make_buffer(8192);
        to = pair.b.make_buffer(8192);
        for (uint32_t i = 0; i < 4096; ++i) {
            pair.a.host.poke<uint8_t>(from.addr + i, static_cast<uint8_t>(i * 5 + 1));
        }
    }

    SendWr wr(uint32_t length) {
        SendWr wr{.sges = {from.sge(0, length)}, .av = pair.a.av_to(pair.b), .qkey = kQkey};
        wr.av.port = 1;
        wr.dest_qpn = qb.config.port != 0 ? uint32_t{qb.config.type} : qb.qpn;
        return wr;
    }
    void send(const SendWr& wr) {
        pair.a.post(qa, wr);
        pair.settle();
    }
    std::vector<uint8_t> received(uint32_t length) {
        std::vector<uint8_t> bytes(length);
        pair.b.host.peek_bytes(to.addr + 40, bytes);
        return bytes;
    }
    std::vector<uint8_t> sent(uint32_t length) {
        std::vector<uint8_t> bytes(length);
        pair.a.host.peek_bytes(from.addr, bytes);
        return bytes;
    }

    Pair pair;
    Qp qa;
    Qp qb;
    Buffer from;
    Buffer to;
};

}  // namespace

TEST_CASE("a datagram is written after 40 bytes of GRH space") {
    const uint32_t length = GENERATE(0u, 1u, 300u, 4096u);
    const bool global = GENERATE(false, true);
    Datagrams t;
    t.pair.b.post_recv(t.qb, {t.to.sge(0, 25), t.to.sge(25, 5000)});
    SendWr wr = t.wr(length);
    wr.opcode = PIB_HCA_WQE_SEND_WITH_IMM;
    wr.imm = 0x01020304;
    wr.av.sl = 3;
    if (global) {
        wr.av.flags = PIB_HCA_AV_GRH;
        wr.av.hop_limit = 9;
        wr.av.traffic_class = 0x42;
        wr.av.flow_label = 0x12345;
        std::memcpy(wr.av.dgid, t.pair.b.port.gid(0), 16);
    }
    t.send(wr);
    CHECK(t.pair.a.poll(t.qa)->status == PIB_HCA_WC_SUCCESS);
    const auto cqe = t.pair.b.poll(t.qb);
    REQUIRE(cqe);
    CHECK(cqe->status == PIB_HCA_WC_SUCCESS);
    CHECK(cqe->opcode == PIB_HCA_CQE_RECV);
    CHECK(cqe->byte_count == 40 + length);
    CHECK(cqe->src_qp == t.qa.qpn);
    CHECK(cqe->slid == 1);
    CHECK(cqe->sl == 3);
    CHECK(cqe->port == 1);
    CHECK(cqe->imm_data == 0x01020304);
    CHECK(cqe->flags == (PIB_HCA_CQE_FLAG_IMM | (global ? PIB_HCA_CQE_FLAG_GRH : 0)));
    CHECK(t.received(length) == t.sent(length));
    if (global) {
        std::array<uint8_t, 40> bytes;
        t.pair.b.host.peek_bytes(t.to.addr, bytes);
        const auto grh = ib::Grh::parse(bytes);
        CHECK(grh.hop_lmt == 9);
        CHECK(grh.tclass == 0x42);
        CHECK(grh.flow_label == 0x12345);
        CHECK(std::memcmp(grh.sgid.bytes.data(), t.pair.a.port.gid(0), 16) == 0);
        CHECK(std::memcmp(grh.dgid.bytes.data(), t.pair.b.port.gid(0), 16) == 0);
    }
}

TEST_CASE("a Q_Key must match, and bit 31 of a WQE's Q_Key selects the QP's own") {
    Datagrams t;
    t.pair.b.post_recv(t.qb, {t.to.all()});
    SendWr wr = t.wr(8);
    wr.qkey = kQkey + 1;
    t.send(wr);
    CHECK_FALSE(t.pair.b.poll(t.qb));
    CHECK(t.pair.b.port.qkey_violations == 1);
    wr.qkey = 0x80000000;
    t.send(wr);
    CHECK(t.pair.b.poll(t.qb));
    t.pair.b.post_recv(t.qb, {t.to.all()});
    wr.qkey = 0x80000000 | (kQkey + 1);
    t.send(wr);
    CHECK(t.pair.b.poll(t.qb));
    CHECK(t.pair.a.poll_all(t.qa).size() == 3);
}

TEST_CASE("limited members reject each other's P_Key, and violations are reported") {
    // Each P_Key table holds 0xffff and 0x8001 (full members), 0x0002 (limited), an empty entry.
    struct Case {
        uint16_t sender;
        uint16_t receiver;
        bool delivered;
    };
    const Case c = GENERATE(Case{0, 0, true}, Case{1, 1, true}, Case{0, 1, false},
                            Case{2, 2, false}, Case{3, 0, false});
    Datagrams t;
    start_datagram(t.pair.a, t.qa = t.pair.a.create({.type = PIB_HCA_QP_UD}), kQkey, c.sender);
    start_datagram(t.pair.b, t.qb = t.pair.b.create({.type = PIB_HCA_QP_UD}), kQkey, c.receiver);
    t.pair.b.post_recv(t.qb, {t.to.all()});
    t.send(t.wr(8));
    CHECK(t.pair.b.poll(t.qb).has_value() == c.delivered);
    CHECK(t.pair.b.port.pkey_violations == (c.delivered ? 0 : 1));
    CHECK(t.pair.b.port.qkey_violations == 0);
}

TEST_CASE("a GSI WQE names its P_Key, and a GSI QP accepts each P_Key of the table") {
    Datagrams t(PIB_HCA_QP_GSI, kGsiQkey);
    CHECK(t.qa.qpn == 1);
    t.pair.b.post_recv(t.qb, {t.to.all()});
    SendWr wr = t.wr(256);
    wr.qkey = kGsiQkey;
    wr.pkey_index = 1;
    t.send(wr);
    const auto cqe = t.pair.b.poll(t.qb);
    REQUIRE(cqe);
    CHECK(cqe->pkey_index == 1);
    CHECK(cqe->src_qp == 1);
    CHECK(cqe->qpn == 1);

    wr.pkey_index = 3;  // an empty entry: no port accepts the packet
    t.send(wr);
    CHECK_FALSE(t.pair.b.poll(t.qb));
    CHECK(t.pair.b.port.pkey_violations == 1);
    wr.pkey_index = 0;
    t.send(wr);
    CHECK(t.pair.b.port.qp1_dropped == 1);  // no receive was posted
    wr.pkey_index = 4;
    t.send(wr);
    const auto sent = t.pair.a.poll_all(t.qa);
    CHECK(sent.back().status == PIB_HCA_WC_LOC_QP_OP_ERR);
    CHECK(t.pair.a.state(t.qa) == PIB_HCA_QPS_SQE);
}

TEST_CASE("a GSI QP accepts the last P_Key of the table") {
    Datagrams t(PIB_HCA_QP_GSI, kGsiQkey);
    t.pair.b.post_recv(t.qb, {t.to.all()});
    t.pair.a.port.pkeys.back() = t.pair.b.port.pkeys.back() = 0x8123;
    SendWr wr = t.wr(256);
    wr.qkey = kGsiQkey;
    wr.pkey_index = static_cast<uint16_t>(t.pair.a.port.pkeys.size() - 1);
    t.send(wr);
    const auto cqe = t.pair.b.poll(t.qb);
    REQUIRE(cqe);
    CHECK(cqe->pkey_index == wr.pkey_index);
}

TEST_CASE("the SMI uses VL15 and permissive LIDs and checks neither P_Key nor Q_Key") {
    Datagrams t(PIB_HCA_QP_SMI, 0);
    CHECK(t.qa.qpn == 0);
    t.pair.b.post_recv(t.qb, {t.to.all()});
    t.pair.b.port.pkeys = {0x8123};
    SendWr wr = t.wr(256);
    wr.av.dlid = 0xffff;
    wr.qkey = 77;
    t.pair.tap = [&](const ib::PacketView& packet) {
        CHECK(packet.lrh().slid.is_permissive());
        CHECK(packet.bth().pkey == ib::kDefaultPKey);
        CHECK(packet.bth().dest_qp == ib::kQp0);
        CHECK(packet.deth()->src_qp == ib::kQp0);
    };
    t.send(wr);
    CHECK(t.pair.a.port.last_request.vl15);
    const auto cqe = t.pair.b.poll(t.qb);
    REQUIRE(cqe);
    CHECK(cqe->slid == 0xffff);
    t.send(wr);
    CHECK(t.pair.b.port.vl15_dropped == 1);
}

TEST_CASE("each port has one SMI and one GSI") {
    Hca hca(1);
    const Qp smi = hca.create({.type = PIB_HCA_QP_SMI, .port = 1});
    const auto second = hca.try_create({.type = PIB_HCA_QP_SMI, .port = 1});
    REQUIRE_FALSE(second);
    CHECK(second.error() == CmdStatus::kBusy);
    CHECK(hca.transport.verbs().destroy(smi.qpn) == CmdStatus::kOk);
    CHECK(hca.try_create({.type = PIB_HCA_QP_SMI, .port = 1}));
}

TEST_CASE("a datagram that cannot be sent moves the QP to SQE, and MODIFY_QP to RTS recovers it") {
    struct Case {
        const char* what;
        void (*spoil)(SendWr&);
        uint8_t status;
    };
    const Case c = GENERATE(
        Case{"another port", [](SendWr& wr) { wr.av.port = 2; }, PIB_HCA_WC_LOC_QP_OP_ERR},
        Case{"no LID", [](SendWr& wr) { wr.av.dlid = 0; }, PIB_HCA_WC_LOC_QP_OP_ERR},
        Case{"permissive LID", [](SendWr& wr) { wr.av.dlid = 0xffff; }, PIB_HCA_WC_LOC_QP_OP_ERR},
        Case{"multicast LID, one QP", [](SendWr& wr) { wr.av.dlid = 0xc001; },
             PIB_HCA_WC_LOC_QP_OP_ERR},
        Case{"multicast QP, unicast LID", [](SendWr& wr) { wr.dest_qpn = 0xffffff; },
             PIB_HCA_WC_LOC_QP_OP_ERR},
        Case{"QP number", [](SendWr& wr) { wr.dest_qpn = 1u << 24; }, PIB_HCA_WC_LOC_QP_OP_ERR},
        Case{"GID index", [](SendWr& wr) { wr.av.flags = PIB_HCA_AV_GRH, wr.av.sgid_index = 1; },
             PIB_HCA_WC_LOC_QP_OP_ERR},
        Case{"P_Key index", [](SendWr& wr) { wr.pkey_index = 1; }, PIB_HCA_WC_LOC_QP_OP_ERR},
        Case{"WRITE", [](SendWr& wr) { wr.opcode = PIB_HCA_WQE_RDMA_WRITE; },
             PIB_HCA_WC_LOC_QP_OP_ERR},
        Case{"READ", [](SendWr& wr) { wr.opcode = PIB_HCA_WQE_RDMA_READ; },
             PIB_HCA_WC_LOC_QP_OP_ERR},
        Case{"atomic", [](SendWr& wr) { wr.opcode = PIB_HCA_WQE_FETCH_ADD; },
             PIB_HCA_WC_LOC_QP_OP_ERR},
        Case{"longer than the MTU", [](SendWr& wr) { wr.sges[0].length = 4097; },
             PIB_HCA_WC_LOC_LEN_ERR},
        Case{"L_Key", [](SendWr& wr) { wr.sges[0].lkey ^= 0x100; }, PIB_HCA_WC_LOC_PROT_ERR});
    INFO(c.what);
    Datagrams t;
    t.pair.b.post_recv(t.qb, {t.to.all()});
    t.pair.a.post_recv(t.qa, {t.from.all()});
    SendWr bad = t.wr(8);
    c.spoil(bad);
    t.pair.a.write_send(t.qa, bad);
    t.pair.a.write_send(t.qa, t.wr(8));
    t.pair.a.ring(t.qa);
    t.pair.settle();
    t.pair.a.post(t.qa, t.wr(8));
    t.pair.settle();
    const auto sent = t.pair.a.poll_all(t.qa);
    REQUIRE(sent.size() == 3);
    CHECK(sent[0].status == c.status);
    CHECK(sent[1].status == PIB_HCA_WC_WR_FLUSH_ERR);
    CHECK(sent[2].status == PIB_HCA_WC_WR_FLUSH_ERR);
    CHECK(t.pair.a.state(t.qa) == PIB_HCA_QPS_SQE);
    CHECK_FALSE(t.pair.b.poll(t.qb));

    // The receive queue works in SQE, and the send queue works again after the move to RTS.
    SendWr back = t.wr(8);
    back.av = t.pair.b.av_to(t.pair.a);
    back.av.port = 1;
    back.dest_qpn = t.qa.qpn;
    back.sges = {t.to.sge(0, 8)};
    t.pair.b.post(t.qb, back);
    t.pair.settle();
    CHECK(t.pair.a.poll(t.qa)->status == PIB_HCA_WC_SUCCESS);
    t.pair.b.poll_all(t.qb);
    to_state(t.pair.a, t.qa, PIB_HCA_QPS_RTS);
    t.send(t.wr(8));
    CHECK(t.pair.a.poll(t.qa)->status == PIB_HCA_WC_SUCCESS);
    CHECK(t.pair.b.poll(t.qb)->byte_count == 48);
}

TEST_CASE("a datagram posted in SQE is flushed although its doorbell comes after the move to RTS") {
    Datagrams t;
    SendWr bad = t.wr(8);
    bad.dest_qpn = 1u << 24;
    t.send(bad);
    REQUIRE(t.pair.a.state(t.qa) == PIB_HCA_QPS_SQE);
    t.pair.a.poll_all(t.qa);
    t.pair.a.write_send(t.qa, t.wr(8));
    to_state(t.pair.a, t.qa, PIB_HCA_QPS_RTS);
    t.pair.a.ring(t.qa);
    t.pair.settle();
    const auto sent = t.pair.a.poll_all(t.qa);
    REQUIRE(sent.size() == 1);
    CHECK(sent[0].status == PIB_HCA_WC_WR_FLUSH_ERR);
}

TEST_CASE("the move from SQD to RTS starts a datagram whose doorbell has not come") {
    Datagrams t;
    to_state(t.pair.a, t.qa, PIB_HCA_QPS_SQD);
    t.pair.a.write_send(t.qa, t.wr(8));
    to_state(t.pair.a, t.qa, PIB_HCA_QPS_RTS);
    t.pair.settle();
    const auto cqe = t.pair.a.poll(t.qa);
    REQUIRE(cqe);
    CHECK(cqe->status == PIB_HCA_WC_SUCCESS);
}

TEST_CASE("the PSNs of datagrams continue after SQE") {
    Datagrams t;
    std::vector<uint32_t> psns;
    t.pair.tap = [&](const ib::PacketView& packet) { psns.push_back(packet.bth().psn.value()); };
    t.send(t.wr(8));
    t.send(t.wr(8));
    SendWr bad = t.wr(8);
    bad.dest_qpn = 1u << 24;
    t.send(bad);
    REQUIRE(t.pair.a.state(t.qa) == PIB_HCA_QPS_SQE);
    to_state(t.pair.a, t.qa, PIB_HCA_QPS_RTS);
    t.send(t.wr(8));
    CHECK(psns == std::vector<uint32_t>{0, 1, 2});
}

TEST_CASE("a receive buffer too small for a datagram stays posted") {
    Datagrams t;
    t.pair.b.post_recv(t.qb, {t.to.sge(0, 47)});
    t.send(t.wr(8));
    CHECK_FALSE(t.pair.b.poll(t.qb));
    CHECK(t.pair.b.state(t.qb) == PIB_HCA_QPS_RTS);
    CHECK(t.pair.b.counter(PIB_HCA_COUNTER_RX_DROPPED) == 1);
    t.send(t.wr(7));
    const auto cqe = t.pair.b.poll(t.qb);
    REQUIRE(cqe);
    CHECK(cqe->wqe_counter == 0);
    CHECK(cqe->byte_count == 47);
}

TEST_CASE("a receive buffer with a wrong L_Key puts the QP in Error") {
    Datagrams t;
    auto sge = t.to.all();
    sge.lkey ^= 0x100;
    t.pair.b.post_recv(t.qb, {sge});
    t.pair.b.post_recv(t.qb, {t.to.all()});
    t.send(t.wr(8));
    const auto cqes = t.pair.b.poll_all(t.qb);
    REQUIRE(cqes.size() == 2);
    CHECK(cqes[0].status == PIB_HCA_WC_LOC_PROT_ERR);
    CHECK(cqes[1].status == PIB_HCA_WC_WR_FLUSH_ERR);
    CHECK(t.pair.b.state(t.qb) == PIB_HCA_QPS_ERR);
    CHECK(t.pair.a.poll(t.qa)->status == PIB_HCA_WC_SUCCESS);
}

TEST_CASE("datagrams to an unknown QP are dropped") {
    Datagrams t;
    t.pair.b.post_recv(t.qb, {t.to.all()});
    const uint32_t dest = GENERATE(0u, 1u, 2u, 5u, 0x3fu, 0x1000u, 0xfffffeu);
    SendWr wr = t.wr(8);
    wr.dest_qpn = dest;
    t.send(wr);
    CHECK(t.pair.b.counter(PIB_HCA_COUNTER_RX_DROPPED) == 1);
    CHECK_FALSE(t.pair.b.poll(t.qb));
}

TEST_CASE("datagrams complete and are dropped while the port is down") {
    Datagrams t;
    t.pair.b.post_recv(t.qb, {t.to.all()});
    t.pair.a.port.active = false;
    t.send(t.wr(8));
    CHECK(t.pair.a.poll(t.qa)->status == PIB_HCA_WC_SUCCESS);
    CHECK_FALSE(t.pair.b.poll(t.qb));
}

TEST_CASE("a packet has the path bits and the GID of its address vector") {
    Datagrams t;
    t.pair.a.port.set_lids(8, 2);
    t.pair.b.port.set_lids(16, 3);
    t.pair.a.port.gids.push_back(t.pair.a.port.gids[0]);
    t.pair.a.port.gids[1][15] ^= 0x55;
    ib::Grh grh;
    ib::Lrh lrh;
    t.pair.tap = [&](const ib::PacketView& packet) {
        grh = packet.grh().value_or(ib::Grh{});
        lrh = packet.lrh();
    };
    t.pair.b.post_recv(t.qb, {t.to.sge(0, 5000)});
    SendWr wr = t.wr(100);
    wr.av.dlid = 16 + 5;
    wr.av.src_path_bits = 3;
    wr.av.flags = PIB_HCA_AV_GRH;
    wr.av.sgid_index = 1;
    std::memcpy(wr.av.dgid, t.pair.b.port.gid(0), 16);
    t.send(wr);
    CHECK(lrh.slid.value() == 8 + 3);
    CHECK(lrh.dlid.value() == 16 + 5);
    CHECK(std::ranges::equal(grh.sgid.bytes, t.pair.a.port.gids[1]));
    const auto cqe = t.pair.b.poll(t.qb);
    REQUIRE(cqe);
    CHECK(cqe->slid == 8 + 3);
    CHECK(cqe->dlid_path_bits == 5);
}

TEST_CASE("path bits beyond the port's LMC are ignored") {
    Datagrams t;
    t.pair.a.port.set_lids(8, 1);
    ib::Lrh lrh;
    t.pair.tap = [&](const ib::PacketView& packet) { lrh = packet.lrh(); };
    SendWr wr = t.wr(100);
    wr.av.src_path_bits = 7;
    t.send(wr);
    CHECK(lrh.slid.value() == 8 + 1);
}
