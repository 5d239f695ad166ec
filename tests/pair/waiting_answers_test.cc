// SPDX-License-Identifier: GPL-2.0-or-later
// Requests that arrive before the responder has had a turn, or room at its port, to answer earlier
// ones: which answers it still sends.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <utility>
#include <vector>

#include "pair.h"

using namespace pib;
using namespace pib::hca;
using namespace pib::hca::test;
namespace op = pib::ib::opcode;

namespace {

constexpr uint32_t kBytes = 8;  // length of each message

// The test makes requests in place of A's QP. B answers them in settle() only.
struct Waiting {
    explicit Waiting(const RcAttributes& attr = {}) {
        qb = pair.rc_pair(attr).b;
        remote = pair.b.make_buffer(4096);
        pair.tap = [this](const ib::PacketView& packet) {
            answers.push_back({.opcode = packet.bth().opcode,
                               .psn = packet.bth().psn.value(),
                               .aeth = packet.aeth().value_or(ib::Aeth{})});
        };
    }
    void arrive(uint8_t opcode, uint32_t psn, bool ack_req = true, uint32_t read_bytes = kBytes) {
        ib::PacketHeaders headers;
        headers.lrh.dlid = ib::Lid(2);
        headers.lrh.slid = ib::Lid(1);
        headers.bth.opcode = opcode;
        headers.bth.pkey = ib::kDefaultPKey;
        headers.bth.dest_qp = ib::Qpn(qb.qpn);
        headers.bth.psn = ib::Psn(psn);
        headers.bth.ack_req = ack_req;
        headers.reth = {.va = remote.addr, .rkey = ib::RKey(remote.key), .dma_len = read_bytes};
        headers.atomic_eth = {
            .va = remote.addr, .rkey = ib::RKey(remote.key), .swap_or_add = 1, .compare = 0};
        const bool is_empty = ib::find_opcode(opcode)->payload == ib::PayloadRule::kNone;
        const std::vector<uint8_t> payload(is_empty ? 0 : kBytes, 0x77);
        std::vector<uint8_t> packet(ib::kMaxPacket);
        auto builder =
            ib::PacketBuilder::begin(packet, headers, payload.size(), ib::Crcs::kElided).value();
        builder.gather({{payload}});
        const auto view = ib::PacketView::parse(builder.finish(), ib::Crcs::kElided).value();
        REQUIRE(Pair::give(pair.b, ib::Burst(view)) == 1);
    }
    struct Answer {
        uint8_t opcode;
        uint32_t psn;
        ib::Aeth aeth;
    };
    // The only answer since the last call.
    Answer answer() {
        pair.settle();
        const std::vector<Answer> all = std::exchange(answers, {});
        REQUIRE(all.size() == 1);
        return all[0];
    }

    Pair pair;
    Qp qb;
    Buffer remote;
    std::vector<Answer> answers;
};

}  // namespace

// IBA 10.3.1.7: processing has stopped. Software may free the memory and the keys of the QP next.
TEST_CASE("a QP in Error sends no READ response that waits for room") {
    const size_t sent = GENERATE(size_t{0}, size_t{1});
    Waiting t;
    t.pair.b.port.capacity = sent;
    t.arrive(op::kRdmaReadRequest, 0, true, 3000);
    (void)t.pair.b.transport.run();
    REQUIRE(t.pair.b.port.sent.size() == sent);
    to_state(t.pair.b, t.qb, PIB_HCA_QPS_ERR);
    t.pair.b.port.capacity = 64;
    t.pair.b.transport.port_ready(1);
    while (t.pair.b.transport.run()) {
    }
    CHECK(t.pair.b.port.sent.size() == sent);
}

// A requester that has repeated a request too early gets the first answer, and may then use the
// responder's resource for the next request (IBA 9.7.4.1.4).
TEST_CASE("a request that was repeated twice leaves its resource to the next one") {
    const uint8_t opcode = GENERATE(uint8_t{op::kRdmaReadRequest}, uint8_t{op::kFetchAdd});
    Waiting t({.max_dest_rd_atomic = 1});
    t.arrive(opcode, 0);
    CHECK(t.answer().psn == 0);
    t.arrive(opcode, 0);
    t.arrive(opcode, 0);
    t.arrive(opcode, 1);
    const Waiting::Answer answer = t.answer();
    CHECK(answer.opcode ==
          (opcode == op::kFetchAdd ? op::kAtomicAcknowledge : op::kRdmaReadResponseOnly));
    CHECK(answer.psn == 1);
    CHECK(t.pair.b.state(t.qb) == PIB_HCA_QPS_RTS);
}

// The NAK acknowledges the packets before its PSN, so it answers the duplicate, too; the responder
// sends no second NAK for a gap (IBA 9.7.5.1.2).
TEST_CASE("a NAK that waits is sent although a duplicate of an earlier request arrives") {
    const bool gap = GENERATE(true, false);
    Waiting t;
    t.arrive(op::kRdmaWriteOnly, 0);
    CHECK(t.answer().aeth.kind() == ib::AethKind::kAck);
    if (gap) {
        t.arrive(op::kRdmaWriteOnly, 2);
    } else {
        t.arrive(op::kSendOnly, 1);  // there is no receive
    }
    t.arrive(op::kRdmaWriteOnly, 0);
    const Waiting::Answer answer = t.answer();
    CHECK(answer.aeth.kind() == (gap ? ib::AethKind::kNak : ib::AethKind::kRnrNak));
    CHECK(answer.psn == 1);
}

// The requester must not wait, or count a retry, for a packet that has arrived.
TEST_CASE("a NAK that waits becomes an ACK when its packet arrives, with or without AckReq") {
    const bool gap = GENERATE(true, false);
    const bool ack_req = GENERATE(true, false);
    Waiting t;
    if (gap) {
        t.arrive(op::kRdmaWriteOnly, 1);
        t.arrive(op::kRdmaWriteOnly, 0, ack_req);
    } else {
        t.arrive(op::kSendOnly, 0);
        t.pair.b.post_recv(t.qb, {t.remote.all()});
        t.arrive(op::kSendOnly, 0, ack_req);
    }
    const Waiting::Answer answer = t.answer();
    CHECK(answer.aeth.kind() == ib::AethKind::kAck);
    CHECK(answer.psn == 0);
    CHECK(answer.aeth.msn == 1);
}
