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

// The test injects packets to B in place of A's QP.
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
            answers.push_back({packet.bth().psn.value(),
                               packet.aeth().value_or(ib::Aeth{}),
                               packet.atomic_ack_eth().value_or(ib::AtomicAckEth{}).original_data,
                               {packet.payload().begin(), packet.payload().end()}});
        };
        pair.inject(pair.b, headers, std::vector<uint8_t>(payload_bytes, 0x77));
    }
    // A request without payload arrives, and no QP gets a turn.
    void deliver(const ib::PacketHeaders& headers) {
        std::vector<uint8_t> bytes(ib::kMaxPacket);
        auto builder = ib::PacketBuilder::begin(bytes, headers, 0, ib::Crcs::kElided).value();
        const auto view = ib::PacketView::parse(builder.finish(), ib::Crcs::kElided).value();
        ib::Placement here;
        REQUIRE(pair.b.transport.burst_in(1, ib::Burst(view), here) == 1);
    }
    bool naked(ib::NakCode code) const {
        return answers.size() == 1 && answers[0].aeth.kind() == ib::AethKind::kNak &&
               answers[0].aeth.code() == static_cast<uint8_t>(code);
    }

    struct Answer {
        uint32_t psn;
        ib::Aeth aeth;
        uint64_t original = 0;
        std::vector<uint8_t> payload = {};
    };
    std::vector<uint8_t> answered() const {
        std::vector<uint8_t> bytes;
        for (const Answer& answer : answers) {
            bytes.insert(bytes.end(), answer.payload.begin(), answer.payload.end());
        }
        return bytes;
    }
    std::vector<uint8_t> memory(uint64_t offset, size_t bytes) const {
        std::vector<uint8_t> read(bytes);
        pair.b.host.peek_bytes(remote.addr + offset, read);
        return read;
    }
    Pair pair;
    Qp qa;
    Qp qb;
    Buffer remote;
    std::vector<Answer> answers;
};

}  // namespace

