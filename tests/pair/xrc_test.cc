// SPDX-License-Identifier: GPL-2.0-or-later
// XRC (annex A14): an initiator, a target, and the SRQs of the target's domain.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <utility>

#include "pair.h"

using namespace pib;
using namespace pib::hca;
using namespace pib::hca::test;

namespace {

constexpr uint32_t kDomain = 5;
constexpr uint32_t kFirstPd = 1;
constexpr uint32_t kSecondPd = 2;

// One connection from a to b, whose messages name one of two SRQs of different PDs.
struct Xrc {
    explicit Xrc(const RcAttributes& attr = {}) {
        initiator = pair.a.create({.type = PIB_HCA_QP_XRC_INI});
        target = pair.b.create({.type = PIB_HCA_QP_XRC_TGT, .xrcd = kDomain});
        pair.connect(initiator, target, attr);
        first = pair.b.make_srq(4, kFirstPd, kDomain);
        second = pair.b.make_srq(4, kSecondPd, kDomain);
        from = pair.a.make_buffer(65536);
        to = pair.b.make_buffer(65536, Hca::kAllAccess, kFirstPd);
        other = pair.b.make_buffer(65536, Hca::kAllAccess, kSecondPd);
        for (uint32_t i = 0; i < 65536; i += 4) {
            pair.a.host.poke<uint32_t>(from.addr + i, i * 2654435761u);
        }
    }

    SendWr wr(uint32_t srqn, uint32_t length, uint8_t opcode = PIB_HCA_WQE_SEND) const {
        SendWr wr{.opcode = opcode, .imm = 0x0a0b0c0d, .sges = {from.sge(0, length)}};
        wr.remote_addr = to.addr;
        wr.rkey = to.key;
        wr.srqn = srqn;
        return wr;
    }
    void post(const SendWr& wr) {
        pair.a.post(initiator, wr);
        pair.settle();
    }
    // Posts a request; only its first packet arrives until the test removes the filter.
    void post_first_packet(const SendWr& wr) {
        pair.filter = [passed = false](const ib::PacketView&) mutable {
            return !std::exchange(passed, true);
        };
        post(wr);
    }
    pib_hca_wc_status sent_status() {
        const auto cqe = pair.a.poll(initiator);
        REQUIRE(cqe);
        return static_cast<pib_hca_wc_status>(cqe->status);
    }
    bool arrived(const Buffer& buffer, uint32_t length) {
        std::vector<uint8_t> sent(length);
        std::vector<uint8_t> received(length);
        pair.a.host.peek_bytes(from.addr, sent);
        pair.b.host.peek_bytes(buffer.addr, received);
        return sent == received;
    }

    Pair pair;
    Qp initiator;
    Qp target;
    Srq first;
    Srq second;
    Buffer from;
    Buffer to;
    Buffer other;
};

// Input of CREATE_SRQ for an SRQ of the XRC domain whose ring is that of `srq`.
pib_hca_create_srq srq_like(const Srq& srq) {
    pib_hca_create_srq in{};
    in.pages = contiguous(srq.addr, 64 + (1ull << (srq.log_depth + srq.log_stride)));
    in.pd = kFirstPd;
    in.flags = PIB_HCA_SRQ_XRC;
    in.xrcd = kDomain;
    in.cq = srq.cqn;
    in.offset = 64;
    in.log_depth = srq.log_depth;
    in.log_stride = srq.log_stride;
    return in;
}

}  // namespace

TEST_CASE("each message names its SRQ and completes to that SRQ's CQ") {
    const uint32_t length = GENERATE(0u, 1u, 1024u, 5000u);
    Xrc t;
    t.pair.tap = [&](const ib::PacketView& packet) {
        CHECK(packet.opcode().service == ib::Service::kXrc);
    };
    t.pair.b.post_srq(t.first, 11, {t.to.all()});
    t.pair.b.post_srq(t.second, 22, {t.other.all()});
    t.post(t.wr(t.second.srqn, length, PIB_HCA_WQE_SEND_WITH_IMM));
    CHECK(t.sent_status() == PIB_HCA_WC_SUCCESS);
    CHECK_FALSE(t.pair.b.poll(t.first));
    const auto cqe = t.pair.b.poll(t.second);
    REQUIRE(cqe);
    CHECK(cqe->wqe_counter == 22);
    CHECK(cqe->srqn == t.second.srqn);
    CHECK(cqe->qpn == t.target.qpn);
    CHECK(cqe->byte_count == length);
    CHECK(cqe->imm_data == 0x0a0b0c0d);
    CHECK(t.arrived(t.other, length));
    t.post(t.wr(t.first.srqn, length));
    CHECK(t.pair.b.poll(t.first)->wqe_counter == 11);
}

