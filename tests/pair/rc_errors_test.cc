// SPDX-License-Identifier: GPL-2.0-or-later
// RC requests that a responder or the requester's own memory refuses: the effects on each end.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <iterator>

#include "pair.h"

using namespace pib;
using namespace pib::hca;
using namespace pib::hca::test;

namespace {

struct Connected {
    explicit Connected(const RcAttributes& attr = {}) {
        auto connection = pair.rc_pair(attr);
        qa = connection.a;
        qb = connection.b;
        local = pair.a.make_buffer(65536);
        remote = pair.b.make_buffer(65536);
    }
    SendWr rdma(pib_hca_wqe_opcode opcode, uint32_t length = 64) {
        return {.opcode = static_cast<uint8_t>(opcode),
                .sges = {local.sge(0, length)},
                .remote_addr = remote.addr,
                .rkey = remote.key};
    }
    uint8_t send(const SendWr& wr) {
        pair.a.post(qa, wr);
        pair.settle();
        auto cqe = pair.a.poll(qa);
        if (!cqe && peer_copy_wanted()) {  // packets were lost with their region: the timer retries
            pair.run_until([&] { return cqe || (cqe = pair.a.poll(qa)); });
        }
        REQUIRE(cqe);
        return cqe->status;
    }

    Pair pair;
    Qp qa;
    Qp qb;
    Buffer local;
    Buffer remote;
};

const pib_hca_wqe_opcode kRemoteOpcodes[] = {PIB_HCA_WQE_RDMA_WRITE, PIB_HCA_WQE_RDMA_READ,
                                             PIB_HCA_WQE_FETCH_ADD, PIB_HCA_WQE_CMP_SWAP};

bool is_atomic(pib_hca_wqe_opcode opcode) {
    return opcode == PIB_HCA_WQE_FETCH_ADD || opcode == PIB_HCA_WQE_CMP_SWAP;
}

uint32_t right_of(pib_hca_wqe_opcode opcode) {
    return opcode == PIB_HCA_WQE_RDMA_WRITE  ? PIB_HCA_ACCESS_REMOTE_WRITE
           : opcode == PIB_HCA_WQE_RDMA_READ ? PIB_HCA_ACCESS_REMOTE_READ
                                             : PIB_HCA_ACCESS_REMOTE_ATOMIC;
}

}  // namespace

TEST_CASE("R_Key violations are a remote access error and end both QPs") {
    const auto opcode = kRemoteOpcodes[GENERATE(range(0, 4))];
    const int kind = GENERATE(range(0, 7));
    Connected t;
    const uint32_t length = is_atomic(opcode) ? 8 : 64;
    SendWr wr = t.rdma(opcode, length);
    switch (kind) {
        case 0:  // unknown
            wr.rkey ^= 0x100;
            break;
        case 1:  // stale key byte
            wr.rkey ^= 1;
            break;
        case 2:  // another protection domain
            wr.rkey = t.pair.b.make_buffer(4096, Hca::kAllAccess, 2).key;
            break;
        case 3: {  // a right is missing
            const Buffer other = t.pair.b.make_buffer(4096, Hca::kAllAccess & ~right_of(opcode));
            wr.remote_addr = other.addr;
            wr.rkey = other.key;
            break;
        }
        case 4:  // before the first byte
            wr.remote_addr -= 8;
            break;
        case 5:  // beyond the last byte
            wr.remote_addr += t.remote.bytes - length + 8;
            break;
        case 6:  // the address space's end
            wr.remote_addr = UINT64_MAX - 7;
            break;
    }
    INFO("opcode " << opcode << " kind " << kind);
    t.pair.a.write_send(t.qa, wr);
    t.pair.a.write_send(t.qa, t.rdma(opcode, length));
    t.pair.b.post_recv(t.qb, {});
    t.pair.a.ring(t.qa);
    t.pair.settle();
    const auto sent = t.pair.a.poll_all(t.qa);
    REQUIRE(sent.size() == 2);
    CHECK(sent[0].status == PIB_HCA_WC_REM_ACCESS_ERR);
    CHECK(sent[1].status == PIB_HCA_WC_WR_FLUSH_ERR);
    CHECK(t.pair.a.state(t.qa) == PIB_HCA_QPS_ERR);
    CHECK(t.pair.b.state(t.qb) == PIB_HCA_QPS_ERR);
    CHECK(t.pair.b.saw_event(PIB_HCA_EVENT_QP_ACCESS_ERROR, t.qb.qpn));
    CHECK(t.pair.b.poll(t.qb)->status == PIB_HCA_WC_WR_FLUSH_ERR);
    CHECK(t.pair.a.counter(PIB_HCA_COUNTER_REQ_REMOTE_ACCESS_ERRORS) == 1);
    CHECK(t.pair.b.counter(PIB_HCA_COUNTER_RESP_REMOTE_ACCESS_ERRORS) == 1);
}

