// SPDX-License-Identifier: GPL-2.0-or-later
// Packets that a correct peer does not send: spoofed, out of sequence, of wrong length, ghosts.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "pair.h"

using namespace pib;
using namespace pib::hca;
using namespace pib::hca::test;
namespace op = pib::ib::opcode;

namespace {

// A's QP is driven by hand: packets to B are injected.
struct Forged {
    Forged() {
        auto connection = pair.rc_pair();
        qa = connection.a;
        qb = connection.b;
        remote = pair.b.make_buffer(65536);
        pair.b.post_recv(qb, {remote.sge(0, 8192)});
    }
    ib::PacketHeaders headers(uint8_t opcode, uint32_t psn) {
        ib::PacketHeaders headers;
        headers.lrh.dlid = ib::Lid(2);
        headers.lrh.slid = ib::Lid(1);
        headers.bth.opcode = opcode;
        headers.bth.pkey = ib::kDefaultPKey;
        headers.bth.dest_qp = ib::Qpn(qb.qpn);
        headers.bth.psn = ib::Psn(psn);
        headers.bth.ack_req = true;
        headers.reth = {.va = remote.addr, .rkey = ib::RKey(remote.key), .dma_len = 8};
        return headers;
    }
    void inject(const ib::PacketHeaders& headers, size_t payload_bytes) {
        answers.clear();
        pair.tap = [&](const ib::PacketView& packet) {
            answers.push_back({packet.bth().psn.value(), packet.aeth().value_or(ib::Aeth{})});
        };
        pair.inject(pair.b, headers, std::vector<uint8_t>(payload_bytes, 0x77));
    }
    bool naked(ib::NakCode code) const {
        return answers.size() == 1 && answers[0].aeth.kind() == ib::AethKind::kNak &&
               answers[0].aeth.code() == static_cast<uint8_t>(code);
    }

    struct Answer {
        uint32_t psn;
        ib::Aeth aeth;
    };
    Pair pair;
    Qp qa;
    Qp qb;
    Buffer remote;
    std::vector<Answer> answers;
};

}  // namespace

TEST_CASE("packets that are not the peer's are dropped in silence") {
    using H = ib::PacketHeaders&;
    void (*const spoil)(H) = GENERATE(
        +[](H h) { h.lrh.slid = ib::Lid(3); }, +[](H h) { h.lrh.dlid = ib::Lid(3); },
        +[](H h) { h.bth.dest_qp = ib::Qpn(h.bth.dest_qp.value() + 1); },
        +[](H h) { h.bth.dest_qp = ib::Qpn(0); }, +[](H h) { h.bth.dest_qp = ib::Qpn(2); },
        +[](H h) { h.bth.opcode |= op::kUc; }, +[](H h) { h.bth.opcode |= op::kRd; },
        +[](H h) { h.bth.opcode = op::kUdSendOnly; }, +[](H h) { h.bth.opcode |= op::kXrc; },
        +[](H h) { h.grh = ib::Grh{}; }, +[](H h) { h.bth.pkey = ib::PKey(0x1234); });
    Forged t;
    auto headers = t.headers(op::kSendOnly, 0);
    spoil(headers);
    t.inject(headers, 8);
    CHECK(t.answers.empty());
    CHECK(t.pair.b.poll_all(t.qb).empty());
    CHECK(t.pair.b.counter(PIB_HCA_COUNTER_RX_DROPPED) == 1);
    CHECK(t.pair.b.port.pkey_violations == (headers.bth.pkey == ib::PKey(0x1234) ? 1 : 0));
    t.inject(t.headers(op::kSendOnly, 0), 8);
    CHECK(t.answers.size() == 1);
    CHECK(t.pair.b.poll_all(t.qb).size() == 1);
}