TEST_CASE("WRITE, READ and atomics work in the PD of the SRQ that they name") {
    const bool right = GENERATE(true, false);
    Xrc t;
    const uint32_t srqn = right ? t.first.srqn : t.second.srqn;
    const pib_hca_wc_status expected = right ? PIB_HCA_WC_SUCCESS : PIB_HCA_WC_REM_ACCESS_ERR;
    SECTION("WRITE") {
        t.post(t.wr(srqn, 5000, PIB_HCA_WQE_RDMA_WRITE));
        CHECK(t.sent_status() == expected);
        CHECK(t.arrived(t.to, 5000) == right);
    }
    SECTION("READ") {
        t.pair.b.host.poke<uint32_t>(t.to.addr + 4096, 0x12345678);
        t.post(t.wr(srqn, 5000, PIB_HCA_WQE_RDMA_READ));
        CHECK(t.sent_status() == expected);
        CHECK((t.pair.a.host.peek<uint32_t>(t.from.addr + 4096) == 0x12345678) == right);
    }
    SECTION("FETCH_ADD") {
        SendWr wr = t.wr(srqn, 8, PIB_HCA_WQE_FETCH_ADD);
        wr.swap_or_add = 3;
        t.post(wr);
        CHECK(t.sent_status() == expected);
        CHECK(t.pair.b.host.peek<uint64_t>(t.to.addr) == (right ? 3 : 0));
    }
}

// Both requests arrive before the target has a turn to answer the READ.
TEST_CASE("a READ is answered in the PD of its SRQ although the next message names another one") {
    Xrc t;
    t.pair.b.host.poke<uint32_t>(t.to.addr + 2900, 0x12345678);
    t.pair.b.post_srq(t.second, 22, {t.other.all()});
    t.pair.a.write_send(t.initiator, t.wr(t.first.srqn, 3000, PIB_HCA_WQE_RDMA_READ));
    t.pair.a.write_send(t.initiator, t.wr(t.second.srqn, 8));
    t.pair.a.ring(t.initiator);
    for (const auto& packet : std::exchange(t.pair.a.port.sent, {})) {
        Pair::give(t.pair.b, ib::Burst(ib::PacketView::parse(packet, ib::Crcs::kElided).value()));
    }
    REQUIRE(t.pair.b.poll(t.second));
    t.pair.settle();
    CHECK(t.sent_status() == PIB_HCA_WC_SUCCESS);
    CHECK(t.sent_status() == PIB_HCA_WC_SUCCESS);
    CHECK(t.pair.a.host.peek<uint32_t>(t.from.addr + 2900) == 0x12345678);
}

TEST_CASE("WRITE with immediate takes a WQE of the SRQ it names") {
    Xrc t;
    t.pair.b.post_srq(t.first, 1, {});
    t.post(t.wr(t.first.srqn, 3000, PIB_HCA_WQE_RDMA_WRITE_WITH_IMM));
    CHECK(t.sent_status() == PIB_HCA_WC_SUCCESS);
    const auto cqe = t.pair.b.poll(t.first);
    REQUIRE(cqe);
    CHECK(cqe->opcode == PIB_HCA_CQE_RECV_RDMA_WITH_IMM);
    CHECK(cqe->byte_count == 3000);
}

TEST_CASE("an empty SRQ gives an RNR NAK") {
    Xrc t;
    t.post(t.wr(t.first.srqn, 10));
    CHECK(t.pair.b.counter(PIB_HCA_COUNTER_RNR_NAK_SENT) == 1);
    t.pair.b.post_srq(t.first, 1, {t.to.all()});
    REQUIRE(t.pair.run_until([&] { return t.pair.a.transport.next_deadline() == kNever; }));
    CHECK(t.sent_status() == PIB_HCA_WC_SUCCESS);
}