TEST_CASE("a zero-length WRITE or READ needs no key") {
    const auto opcode = GENERATE(PIB_HCA_WQE_RDMA_WRITE, PIB_HCA_WQE_RDMA_READ);
    Connected t;
    SendWr wr = t.rdma(opcode, 0);
    wr.rkey = 0xdeadbe00;
    wr.sges.clear();
    CHECK(t.send(wr) == PIB_HCA_WC_SUCCESS);
}

TEST_CASE("operations that the responder's QP does not allow are invalid requests") {
    const auto opcode = kRemoteOpcodes[GENERATE(range(0, 4))];
    Connected t({.access_flags = Hca::kAllAccess & ~right_of(opcode)});
    CHECK(t.send(t.rdma(opcode, is_atomic(opcode) ? 8 : 64)) == PIB_HCA_WC_REM_INV_REQ_ERR);
    CHECK(t.pair.b.saw_event(PIB_HCA_EVENT_QP_REQUEST_ERROR, t.qb.qpn));
    CHECK(t.pair.b.state(t.qb) == PIB_HCA_QPS_ERR);
}

TEST_CASE("a misaligned atomic is an invalid request") {
    Connected t;
    SendWr wr = t.rdma(PIB_HCA_WQE_FETCH_ADD, 8);
    wr.remote_addr += 4;
    CHECK(t.send(wr) == PIB_HCA_WC_REM_INV_REQ_ERR);
}

TEST_CASE("a local key with wrong index, PD, bounds or rights is a protection error") {
    const int kind = GENERATE(range(0, 5));
    Connected t;
    SendWr wr{.sges = {t.local.sge(0, 64)}};
    switch (kind) {
        case 0:
            wr.sges[0].lkey ^= 0x100;
            break;
        case 1:
            wr.sges[0] = t.pair.a.make_buffer(4096, Hca::kAllAccess, 2).sge(0, 64);
            break;
        case 2:
            wr.sges[0].addr -= 1;
            break;
        case 3:
            wr.sges[0].addr += t.local.bytes - 63;
            break;
        case 4: {
            const Buffer read_only = t.pair.a.make_buffer(4096, 0);
            wr = t.rdma(PIB_HCA_WQE_RDMA_READ);
            wr.sges[0] = read_only.sge(0, 64);
            break;
        }
    }
    CHECK(t.send(wr) == PIB_HCA_WC_LOC_PROT_ERR);
    CHECK(t.pair.a.state(t.qa) == PIB_HCA_QPS_ERR);
    CHECK(t.pair.b.state(t.qb) == PIB_HCA_QPS_RTS);
    CHECK(t.pair.packets == 0);
}

