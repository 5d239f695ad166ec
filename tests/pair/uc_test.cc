// SPDX-License-Identifier: GPL-2.0-or-later
// UC: messages without responses. A message that loses a packet is lost as a whole, silently.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "pair.h"

using namespace pib;
using namespace pib::hca;
using namespace pib::hca::test;

namespace {

// A UC connection from a to b, and data in which adjacent bytes differ, and so do bytes at a
// distance of 256.
struct Unreliable {
    explicit Unreliable(const RcAttributes& attr = {}, uint32_t to_access = Hca::kAllAccess) {
        auto connection = pair.rc_pair(attr, {.type = PIB_HCA_QP_UC});
        qa = connection.a;
        qb = connection.b;
        from = pair.a.make_buffer(65536);
        to = pair.b.make_buffer(65536, to_access);
        for (uint32_t i = 0; i < 65536; ++i) {
            pair.a.host.poke<uint8_t>(from.addr + i, static_cast<uint8_t>(i * 7 + (i >> 8)));
        }
    }

    void send(uint32_t length, uint32_t offset = 0) { post({.sges = {from.sge(offset, length)}}); }
    void write(uint32_t length, uint8_t opcode = PIB_HCA_WQE_RDMA_WRITE) {
        post({.opcode = opcode,
              .imm = 0x01020304,
              .sges = {from.sge(0, length)},
              .remote_addr = to.addr,
              .rkey = to.key});
    }
    void post(const SendWr& wr) {
        pair.a.post(qa, wr);
        pair.settle();
    }
    bool arrived(uint32_t length, uint32_t offset = 0) {
        std::vector<uint8_t> sent(length);
        std::vector<uint8_t> received(length);
        pair.a.host.peek_bytes(from.addr + offset, sent);
        pair.b.host.peek_bytes(to.addr, received);
        return sent == received;
    }
    // Loses the packets with these numbers, counted from 0 on the wire.
    void lose(std::vector<unsigned> numbers) {
        pair.filter = [this, numbers](const ib::PacketView&) {
            return std::ranges::find(numbers, passed_++) == numbers.end();
        };
    }
    pib_hca_wc_status sent_status() {
        return static_cast<pib_hca_wc_status>(pair.a.poll(qa)->status);
    }

    Pair pair;
    Qp qa;
    Qp qb;
    Buffer from;
    Buffer to;

  private:
    unsigned passed_ = 0;
};

}  // namespace

TEST_CASE("UC SEND and WRITE of any length arrive without an answer") {
    const uint32_t length = GENERATE(0u, 1u, 1023u, 1024u, 1025u, 65536u);
    const auto opcode = static_cast<uint8_t>(GENERATE(
        PIB_HCA_WQE_SEND_WITH_IMM, PIB_HCA_WQE_RDMA_WRITE, PIB_HCA_WQE_RDMA_WRITE_WITH_IMM));
    Unreliable t;
    bool answered = false;
    t.pair.tap = [&](const ib::PacketView& packet) {
        answered = answered || packet.lrh().slid.value() == t.pair.b.port.lid();
        CHECK(packet.opcode().service == ib::Service::kUc);
        CHECK_FALSE(packet.bth().ack_req);
    };
    t.pair.b.post_recv(t.qb, {t.to.all()});
    t.write(length, opcode);
    CHECK_FALSE(answered);
    CHECK(t.sent_status() == PIB_HCA_WC_SUCCESS);
    CHECK(t.arrived(length));
    const auto cqe = t.pair.b.poll(t.qb);
    REQUIRE(cqe.has_value() == (opcode != PIB_HCA_WQE_RDMA_WRITE));
    if (cqe) {
        CHECK(cqe->byte_count == length);
        CHECK(cqe->imm_data == 0x01020304);
        CHECK(cqe->opcode == (opcode == PIB_HCA_WQE_SEND_WITH_IMM
                                  ? PIB_HCA_CQE_RECV
                                  : PIB_HCA_CQE_RECV_RDMA_WITH_IMM));
    }
}

TEST_CASE("a lost packet drops its message, and the next message takes the WQE") {
    const unsigned lost = GENERATE(0u, 1u, 3u);
    Unreliable t;
    t.lose({lost});
    t.pair.b.post_recv(t.qb, {t.to.all()});
    t.send(4000);
    CHECK(t.sent_status() == PIB_HCA_WC_SUCCESS);
    CHECK_FALSE(t.pair.b.poll(t.qb));
    t.send(3000, 8192);
    CHECK(t.sent_status() == PIB_HCA_WC_SUCCESS);
    const auto cqe = t.pair.b.poll(t.qb);
    REQUIRE(cqe);
    CHECK(cqe->status == PIB_HCA_WC_SUCCESS);
    CHECK(cqe->byte_count == 3000);
    CHECK(cqe->wqe_counter == 0);
    CHECK(t.arrived(3000, 8192));
    CHECK(t.pair.b.state(t.qb) == PIB_HCA_QPS_RTS);
    CHECK(t.pair.b.events().empty());
    CHECK(t.pair.a.transport.next_deadline() == kNever);
}