TEST_CASE("a connection with a GRH takes packets of its GIDs only") {
    Pair pair;
    const Qp qa = pair.a.create();
    Qp qb = pair.b.create();
    pib_hca_av av = pair.b.av_to(pair.a);
    av.flags = PIB_HCA_AV_GRH;
    std::memcpy(av.dgid, pair.a.port.gid(0), 16);
    to_init(pair.b, qb);
    to_rtr(pair.b, qb, av, qa.qpn);
    pair.b.post_recv(qb, {});
    ib::PacketHeaders headers;
    headers.lrh.dlid = ib::Lid(2);
    headers.lrh.slid = ib::Lid(1);
    headers.bth.opcode = op::kSendOnly;
    headers.bth.pkey = ib::kDefaultPKey;
    headers.bth.dest_qp = ib::Qpn(qb.qpn);
    pair.inject(pair.b, headers);
    headers.grh = ib::Grh{};
    pair.inject(pair.b, headers);
    std::memcpy(headers.grh->sgid.bytes.data(), pair.a.port.gid(0), 16);
    pair.inject(pair.b, headers);
    CHECK_FALSE(pair.b.poll(qb));
    std::memcpy(headers.grh->dgid.bytes.data(), pair.b.port.gid(0), 16);
    pair.inject(pair.b, headers);
    CHECK(pair.b.poll(qb));
}

TEST_CASE("opcode sequences that are no message are invalid requests") {
    struct Case {
        std::vector<uint8_t> opcodes;
    };
    const Case c = GENERATE(
        Case{{op::kSendMiddle}}, Case{{op::kSendLast}}, Case{{op::kSendLastImm}},
        Case{{op::kRdmaWriteMiddle}}, Case{{op::kRdmaWriteLast}},
        Case{{op::kSendFirst, op::kSendFirst}}, Case{{op::kSendFirst, op::kSendOnly}},
        Case{{op::kSendFirst, op::kRdmaWriteMiddle}}, Case{{op::kSendFirst, op::kRdmaWriteLast}},
        Case{{op::kSendFirst, op::kRdmaReadRequest}}, Case{{op::kSendFirst, op::kFetchAdd}},
        Case{{op::kRdmaWriteFirst, op::kSendMiddle}}, Case{{op::kRdmaWriteFirst, op::kSendOnly}},
        Case{{op::kSendLastInvalidate}});
    Forged t;
    for (size_t i = 0; i < c.opcodes.size(); ++i) {
        const auto& info = *ib::find_opcode(c.opcodes[i]);
        auto headers = t.headers(c.opcodes[i], static_cast<uint32_t>(i));
        headers.reth.dma_len = info.position == ib::Position::kFirst ? 8192 : 8;
        const size_t bytes = info.payload == ib::PayloadRule::kFullMtu ? 1024
                             : info.payload == ib::PayloadRule::kNone  ? 0
                                                                       : 8;
        t.inject(headers, bytes);
    }
    CHECK(t.naked(ib::NakCode::kInvalidRequest));
    CHECK(t.pair.b.saw_event(PIB_HCA_EVENT_QP_REQUEST_ERROR, t.qb.qpn));
    CHECK(t.pair.b.state(t.qb) == PIB_HCA_QPS_ERR);
    CHECK(t.pair.b.poll(t.qb)->status == PIB_HCA_WC_WR_FLUSH_ERR);
}

TEST_CASE("lengths that do not fit are invalid requests") {
    struct Case {
        uint8_t opcode;
        uint32_t dma_len;
        size_t payload;
    };
    const Case c = GENERATE(Case{op::kSendFirst, 0, 512},           // not the path MTU
                            Case{op::kSendFirst, 0, 2048},          //
                            Case{op::kSendOnly, 0, 1025},           // beyond it
                            Case{op::kRdmaWriteOnly, 9, 8},         // not what the RETH says
                            Case{op::kRdmaWriteOnly, 7, 8},         //
                            Case{op::kRdmaWriteOnly, 0, 8},         //
                            Case{op::kRdmaWriteFirst, 1024, 1024},  // no bytes left for Last
                            Case{op::kRdmaWriteFirst, 0x80000001, 1024},
                            Case{op::kRdmaReadRequest, 0x80000001, 0});
    Forged t;
    auto headers = t.headers(c.opcode, 0);
    headers.reth.dma_len = c.dma_len;
    t.inject(headers, c.payload);
    CHECK(t.naked(ib::NakCode::kInvalidRequest));
    CHECK(t.pair.b.state(t.qb) == PIB_HCA_QPS_ERR);
    CHECK(t.pair.b.host.peek<uint64_t>(t.remote.addr) == 0);
}