TEST_CASE("memory that vanishes during a request is a protection error") {
    Connected t;
    SECTION("the requester's memory gives a local protection error") {
        t.pair.a.host.make_hole(t.local.addr + 8192, 4096);
        CHECK(t.send(t.rdma(PIB_HCA_WQE_RDMA_WRITE, 32768)) == PIB_HCA_WC_LOC_PROT_ERR);
    }
    SECTION("the target of a READ gives a local protection error") {
        t.pair.a.host.make_hole(t.local.addr + 8192, 4096);
        CHECK(t.send(t.rdma(PIB_HCA_WQE_RDMA_READ, 32768)) == PIB_HCA_WC_LOC_PROT_ERR);
    }
    SECTION("the responder's memory gives a remote access error") {
        t.pair.b.host.make_hole(t.remote.addr + 8192, 4096);
        const auto opcode = GENERATE(PIB_HCA_WQE_RDMA_WRITE, PIB_HCA_WQE_RDMA_READ);
        CHECK(t.send(t.rdma(opcode, 32768)) == PIB_HCA_WC_REM_ACCESS_ERR);
        CHECK(t.pair.b.saw_event(PIB_HCA_EVENT_QP_ACCESS_ERROR, t.qb.qpn));
    }
    SECTION("a region that is destroyed while it is written or read") {
        const auto opcode = GENERATE(PIB_HCA_WQE_RDMA_WRITE, PIB_HCA_WQE_RDMA_READ);
        t.pair.b.port.capacity = 4;
        unsigned seen = 0;
        t.pair.tap = [&](const ib::PacketView&) {
            if (++seen == 10) {
                (void)t.pair.b.mpt.destroy(t.remote.key);
            }
        };
        // The offer of a READ response is lost with its region, so the NAK that follows tells the
        // requester only that a response is lost. It repeats the READ, and the responder is silent.
        const bool lost = peer_copy_wanted() && opcode == PIB_HCA_WQE_RDMA_READ;
        CHECK(t.send(t.rdma(opcode, 65536)) ==
              (lost ? PIB_HCA_WC_RETRY_EXC_ERR : PIB_HCA_WC_REM_ACCESS_ERR));
        CHECK(t.pair.b.state(t.qb) == PIB_HCA_QPS_ERR);
    }
}

TEST_CASE("a receive buffer with a wrong L_Key is a remote operational error") {
    Connected t;
    auto sge = t.remote.all();
    sge.lkey ^= 0x100;
    t.pair.b.post_recv(t.qb, {sge});
    t.pair.b.post_recv(t.qb, {});
    CHECK(t.send({.sges = {t.local.sge(0, 3000)}}) == PIB_HCA_WC_REM_OP_ERR);
    const auto received = t.pair.b.poll_all(t.qb);
    REQUIRE(received.size() == 2);
    CHECK(received[0].status == PIB_HCA_WC_LOC_PROT_ERR);
    CHECK(received[0].opcode == PIB_HCA_CQE_RECV);
    CHECK(received[1].status == PIB_HCA_WC_WR_FLUSH_ERR);
}

TEST_CASE("a SEND that is longer than the receive buffer is an invalid request") {
    const uint32_t length = GENERATE(101u, 1024u, 5000u);
    Connected t;
    t.pair.b.post_recv(t.qb, {t.remote.sge(0, 100)});
    CHECK(t.send({.sges = {t.local.sge(0, length)}}) == PIB_HCA_WC_REM_INV_REQ_ERR);
    CHECK(t.pair.b.poll(t.qb)->status == PIB_HCA_WC_LOC_LEN_ERR);
    CHECK(t.pair.b.state(t.qb) == PIB_HCA_QPS_ERR);
    CHECK(t.pair.b.counter(PIB_HCA_COUNTER_RESP_LOCAL_LENGTH_ERROR) == 1);
    for (uint64_t i = 0; i < 64; ++i) {
        CHECK(t.pair.b.host.peek<uint8_t>(t.remote.addr + 100 + i) == 0);
    }
}