TEST_CASE("packets of another sender or service are dropped without an answer") {
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

TEST_CASE("a connection with a GRH accepts packets with its GIDs only") {
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

TEST_CASE("invalid opcode sequences are invalid requests") {
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

TEST_CASE("packets of wrong lengths are invalid requests") {
    struct Case {
        uint8_t opcode;
        uint32_t dma_len;
        size_t payload;
    };
    const Case c = GENERATE(Case{op::kSendFirst, 0, 512},           // not the path MTU
                            Case{op::kSendFirst, 0, 2048},          //
                            Case{op::kSendOnly, 0, 1025},           // above the path MTU
                            Case{op::kRdmaWriteOnly, 9, 8},         // not the RETH's length
                            Case{op::kRdmaWriteOnly, 7, 8},         //
                            Case{op::kRdmaWriteOnly, 0, 8},         //
                            Case{op::kRdmaWriteFirst, 1024, 1024},  // leaves no bytes for LAST
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

TEST_CASE("a WRITE's last packet must carry exactly the rest") {
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

TEST_CASE("a gap in PSNs is NAKed once, and duplicates are acknowledged again") {
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

TEST_CASE("a duplicate atomic is answered from its stored result") {
    Forged t;
    auto headers = t.headers(op::kFetchAdd, 0);
    headers.atomic_eth = {.va = t.remote.addr, .rkey = ib::RKey(t.remote.key), .swap_or_add = 5};
    t.pair.b.host.poke<uint64_t>(t.remote.addr, 70);
    for (int i = 0; i < 3; ++i) {
        t.inject(headers, 0);
        REQUIRE(t.answers.size() == 1);
        CHECK(t.answers[0].original == 70);
        CHECK(t.pair.b.host.peek<uint64_t>(t.remote.addr) == 75);
    }
}

TEST_CASE("a smaller max_dest_rd_atomic keeps the newest results") {
    Forged t;
    auto headers = t.headers(op::kFetchAdd, 0);
    headers.atomic_eth = {.va = t.remote.addr, .rkey = ib::RKey(t.remote.key), .swap_or_add = 1};
    t.pair.b.host.poke<uint64_t>(t.remote.addr, 70);
    const auto answer_to = [&](uint32_t psn) {
        headers.bth.psn = ib::Psn(psn);
        t.inject(headers, 0);
        return t.answers.empty() ? 0 : t.answers[0].original;
    };
    for (uint32_t psn = 0; psn < 3; ++psn) {
        REQUIRE(answer_to(psn) == 70 + psn);
    }
    to_state(t.pair.b, t.qb, PIB_HCA_QPS_SQD);
    pib_hca_modify_qp in{};
    in.attr_mask = PIB_HCA_QP_ATTR_MAX_DEST_RD_ATOMIC;
    in.max_dest_rd_atomic = 2;
    REQUIRE(modify_qp(t.pair.b, t.qb.qpn, in) == CmdStatus::kOk);
    CHECK(answer_to(2) == 72);
    CHECK(answer_to(1) == 71);
    CHECK(answer_to(0) == 0);
}

TEST_CASE("a smaller max_dest_rd_atomic loses no response that has not been sent") {
    Forged t;
    auto headers = t.headers(op::kRdmaReadRequest, 0);
    t.inject(headers, 0);
    REQUIRE(t.answers.size() == 1);
    t.answers.clear();
    for (uint32_t psn = 1; psn < 5; ++psn) {
        headers.bth.psn = ib::Psn(psn);
        t.deliver(headers);
    }
    to_state(t.pair.b, t.qb, PIB_HCA_QPS_SQD);
    pib_hca_modify_qp in{};
    in.attr_mask = PIB_HCA_QP_ATTR_MAX_DEST_RD_ATOMIC;
    in.max_dest_rd_atomic = 1;
    REQUIRE(modify_qp(t.pair.b, t.qb.qpn, in) == CmdStatus::kOk);
    t.pair.settle();
    REQUIRE(t.answers.size() == 4);
    for (uint32_t psn = 1; psn < 5; ++psn) {
        CHECK(t.answers[psn - 1].psn == psn);
        CHECK(t.answers[psn - 1].aeth.msn == psn + 1);
    }
    // The smaller number applies once the responses have been sent.
    headers.bth.psn = ib::Psn(3);
    t.inject(headers, 0);
    CHECK(t.answers.empty());
    headers.bth.psn = ib::Psn(4);
    t.inject(headers, 0);
    CHECK(t.answers.size() == 1);
}

TEST_CASE("a duplicate READ may repeat a part of the first one only") {
    Forged t;
    auto headers = t.headers(op::kRdmaReadRequest, 0);
    headers.reth.dma_len = 4000;
    for (uint32_t i = 0; i < 4000; ++i) {
        t.pair.b.host.poke<uint8_t>(t.remote.addr + i, static_cast<uint8_t>(i * 7 + i / 256));
    }
    t.inject(headers, 0);
    CHECK(t.answers.size() == 4);
    CHECK(t.answered() == t.memory(0, 4000));
    auto part = t.headers(op::kRdmaReadRequest, 2);
    part.reth.va += 2048;
    part.reth.dma_len = 4000 - 2048;
    t.inject(part, 0);
    REQUIRE(t.answers.size() == 2);
    CHECK(t.answers[0].psn == 2);
    CHECK(t.answered() == t.memory(2048, 4000 - 2048));
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

TEST_CASE("ghost responses change nothing") {
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

namespace {

// A READ of three packets whose responses the test makes.
struct ForgedRead {
    ForgedRead() {
        auto connection = pair.rc_pair({.retry_cnt = 1});
        qa = connection.a;
        local = pair.a.make_buffer(4096);
        pair.filter = [](const ib::PacketView&) { return false; };
        pair.a.post(qa, {.opcode = PIB_HCA_WQE_RDMA_READ, .sges = {local.sge(0, 3000)}});
        pair.settle();
    }
    void respond(uint8_t opcode, uint32_t psn, size_t bytes) {
        ib::PacketHeaders headers;
        headers.lrh.dlid = ib::Lid(1);
        headers.lrh.slid = ib::Lid(2);
        headers.bth.pkey = ib::kDefaultPKey;
        headers.bth.dest_qp = ib::Qpn(qa.qpn);
        headers.bth.opcode = opcode;
        headers.bth.psn = ib::Psn(psn);
        headers.aeth.syndrome = 0x1f;
        pair.inject(pair.a, headers, std::vector<uint8_t>(bytes, 0x5a));
    }
    pib_hca_wc_status status() {
        const auto cqe = pair.a.poll(qa);
        return cqe ? static_cast<pib_hca_wc_status>(cqe->status) : PIB_HCA_WC_GENERAL_ERR;
    }

    Pair pair;
    Qp qa;
    Buffer local;
};

}  // namespace

// IBA 9.7.6.1, table 61.
TEST_CASE("a READ response has one FIRST packet, at its start") {
    ForgedRead t;
    SECTION("MIDDLE first") {
        t.respond(op::kRdmaReadResponseMiddle, 0, 1024);
    }
    SECTION("LAST first") {
        t.respond(op::kRdmaReadResponseLast, 0, 952);
    }
    SECTION("FIRST twice") {
        t.respond(op::kRdmaReadResponseFirst, 0, 1024);
        t.respond(op::kRdmaReadResponseFirst, 1, 1024);
    }
    SECTION("ONLY at the end") {
        t.respond(op::kRdmaReadResponseFirst, 0, 1024);
        t.respond(op::kRdmaReadResponseMiddle, 1, 1024);
        t.respond(op::kRdmaReadResponseOnly, 2, 952);
    }
    SECTION("FIRST shorter than any MTU") {
        t.respond(op::kRdmaReadResponseFirst, 0, 1000);
    }
    CHECK(t.status() == PIB_HCA_WC_BAD_RESP_ERR);
    CHECK(t.pair.a.state(t.qa) == PIB_HCA_QPS_ERR);
}

TEST_CASE("FIRST, MIDDLE and LAST complete a READ") {
    ForgedRead t;
    t.respond(op::kRdmaReadResponseFirst, 0, 1024);
    t.respond(op::kRdmaReadResponseMiddle, 1, 1024);
    t.respond(op::kRdmaReadResponseLast, 2, 952);
    CHECK(t.status() == PIB_HCA_WC_SUCCESS);
}

// Responses to the first READ request may still arrive after the requester has repeated it.
TEST_CASE("a repeated READ accepts the packets of both responses") {
    const bool again = GENERATE(true, false);
    ForgedRead t;
    t.respond(op::kRdmaReadResponseFirst, 0, 1024);
    t.pair.step_clock();
    t.respond(again ? op::kRdmaReadResponseFirst : op::kRdmaReadResponseMiddle, 1, 1024);
    t.respond(op::kRdmaReadResponseLast, 2, 952);
    CHECK(t.status() == PIB_HCA_WC_SUCCESS);
}

// IBA 9.7.4.1.4, 9.7.4.1.6: the responder sends a NAK, and does not leave its peer to time out.
TEST_CASE("requests of invalid length are invalid requests") {
    struct Case {
        uint8_t opcode;
        size_t payload;
        bool follows_first;
    };
    const Case c = GENERATE(Case{op::kSendFirst, 1020, false}, Case{op::kSendFirst, 1022, false},
                            Case{op::kSendMiddle, 1020, true}, Case{op::kSendLast, 0, true},
                            Case{op::kRdmaWriteFirst, 1000, false});
    Forged t;
    if (c.follows_first) {
        t.inject(t.headers(op::kSendFirst, 0), 1024);
    }
    auto headers = t.headers(c.opcode, c.follows_first ? 1 : 0);
    headers.reth.dma_len = 4096;
    t.inject(headers, c.payload);
    CHECK(t.naked(ib::NakCode::kInvalidRequest));
    CHECK(t.pair.b.saw_event(PIB_HCA_EVENT_QP_REQUEST_ERROR, t.qb.qpn));
    CHECK(t.pair.b.state(t.qb) == PIB_HCA_QPS_ERR);
}

TEST_CASE("reserved opcodes of RC are invalid requests") {
    const auto opcode = static_cast<uint8_t>(GENERATE(0x15, 0x18, 0x19, 0x1a, 0x1b, 0x1e, 0x1f));
    Forged t;
    t.pair.tap = [&](const ib::PacketView& packet) {
        t.answers.push_back(
            {.psn = packet.bth().psn.value(), .aeth = packet.aeth().value_or(ib::Aeth{})});
    };
    std::vector<uint8_t> bytes(ib::kMaxPacket);
    auto builder =
        ib::PacketBuilder::begin(bytes, t.headers(op::kSendOnly, 0), 8, ib::Crcs::kElided);
    const auto packet = builder->finish();
    packet[ib::Lrh::kSize] = opcode;
    const auto view = ib::PacketView::parse(packet, ib::Crcs::kElided);
    REQUIRE(view);
    Pair::give(t.pair.b, ib::Burst(*view));
    t.pair.settle();
    CHECK(t.naked(ib::NakCode::kInvalidRequest));
    CHECK(t.pair.b.state(t.qb) == PIB_HCA_QPS_ERR);
}

// IBA 9.7.7.1: a response acknowledges no later request, whose own response may be lost.
TEST_CASE("the responses of a READ carry the MSN of that READ") {
    Forged t;
    std::vector<std::pair<uint8_t, uint32_t>> seen;
    t.pair.tap = [&](const ib::PacketView& packet) {
        if (packet.aeth()) {
            seen.emplace_back(packet.bth().opcode, packet.aeth()->msn);
        }
    };
    const auto give = [&](const ib::PacketHeaders& headers) {
        std::vector<uint8_t> bytes(ib::kMaxPacket);
        auto builder = ib::PacketBuilder::begin(bytes, headers, 0, ib::Crcs::kElided).value();
        const auto view = ib::PacketView::parse(builder.finish(), ib::Crcs::kElided).value();
        Pair::give(t.pair.b, ib::Burst(view));
    };
    auto read = t.headers(op::kRdmaReadRequest, 0);
    read.reth.dma_len = 2048;
    auto add = t.headers(op::kFetchAdd, 2);
    add.atomic_eth = {.va = t.remote.addr, .rkey = ib::RKey(t.remote.key), .swap_or_add = 5};
    give(read);
    give(add);
    t.pair.settle();
    const std::vector<std::pair<uint8_t, uint32_t>> expected = {{op::kRdmaReadResponseFirst, 1},
                                                                {op::kRdmaReadResponseLast, 1},
                                                                {op::kAtomicAcknowledge, 2}};
    CHECK(seen == expected);
}

TEST_CASE("the path bits of a connection are the same in both directions") {
    Pair pair;
    pair.a.port.set_lids(8, 2);
    pair.b.port.set_lids(16, 2);
    Qp qa = pair.a.create();
    Qp qb = pair.b.create();
    pib_hca_av to_b = pair.a.av_to(pair.b);
    to_b.dlid = 16 + 1;
    to_b.src_path_bits = 3;
    pib_hca_av to_a = pair.b.av_to(pair.a);
    to_a.dlid = 8 + 3;
    to_a.src_path_bits = GENERATE(uint8_t{1}, uint8_t{2});
    pair.connect(qa, qb, to_b, to_a);
    pair.b.post_recv(qb, {});
    pair.a.post(qa, {});
    pair.settle();
    const bool right = to_a.src_path_bits == 1;
    CHECK(pair.b.poll_all(qb).size() == (right ? 1 : 0));
    CHECK(pair.a.poll_all(qa).size() == (right ? 1 : 0));
}

// IBA 9.7.7.2, C9-147.2.1
TEST_CASE("ACKs carry the number of posted receives, rounded down to a credit code") {
    struct Case {
        unsigned posted;
        uint32_t told;
    };
    const Case c = GENERATE(Case{1, 0}, Case{2, 1}, Case{4, 3}, Case{5, 4}, Case{6, 4}, Case{7, 6},
                            Case{9, 8}, Case{14, 12}, Case{33, 32});
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    for (unsigned i = 0; i < c.posted; ++i) {
        pair.b.post_recv(qb, {});
    }
    std::optional<ib::Aeth> seen;
    pair.tap = [&](const ib::PacketView& packet) { seen = packet.aeth() ? packet.aeth() : seen; };
    pair.a.post(qa, {});
    pair.settle();
    REQUIRE(seen);
    CHECK(ib::credit_count(seen->code()) == c.told);
    CHECK(seen->msn == 1);
}

TEST_CASE("a QP with an SRQ sends no credits") {
    Pair pair;
    Srq srq = pair.b.make_srq(4);
    Qp qa = pair.a.create();
    const Qp qb = pair.b.create({.srq = srq.srqn});
    pair.connect(qa, qb);
    pair.b.post_srq(srq, 1, {});
    pair.b.post_srq(srq, 2, {});
    std::optional<ib::Aeth> seen;
    pair.tap = [&](const ib::PacketView& packet) { seen = packet.aeth() ? packet.aeth() : seen; };
    pair.a.post(qa, {});
    pair.settle();
    REQUIRE(seen);
    CHECK(seen->code() == ib::Aeth::kInvalidCreditCount);
}