TEST_CASE("a WRITE's last packet brings exactly the rest") {
    const size_t last = GENERATE(size_t{7}, size_t{8}, size_t{9});
    Forged t;
    auto headers = t.headers(op::kRdmaWriteFirst, 0);
    headers.reth.dma_len = 1032;
    t.inject(headers, 1024);
    t.inject(t.headers(op::kRdmaWriteLast, 1), last);
    if (last == 8) {
        CHECK(t.answers.size() == 1);
        CHECK(t.answers[0].aeth.kind() == ib::AethKind::kAck);
        CHECK(t.answers[0].aeth.msn == 1);
    } else {
        CHECK(t.naked(ib::NakCode::kInvalidRequest));
    }
}

TEST_CASE("a gap is told once, duplicates are acknowledged again") {
    Forged t;
    t.inject(t.headers(op::kRdmaWriteOnly, 3), 8);
    CHECK(t.naked(ib::NakCode::kPsnSequenceError));
    CHECK(t.answers[0].psn == 0);
    t.inject(t.headers(op::kRdmaWriteOnly, 4), 8);
    CHECK(t.answers.empty());
    t.inject(t.headers(op::kRdmaWriteOnly, 0), 8);
    REQUIRE(t.answers.size() == 1);
    CHECK(t.answers[0].aeth.kind() == ib::AethKind::kAck);
    t.inject(t.headers(op::kRdmaWriteOnly, 2), 8);
    CHECK(t.naked(ib::NakCode::kPsnSequenceError));
    CHECK(t.answers[0].psn == 1);
    t.inject(t.headers(op::kRdmaWriteOnly, 1), 8);
    CHECK(t.answers[0].psn == 1);
    t.inject(t.headers(op::kRdmaWriteOnly, 0), 8);
    REQUIRE(t.answers.size() == 1);
    CHECK(t.answers[0].psn == 1);
    CHECK(t.answers[0].aeth.msn == 2);
    CHECK(t.pair.b.counter(PIB_HCA_COUNTER_DUPLICATE_REQUEST) == 1);
    CHECK(t.pair.b.counter(PIB_HCA_COUNTER_OUT_OF_SEQUENCE) == 3);
}

TEST_CASE("a duplicate atomic is not executed again, its result is replayed") {
    Forged t;
    auto headers = t.headers(op::kFetchAdd, 0);
    headers.atomic_eth = {.va = t.remote.addr, .rkey = ib::RKey(t.remote.key), .swap_or_add = 5};
    for (int i = 0; i < 3; ++i) {
        t.inject(headers, 0);
        CHECK(t.answers.size() == 1);
        CHECK(t.pair.b.host.peek<uint64_t>(t.remote.addr) == 5);
    }
}

TEST_CASE("a duplicate READ may ask for a part, but not for something else") {
    Forged t;
    auto headers = t.headers(op::kRdmaReadRequest, 0);
    headers.reth.dma_len = 4000;
    t.inject(headers, 0);
    CHECK(t.answers.size() == 4);
    auto part = t.headers(op::kRdmaReadRequest, 2);
    part.reth.va += 2048;
    part.reth.dma_len = 4000 - 2048;
    t.inject(part, 0);
    REQUIRE(t.answers.size() == 2);
    CHECK(t.answers[0].psn == 2);
    part.reth.va += 1;
    t.inject(part, 0);
    CHECK(t.answers.empty());
    part.reth.va -= 1;
    part.reth.dma_len += 1;
    t.inject(part, 0);
    CHECK(t.answers.empty());
    part.reth.dma_len -= 1;
    part.reth.rkey = ib::RKey(1);
    t.inject(part, 0);
    CHECK(t.answers.empty());
    CHECK(t.pair.b.state(t.qb) == PIB_HCA_QPS_RTS);
}