TEST_CASE("a message to an unknown SRQ, or to one of another domain, is an invalid request") {
    Xrc t;
    const Srq plain = t.pair.b.make_srq(4);
    const Srq foreign = t.pair.b.make_srq(4, kFirstPd, kDomain + 1);
    const uint32_t srqn = std::array{999u, 0u, plain.srqn, foreign.srqn}[GENERATE(0u, 1u, 2u, 3u)];
    const auto opcode = static_cast<uint8_t>(GENERATE(PIB_HCA_WQE_SEND, PIB_HCA_WQE_RDMA_WRITE));
    t.post(t.wr(srqn, 10, opcode));
    CHECK(t.sent_status() == PIB_HCA_WC_REM_INV_REQ_ERR);
    CHECK(t.pair.b.state(t.target) == PIB_HCA_QPS_ERR);
    const auto events = t.pair.b.events();
    const auto count = [&](pib_hca_event type) {
        return std::ranges::count_if(events, [&](const pib_hca_eqe& eqe) {
            return eqe.type == type && eqe.number == t.target.qpn;
        });
    };
    CHECK(count(PIB_HCA_EVENT_QP_REQUEST_ERROR) == 1);
    CHECK(count(PIB_HCA_EVENT_LAST_WQE_REACHED) == 1);
}

TEST_CASE("an error of a target completes its current WQE to the SRQ's CQ") {
    Xrc t;
    t.pair.b.post_srq(t.second, 7, {t.other.all()});
    t.post_first_packet(t.wr(t.second.srqn, 5000));
    to_state(t.pair.b, t.target, PIB_HCA_QPS_ERR);
    t.pair.settle();
    const auto cqe = t.pair.b.poll(t.second);
    REQUIRE(cqe);
    CHECK(cqe->status == PIB_HCA_WC_WR_FLUSH_ERR);
    CHECK(cqe->wqe_counter == 7);
    CHECK(t.pair.b.saw_event(PIB_HCA_EVENT_LAST_WQE_REACHED, t.target.qpn));
}

TEST_CASE("the destruction of an SRQ within a message ends the connection") {
    Xrc t;
    t.pair.b.post_srq(t.first, 7, {t.to.all()});
    t.post_first_packet(t.wr(t.first.srqn, 5000));
    REQUIRE(t.pair.b.srqs.destroy(t.first.srqn) == CmdStatus::kOk);
    t.pair.b.transport.verbs().srq_destroyed(t.first.srqn);
    t.pair.filter = nullptr;
    REQUIRE(t.pair.run_until([&] { return t.pair.a.state(t.initiator) == PIB_HCA_QPS_ERR; }));
    CHECK(t.sent_status() == PIB_HCA_WC_REM_INV_REQ_ERR);
    CHECK_FALSE(t.pair.b.poll(t.first));
}

TEST_CASE("a new SRQ with the number of the old one does not continue its message") {
    Xrc t;
    t.pair.b.post_srq(t.first, 7, {t.to.all()});
    t.post_first_packet(t.wr(t.first.srqn, 5000));
    const uint32_t number = t.first.srqn;
    REQUIRE(t.pair.b.srqs.destroy(number) == CmdStatus::kOk);
    t.pair.b.transport.verbs().srq_destroyed(number);
    Srq again = t.pair.b.make_srq(4, kFirstPd, kDomain);
    pib_hca_create_srq in = srq_like(again);
    while (again.srqn != number) {  // until the SRQ has the old number again
        REQUIRE(t.pair.b.srqs.destroy(again.srqn) == CmdStatus::kOk);
        again.srqn = t.pair.b.srqs.create(in).value();
    }
    t.pair.b.post_srq(again, 8, {t.other.all()});
    t.pair.filter = nullptr;
    REQUIRE(t.pair.run_until([&] { return t.pair.a.state(t.initiator) == PIB_HCA_QPS_ERR; }));
    CHECK(t.sent_status() == PIB_HCA_WC_REM_INV_REQ_ERR);
    CHECK_FALSE(t.pair.b.poll(t.first));
    CHECK_FALSE(t.pair.b.poll(again));
    CHECK(t.pair.b.host.peek<uint32_t>(t.to.addr + 1024) == 0);
}

TEST_CASE("XRC refuses masked atomics") {
    const auto opcode =
        static_cast<uint8_t>(GENERATE(PIB_HCA_WQE_MASKED_CMP_SWAP, PIB_HCA_WQE_MASKED_FETCH_ADD));
    Xrc t;
    t.post(t.wr(t.first.srqn, 8, opcode));
    const auto cqe = t.pair.a.poll(t.initiator);
    REQUIRE(cqe);
    CHECK(cqe->status == PIB_HCA_WC_LOC_QP_OP_ERR);
    CHECK(cqe->vendor_error == static_cast<uint8_t>(VendorError::kOpcode));
}