TEST_CASE("the last packet of a message and the first of the next may be lost together") {
    Unreliable t;
    t.lose({1, 2});
    t.pair.b.post_recv(t.qb, {t.to.all()});
    for (int i = 0; i < 3; ++i) {
        t.send(2048, 4096u * static_cast<uint32_t>(i));
    }
    // The rest of the second message must not be taken for the rest of the first.
    const auto received = t.pair.b.poll_all(t.qb);
    REQUIRE(received.size() == 1);
    CHECK(received[0].byte_count == 2048);
    CHECK(t.arrived(2048, 8192));
}

TEST_CASE("a SEND or WRITE with immediate without a receive WQE is dropped") {
    const bool write = GENERATE(false, true);
    Unreliable t;
    const auto once = [&] {
        write ? t.write(100, PIB_HCA_WQE_RDMA_WRITE_WITH_IMM) : t.send(100);
        CHECK(t.sent_status() == PIB_HCA_WC_SUCCESS);
    };
    once();
    CHECK(t.pair.b.counter(PIB_HCA_COUNTER_OUT_OF_BUFFER) == 1);
    CHECK(t.pair.b.counter(PIB_HCA_COUNTER_RNR_NAK_SENT) == 0);
    t.pair.b.post_recv(t.qb, {t.to.all()});
    CHECK_FALSE(t.pair.b.poll(t.qb));
    once();
    CHECK(t.pair.b.poll(t.qb)->byte_count == 100);
}

TEST_CASE("requests that RC would refuse are dropped, and the connection continues") {
    struct Case {
        uint32_t access;     // right of the memory
        uint32_t qp_access;  // right of the QP
        uint32_t receive;    // bytes of the receive buffer
        uint8_t opcode;
        uint64_t dropped;  // how many of the message's three packets
    };
    constexpr uint32_t kAll = Hca::kAllAccess;
    const Case c =
        GENERATE(Case{PIB_HCA_ACCESS_LOCAL_WRITE, kAll, 4096, PIB_HCA_WQE_RDMA_WRITE, 3},
                 Case{PIB_HCA_ACCESS_LOCAL_WRITE, kAll, 4096, PIB_HCA_WQE_RDMA_WRITE_WITH_IMM, 3},
                 Case{kAll, 0, 4096, PIB_HCA_WQE_RDMA_WRITE, 3},
                 Case{kAll, kAll, 2999, PIB_HCA_WQE_SEND, 1});
    Unreliable t({.access_flags = c.qp_access}, c.access);
    t.pair.b.post_recv(t.qb, {t.to.sge(0, c.receive)});
    t.write(3000, c.opcode);
    CHECK(t.sent_status() == PIB_HCA_WC_SUCCESS);
    CHECK_FALSE(t.pair.b.poll(t.qb));
    CHECK(t.pair.b.counter(PIB_HCA_COUNTER_RX_DROPPED) == c.dropped);
    CHECK(t.pair.b.state(t.qb) == PIB_HCA_QPS_RTS);
    CHECK(t.pair.b.events().empty());
    t.send(2000);
    const auto cqe = t.pair.b.poll(t.qb);
    REQUIRE(cqe);
    CHECK(cqe->wqe_counter == 0);
    CHECK(t.arrived(2000));
}

TEST_CASE("a malformed receive WQE completes with its error and ends the QP") {
    struct Case {
        uint64_t offset;  // in the WQE, of the changed byte
        uint8_t change;
        uint8_t status;
    };
    // The key of the SGE, the number of SGEs, and a reserved byte.
    const Case c =
        GENERATE(Case{28, 1, PIB_HCA_WC_LOC_PROT_ERR}, Case{0, 0x20, PIB_HCA_WC_LOC_QP_OP_ERR},
                 Case{8, 1, PIB_HCA_WC_LOC_QP_OP_ERR});
    const auto opcode =
        static_cast<uint8_t>(GENERATE(PIB_HCA_WQE_SEND, PIB_HCA_WQE_RDMA_WRITE_WITH_IMM));
    if (opcode != PIB_HCA_WQE_SEND && c.status == PIB_HCA_WC_LOC_PROT_ERR) {
        return;  // a WRITE does not use the SGEs
    }
    Unreliable t;
    t.pair.b.post_recv(t.qb, {t.to.all()});
    t.pair.b.post_recv(t.qb, {t.to.all()});
    const uint64_t at = t.qb.addr + t.qb.rq_offset + c.offset;
    t.pair.b.host.poke<uint8_t>(at, t.pair.b.host.peek<uint8_t>(at) ^ c.change);
    t.write(10, opcode);
    CHECK(t.sent_status() == PIB_HCA_WC_SUCCESS);
    const auto cqes = t.pair.b.poll_all(t.qb);
    REQUIRE(cqes.size() == 2);
    CHECK(cqes[0].status == c.status);
    CHECK(cqes[1].status == PIB_HCA_WC_WR_FLUSH_ERR);
    CHECK(t.pair.b.state(t.qb) == PIB_HCA_QPS_ERR);
}