TEST_CASE("ghosts: responses to what was never sent, or long ago, change nothing") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair({.timeout = 0});
    const Buffer from = pair.a.make_buffer(4096);
    pair.filter = [](const ib::PacketView&) { return false; };
    pair.a.post(qa, {.sges = {from.sge(0, 8)}});
    pair.settle();
    ib::PacketHeaders headers;
    headers.lrh.dlid = ib::Lid(1);
    headers.lrh.slid = ib::Lid(2);
    headers.bth.pkey = ib::kDefaultPKey;
    headers.bth.dest_qp = ib::Qpn(qa.qpn);
    for (const uint32_t psn : {1u, 2u, 0x7fffffu, 0x800000u, 0xffffffu}) {
        headers.bth.psn = ib::Psn(psn);
        headers.bth.opcode = op::kAcknowledge;
        for (const uint8_t syndrome : {0x1f, 0x20, 0x60, 0x61, 0x62, 0x63}) {
            headers.aeth.syndrome = syndrome;
            pair.inject(pair.a, headers);
        }
        headers.bth.opcode = op::kRdmaReadResponseOnly;
        pair.inject(pair.a, headers, std::vector<uint8_t>(8));
        headers.bth.opcode = op::kAtomicAcknowledge;
        pair.inject(pair.a, headers);
    }
    CHECK(pair.a.poll_all(qa).empty());
    CHECK(pair.a.state(qa) == PIB_HCA_QPS_RTS);
    // Reserved syndromes do not acknowledge, either.
    headers.bth.psn = ib::Psn(0);
    headers.bth.opcode = op::kAcknowledge;
    for (const uint8_t syndrome : {0x40, 0x7f, 0x65}) {
        headers.aeth.syndrome = syndrome;
        pair.inject(pair.a, headers);
    }
    CHECK(pair.a.poll_all(qa).empty());
    headers.aeth.syndrome = 0x1f;
    pair.inject(pair.a, headers);
    CHECK(pair.a.poll(qa)->status == PIB_HCA_WC_SUCCESS);
}

TEST_CASE("responses of the wrong kind or length are bad responses") {
    struct Case {
        pib_hca_wqe_opcode request;
        uint8_t response;
        size_t payload;
    };
    const Case c = GENERATE(Case{PIB_HCA_WQE_SEND, op::kRdmaReadResponseOnly, 8},
                            Case{PIB_HCA_WQE_SEND, op::kAtomicAcknowledge, 0},
                            Case{PIB_HCA_WQE_RDMA_READ, op::kAtomicAcknowledge, 0},
                            Case{PIB_HCA_WQE_RDMA_READ, op::kRdmaReadResponseOnly, 7},
                            Case{PIB_HCA_WQE_RDMA_READ, op::kRdmaReadResponseOnly, 1024},
                            Case{PIB_HCA_WQE_RDMA_READ, op::kRdmaReadResponseFirst, 1024},
                            Case{PIB_HCA_WQE_FETCH_ADD, op::kRdmaReadResponseOnly, 8});
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    const Buffer local = pair.a.make_buffer(4096);
    pair.filter = [](const ib::PacketView&) { return false; };
    pair.a.post(qa, {.opcode = static_cast<uint8_t>(c.request), .sges = {local.sge(0, 8)}});
    pair.settle();
    ib::PacketHeaders headers;
    headers.lrh.dlid = ib::Lid(1);
    headers.lrh.slid = ib::Lid(2);
    headers.bth.pkey = ib::kDefaultPKey;
    headers.bth.dest_qp = ib::Qpn(qa.qpn);
    headers.bth.opcode = c.response;
    pair.inject(pair.a, headers, std::vector<uint8_t>(c.payload, 1));
    CHECK(pair.a.poll(qa)->status == PIB_HCA_WC_BAD_RESP_ERR);
    CHECK(pair.a.host.peek<uint64_t>(local.addr) == 0);
    CHECK(pair.a.state(qa) == PIB_HCA_QPS_ERR);
}