TEST_CASE("the CQ of an SRQ is BUSY, and its overrun ends the target that fills it") {
    Xrc t;
    CHECK(t.pair.b.cqs.destroy(t.first.cqn) == CmdStatus::kBusy);
    for (uint32_t i = 0; i <= 256; ++i) {
        t.pair.b.post_srq(t.first, i % 16, {});
        t.post(t.wr(t.first.srqn, 0));
    }
    CHECK(t.pair.b.saw_event(PIB_HCA_EVENT_CQ_ERROR, t.first.cqn));
    CHECK(t.pair.b.state(t.target) == PIB_HCA_QPS_ERR);
}

TEST_CASE("initiators send no responses, and targets send no requests") {
    Xrc t;
    t.pair.b.post_srq(t.first, 1, {t.to.all()});
    ib::PacketHeaders headers;
    headers.lrh.slid = ib::Lid(t.pair.b.port.lid());
    headers.lrh.dlid = ib::Lid(t.pair.a.port.lid());
    headers.bth.opcode = ib::opcode::kXrc | ib::opcode::kSendOnly;
    headers.bth.pkey = ib::kDefaultPKey;
    headers.bth.dest_qp = ib::Qpn(t.initiator.qpn);
    headers.xrceth.xrc_srq = t.first.srqn;
    const uint64_t before = t.pair.a.counter(PIB_HCA_COUNTER_RX_DROPPED);
    t.pair.inject(t.pair.a, headers);
    CHECK(t.pair.a.counter(PIB_HCA_COUNTER_RX_DROPPED) == before + 1);
    // An RC request does not reach an XRC target, whatever else fits.
    std::swap(headers.lrh.slid, headers.lrh.dlid);
    headers.bth.opcode = ib::opcode::kSendOnly;
    headers.bth.dest_qp = ib::Qpn(t.target.qpn);
    t.pair.inject(t.pair.b, headers);
    CHECK(t.pair.b.counter(PIB_HCA_COUNTER_RX_DROPPED) == 1);
    CHECK_FALSE(t.pair.b.poll(t.first));
}

TEST_CASE("the SRQ number of a WQE has 24 bits and is only for XRC") {
    Xrc t;
    t.post(t.wr(1u << 24, 0));
    CHECK(t.sent_status() == PIB_HCA_WC_LOC_QP_OP_ERR);
    auto [qa, qb] = t.pair.rc_pair();
    t.pair.a.post(qa, t.wr(1, 0));
    t.pair.settle();
    CHECK(t.pair.a.poll(qa)->status == PIB_HCA_WC_LOC_QP_OP_ERR);
}

TEST_CASE("CREATE_QP refuses attributes that an XRC target does not have") {
    Hca hca(1);
    pib_hca_create_qp in{};
    in.type = PIB_HCA_QP_XRC_TGT;
    in.flags = PIB_HCA_QP_NO_SQ | PIB_HCA_QP_NO_RQ;
    in.xrcd = kDomain;
    CHECK(create_qp(hca, in));
    const auto refused = [&](auto&& spoil) {
        pib_hca_create_qp bad = in;
        spoil(bad);
        const auto qpn = create_qp(hca, bad);
        return !qpn && qpn.error() == CmdStatus::kBadParam;
    };
    const uint32_t cqn = hca.make_cq(4).cqn;
    CHECK(refused([](auto& qp) { qp.flags = PIB_HCA_QP_NO_SQ; }));
    CHECK(refused([](auto& qp) { qp.pd = 1; }));
    CHECK(refused([&](auto& qp) { qp.recv_cq = cqn; }));
    CHECK(refused([](auto& qp) { qp.uar = Hca::kUar; }));
    CHECK(refused([](auto& qp) { qp.pages.page_count = 1; }));
    CHECK(refused([](auto& qp) { qp.type = PIB_HCA_QP_RC; }));
    CHECK(hca.transport.verbs().count_if([](const QueuePair& qp) { return qp.xrcd == kDomain; }) ==
          1);
    const Srq srq = hca.make_srq(4, 1, kDomain);
    const auto rc = hca.try_create({.srq = srq.srqn});
    CHECK((!rc && rc.error() == CmdStatus::kBadResource));
    CHECK(hca.srqs.srqs_of_xrcd(kDomain) == 1);
}