TEST_CASE("a malformed send WQE moves the QP to SQE, and MODIFY_QP recovers it") {
    const uint8_t opcode = GENERATE(values<uint8_t>(
        {PIB_HCA_WQE_RDMA_READ, PIB_HCA_WQE_FETCH_ADD, PIB_HCA_WQE_SEND_WITH_INV, 0x7f}));
    Unreliable t;
    t.pair.b.post_recv(t.qb, {t.to.all()});
    t.pair.a.write_send(t.qa, {.opcode = opcode, .sges = {t.from.sge(0, 8)}});
    t.pair.a.write_send(t.qa, {.sges = {t.from.sge(0, 8)}});
    t.pair.a.ring(t.qa);
    t.pair.settle();
    const auto cqes = t.pair.a.poll_all(t.qa);
    REQUIRE(cqes.size() == 2);
    CHECK(cqes[0].status == PIB_HCA_WC_LOC_QP_OP_ERR);
    CHECK(cqes[1].status == PIB_HCA_WC_WR_FLUSH_ERR);
    CHECK(t.pair.a.state(t.qa) == PIB_HCA_QPS_SQE);
    to_state(t.pair.a, t.qa, PIB_HCA_QPS_RTS);
    t.send(3000);
    CHECK(t.sent_status() == PIB_HCA_WC_SUCCESS);
    CHECK(t.pair.b.poll(t.qb)->byte_count == 3000);
}

TEST_CASE("memory that fails within a UC message moves the QP to SQE, and PSNs continue") {
    Unreliable t;
    t.pair.b.post_recv(t.qb, {t.to.all()});
    t.pair.a.host.make_hole(t.from.addr + 4096, 4096);
    t.send(8192);
    CHECK(t.sent_status() == PIB_HCA_WC_LOC_PROT_ERR);
    CHECK(t.pair.a.state(t.qa) == PIB_HCA_QPS_SQE);
    to_state(t.pair.a, t.qa, PIB_HCA_QPS_RTS);
    t.send(4096);
    CHECK(t.pair.b.poll(t.qb)->byte_count == 4096);
    CHECK(t.pair.b.counter(PIB_HCA_COUNTER_OUT_OF_SEQUENCE) == 0);
}

TEST_CASE("each UC message that arrives over a lossy wire is complete, in order and no duplicate") {
    Unreliable t;
    t.pair.faults = {.drop_percent = 5, .duplicate_percent = 5, .reorder_percent = 2};
    constexpr uint32_t kMessages = 400;
    uint32_t received = 0;
    uint32_t last = 0;
    for (uint32_t n = 1; n <= kMessages; ++n) {
        t.pair.b.post_recv(t.qb, {t.to.all()});
        t.pair.a.host.poke(t.from.addr, n);
        t.pair.a.host.poke(t.from.addr + 4092, n);
        t.send(4096);
        for (const auto& cqe : t.pair.b.poll_all(t.qb)) {
            REQUIRE(cqe.status == PIB_HCA_WC_SUCCESS);
            REQUIRE(cqe.byte_count == 4096);
            const auto number = t.pair.b.host.peek<uint32_t>(t.to.addr);
            CHECK(number == t.pair.b.host.peek<uint32_t>(t.to.addr + 4092));
            CHECK(number >= last);
            last = number;
            ++received;
        }
        if (n % 32 == 0) {
            to_state(t.pair.b, t.qb, PIB_HCA_QPS_RESET);  // drops WQEs of lost messages
            t.qb.rq_producer = 0;
            t.pair.b.set_rq_producer(t.qb, 0);
            to_init(t.pair.b, t.qb);
            to_rtr(t.pair.b, t.qb, t.pair.b.av_to(t.pair.a), t.qa.qpn);
        }
    }
    CHECK(received > kMessages / 3);
    CHECK(received < kMessages);
}