// IBA 11.4.2.2.
TEST_CASE("a receive that fails raises the event of solicited completions") {
    constexpr uint32_t kCompletionEqn = 2;
    const bool fits = GENERATE(true, false);
    Connected t;
    t.pair.b.post_recv(t.qb, {t.remote.sge(0, fits ? 64 : 8)});
    REQUIRE(t.pair.b.cqs.doorbell(Hca::kUar, t.qb.cqn | PIB_HCA_DB_CQ_SOLICITED));
    CHECK(t.send({.sges = {t.local.sge(0, 64)}}) ==
          (fits ? PIB_HCA_WC_SUCCESS : PIB_HCA_WC_REM_INV_REQ_ERR));
    CHECK(t.pair.b.poll(t.qb)->status == (fits ? PIB_HCA_WC_SUCCESS : PIB_HCA_WC_LOC_LEN_ERR));
    CHECK(t.pair.b.eqs.find(kCompletionEqn)->producer == (fits ? 0 : 1));
}

TEST_CASE("READs and atomics without resources for them fail") {
    const auto opcode = GENERATE(PIB_HCA_WQE_RDMA_READ, PIB_HCA_WQE_FETCH_ADD);
    SECTION("by the requester") {
        Connected t({.max_rd_atomic = 0});
        CHECK(t.send(t.rdma(opcode, 8)) == PIB_HCA_WC_LOC_QP_OP_ERR);
    }
    SECTION("by the responder") {
        Connected t({.max_dest_rd_atomic = 0});
        CHECK(t.send(t.rdma(opcode, 8)) == PIB_HCA_WC_REM_INV_REQ_ERR);
    }
}

TEST_CASE("more READs at once than the responder's resources are an invalid request") {
    Connected t({.max_rd_atomic = 8, .max_dest_rd_atomic = 2});
    t.pair.b.port.capacity = 0;  // no response leaves before all requests are there
    for (int i = 0; i < 8; ++i) {
        t.pair.a.write_send(t.qa, t.rdma(PIB_HCA_WQE_RDMA_READ));
    }
    t.pair.a.ring(t.qa);
    for (auto& packet : t.pair.a.port.sent) {
        t.pair.give(t.pair.b, ib::Burst(ib::PacketView::parse(packet, ib::Crcs::kElided).value()));
    }
    t.pair.a.port.sent.clear();
    t.pair.b.port.capacity = 64;
    t.pair.settle();
    // The two READs that were accepted are answered before the NAK.
    const auto sent = t.pair.a.poll_all(t.qa);
    REQUIRE(sent.size() == 8);
    CHECK(sent[0].status == PIB_HCA_WC_SUCCESS);
    CHECK(sent[1].status == PIB_HCA_WC_SUCCESS);
    CHECK(sent[2].status == PIB_HCA_WC_REM_INV_REQ_ERR);
    CHECK(sent[3].status == PIB_HCA_WC_WR_FLUSH_ERR);
}

TEST_CASE("a smaller max_dest_rd_atomic admits no more READs while responses are owed") {
    Connected t({.max_rd_atomic = 8, .max_dest_rd_atomic = 4});
    for (uint32_t i = 0; i < 5; ++i) {
        t.pair.a.write_send(t.qa, t.rdma(PIB_HCA_WQE_RDMA_READ));
    }
    t.pair.a.ring(t.qa);
    const auto give_next = [&] {
        const auto packet = ib::PacketView::parse(t.pair.a.port.sent.front(), ib::Crcs::kElided);
        t.pair.give(t.pair.b, ib::Burst(packet.value()));
        t.pair.a.port.sent.pop_front();
    };
    REQUIRE(t.pair.a.port.sent.size() == 5);
    for (uint32_t i = 0; i < 4; ++i) {
        give_next();
    }
    to_state(t.pair.b, t.qb, PIB_HCA_QPS_SQD);
    pib_hca_modify_qp in{};
    in.attr_mask = PIB_HCA_QP_ATTR_MAX_DEST_RD_ATOMIC;
    in.max_dest_rd_atomic = 1;
    REQUIRE(modify_qp(t.pair.b, t.qb.qpn, in) == CmdStatus::kOk);
    t.pair.b.port.capacity = 3;  // one response stays
    (void)t.pair.b.transport.run();
    REQUIRE(t.pair.b.port.sent.size() == 3);
    give_next();
    t.pair.b.port.capacity = 64;
    t.pair.settle();
    const auto sent = t.pair.a.poll_all(t.qa);
    REQUIRE(sent.size() == 5);
    for (uint32_t i = 0; i < 4; ++i) {
        CHECK(sent[i].status == PIB_HCA_WC_SUCCESS);
    }
    CHECK(sent[4].status == PIB_HCA_WC_REM_INV_REQ_ERR);
}

TEST_CASE("an error completes after the requests before it") {
    Connected t;
    for (int i = 0; i < 4; ++i) {
        t.pair.a.write_send(t.qa, t.rdma(PIB_HCA_WQE_RDMA_WRITE, 30000));
    }
    t.pair.a.write_send(t.qa, {.opcode = 99});
    t.pair.a.ring(t.qa);
    CHECK(t.pair.a.poll_all(t.qa).empty());
    t.pair.settle();
    const auto sent = t.pair.a.poll_all(t.qa);
    REQUIRE(sent.size() == 5);
    CHECK(std::ranges::count(sent, PIB_HCA_WC_SUCCESS, &pib_hca_cqe::status) == 4);
    CHECK(sent[4].status == PIB_HCA_WC_LOC_QP_OP_ERR);
}

// IBA 9.7.5.2.1: a NAK acknowledges the requests before the one that it refuses.
TEST_CASE("requests before a refused one complete with success") {
    const auto opcode = kRemoteOpcodes[GENERATE(range(0, 4))];
    Connected t;
    for (uint32_t i = 0; i < 3; ++i) {
        SendWr write = t.rdma(PIB_HCA_WQE_RDMA_WRITE, 3000);
        write.remote_addr += i * 4096;
        t.pair.a.write_send(t.qa, write);
    }
    SendWr refused = t.rdma(opcode, 8);
    refused.rkey ^= 0x100;
    t.pair.a.write_send(t.qa, refused);
    t.pair.a.write_send(t.qa, t.rdma(PIB_HCA_WQE_RDMA_WRITE));
    t.pair.a.host.poke<uint64_t>(t.local.addr + 2000, 0x1122334455667788);
    t.pair.a.ring(t.qa);
    std::vector<pib_hca_cqe> cqes;
    t.pair.run_until([&] {
        std::ranges::copy(t.pair.a.poll_all(t.qa), std::back_inserter(cqes));
        return cqes.size() == 5;
    });
    REQUIRE(cqes.size() == 5);
    for (uint32_t i = 0; i < 3; ++i) {
        CHECK(cqes[i].status == PIB_HCA_WC_SUCCESS);
        CHECK(t.pair.b.host.peek<uint64_t>(t.remote.addr + i * 4096 + 2000) == 0x1122334455667788);
    }
    CHECK(cqes[3].status == PIB_HCA_WC_REM_ACCESS_ERR);
    CHECK(cqes[4].status == PIB_HCA_WC_WR_FLUSH_ERR);
}

TEST_CASE("failed completions and flushed ones have counters of their own in each direction") {
    Connected t;
    for (int i = 0; i < 3; ++i) {
        t.pair.b.post_recv(t.qb, {t.remote.sge(0, 8)});
        t.pair.a.write_send(t.qa, {.sges = {t.local.sge(0, 64)}});
    }
    t.pair.a.ring(t.qa);
    t.pair.settle();
    REQUIRE(t.pair.a.poll_all(t.qa).size() == 3);
    REQUIRE(t.pair.b.poll_all(t.qb).size() == 3);
    CHECK(t.pair.a.counter(PIB_HCA_COUNTER_REQ_CQE_ERROR) == 1);
    CHECK(t.pair.a.counter(PIB_HCA_COUNTER_REQ_CQE_FLUSH_ERROR) == 2);
    CHECK(t.pair.b.counter(PIB_HCA_COUNTER_RESP_CQE_ERROR) == 1);
    CHECK(t.pair.b.counter(PIB_HCA_COUNTER_RESP_CQE_FLUSH_ERROR) == 2);
}
