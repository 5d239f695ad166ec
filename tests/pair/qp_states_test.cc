// SPDX-License-Identifier: GPL-2.0-or-later
// Behaviour of a QP in its states: flush in order, draining, receives posted in Error, CQ overrun,
// events.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstddef>
#include <utility>

#include "pair.h"
#include "qp/turn.h"

using namespace pib;
using namespace pib::hca;
using namespace pib::hca::test;

namespace {

void drain_with_event(Hca& hca, const Qp& qp) {
    pib_hca_modify_qp in{};
    in.attr_mask = PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_EN_SQD_ASYNC_NOTIFY;
    in.state = PIB_HCA_QPS_SQD;
    in.en_sqd_async_notify = 1;
    REQUIRE(modify_qp(hca, qp.qpn, in) == CmdStatus::kOk);
}

}  // namespace

TEST_CASE("a QP in Error flushes both queues in order, and later requests as well") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair({.timeout = 0});
    pair.filter = [](const ib::PacketView&) { return false; };
    for (int i = 0; i < 10; ++i) {
        pair.a.post_recv(qa, {});
        pair.a.post(qa, {.flags = 0});
    }
    pair.settle();
    CHECK(pair.a.poll_all(qa).empty());
    to_state(pair.a, qa, PIB_HCA_QPS_ERR);
    pair.settle();
    uint32_t sends = 0;
    uint32_t receives = 0;
    for (const auto& cqe : pair.a.poll_all(qa)) {
        CHECK(cqe.status == PIB_HCA_WC_WR_FLUSH_ERR);
        const bool is_recv = (cqe.opcode & PIB_HCA_CQE_IS_RECV) != 0;
        CHECK(cqe.wqe_counter == (is_recv ? receives++ : sends++));
    }
    CHECK(sends == 10);
    CHECK(receives == 10);

    CHECK(pair.a.host.peek<uint32_t>(qa.addr + 8) == PIB_HCA_QP_HEADER_RECV_NOTIFY);
    pair.a.post_recv(qa, {});
    pair.a.post(qa, {});
    pair.settle();
    CHECK(pair.a.poll_all(qa).size() == 2);

    to_state(pair.a, qa, PIB_HCA_QPS_RESET);
    CHECK(pair.a.host.peek<uint32_t>(qa.addr + 8) == 0);
}

// IBA 10.3.1.7: all receives are flushed. The device sets the flag that asks for doorbells and then
// reads the producers, so a receive that software has posted just before it could see the flag is
// flushed without a doorbell.
TEST_CASE("a receive that is posted while the QP enters Error is flushed") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    const uint64_t flags = qa.addr + offsetof(pib_hca_qp_header, flags);
    bool posted = false;
    pair.a.host.before_dma = [&](uint64_t addr, size_t, bool is_write) {
        if (is_write && addr == flags && !std::exchange(posted, true)) {
            pair.a.post_recv(qa, {});
        }
    };
    to_state(pair.a, qa, PIB_HCA_QPS_ERR);
    pair.a.host.before_dma = nullptr;
    REQUIRE(posted);
    pair.settle();
    const auto flushed = pair.a.poll(qa);
    REQUIRE(flushed);
    CHECK(flushed->status == PIB_HCA_WC_WR_FLUSH_ERR);
    CHECK((flushed->opcode & PIB_HCA_CQE_IS_RECV) != 0);
}

TEST_CASE("the flush does not wait for a port that has no room") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    pair.a.port.capacity = 0;
    pair.a.post(qa, {});
    pair.a.post_recv(qa, {});
    (void)pair.a.transport.run();
    to_state(pair.a, qa, PIB_HCA_QPS_ERR);
    (void)pair.a.transport.run();
    CHECK(pair.a.poll_all(qa).size() == 2);
    pair.a.post(qa, {});
    (void)pair.a.transport.run();
    CHECK(pair.a.poll_all(qa).size() == 1);
    (void)pair.a.transport.verbs().destroy(qa.qpn);
    pair.a.port.capacity = 64;
    pair.settle();
}

TEST_CASE("a QP that waited for a port waits for its new one after Reset") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    pair.a.port.capacity = 0;
    pair.a.post(qa, {});
    (void)pair.a.transport.run();
    to_state(pair.a, qa, PIB_HCA_QPS_RESET);
    pair.a.set_sq_producer(qa, 0);
    pair.connect(qa, pair.b.create());
    pair.a.post(qa, {.flags = PIB_HCA_WQE_SIGNALED});
    pair.a.port.capacity = 64;
    pair.a.transport.port_ready(1);
    (void)pair.a.transport.run();
    CHECK_FALSE(pair.a.port.sent.empty());
}

TEST_CASE("a QP sends its pending ACK before it is destroyed, reset or moved to Error") {
    enum class End : uint8_t { kDestroyed, kReset, kError };
    const End end = GENERATE(End::kDestroyed, End::kReset, End::kError);
    Pair pair;
    auto [qa, qb] = pair.rc_pair({.timeout = 0});
    pair.b.post_recv(qb, {});
    pair.a.post(qa, {});
    const auto bytes = pair.a.port.sent.at(0);
    pair.a.port.sent.clear();
    pair.give(pair.b, ib::Burst(ib::PacketView::parse(bytes, ib::Crcs::kElided).value()));
    REQUIRE(pair.b.poll_all(qb).size() == 1);  // a program may end as soon as it sees the CQE
    REQUIRE(pair.b.port.sent.empty());
    if (end == End::kDestroyed) {
        (void)pair.b.transport.verbs().destroy(qb.qpn);
    } else {
        to_state(pair.b, qb, end == End::kReset ? PIB_HCA_QPS_RESET : PIB_HCA_QPS_ERR);
    }
    pair.settle();
    const auto cqes = pair.a.poll_all(qa);
    REQUIRE(cqes.size() == 1);
    CHECK(cqes[0].status == PIB_HCA_WC_SUCCESS);
}

TEST_CASE("a QP that is destroyed before it has answered a READ acknowledges nothing") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair({.timeout = 0});
    const Buffer to = pair.a.make_buffer(4096);
    const Buffer from = pair.b.make_buffer(4096);
    pair.b.port.capacity = 0;  // the response cannot leave
    pair.a.post(qa, {.opcode = PIB_HCA_WQE_RDMA_READ,
                     .sges = {to.sge(0, 8)},
                     .remote_addr = from.addr,
                     .rkey = from.key});
    const auto bytes = pair.a.port.sent.at(0);
    pair.a.port.sent.clear();
    pair.give(pair.b, ib::Burst(ib::PacketView::parse(bytes, ib::Crcs::kElided).value()));
    (void)pair.b.transport.run();
    REQUIRE(pair.b.port.sent.empty());
    pair.b.port.capacity = 64;
    (void)pair.b.transport.verbs().destroy(qb.qpn);
    CHECK(pair.b.port.sent.empty());
}

TEST_CASE("Reset discards posted requests") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    pair.filter = [](const ib::PacketView&) { return false; };
    pair.a.post_recv(qa, {});
    pair.a.post(qa, {});
    pair.settle();
    to_state(pair.a, qa, PIB_HCA_QPS_RESET);
    pair.settle();
    CHECK(pair.a.transport.next_deadline() == kNever);
    CHECK(pair.a.poll_all(qa).empty());
    pair.a.set_sq_producer(qa, 0);
    pair.a.set_rq_producer(qa, 0);
    to_state(pair.b, qb, PIB_HCA_QPS_RESET);
    pair.b.set_sq_producer(qb, 0);
    pair.b.set_rq_producer(qb, 0);
    pair.filter = nullptr;
    pair.connect(qa, qb);
    pair.b.post_recv(qb, {});
    pair.a.post(qa, {});
    pair.settle();
    CHECK(pair.a.poll(qa)->status == PIB_HCA_WC_SUCCESS);
}

TEST_CASE("SQD delays new requests, reports the drain, and RTS continues") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    for (int i = 0; i < 3; ++i) {
        pair.b.post_recv(qb, {});
    }
    bool pass = false;
    pair.filter = [&](const ib::PacketView&) { return pass; };
    pair.a.post(qa, {});
    pair.settle();
    drain_with_event(pair.a, qa);
    CHECK(query_qp(pair.a, qa.qpn)->sq_draining == 1);
    pair.a.post(qa, {});
    pair.settle();
    CHECK_FALSE(pair.a.saw_event(PIB_HCA_EVENT_SQ_DRAINED, qa.qpn));
    pib_hca_modify_qp in{};
    in.attr_mask = PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_TIMEOUT;
    in.state = PIB_HCA_QPS_SQD;
    in.timeout = 12;
    CHECK(modify_qp(pair.a, qa.qpn, in) == CmdStatus::kBadState);
    pib_hca_modify_qp rights{};
    rights.attr_mask = PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_ACCESS_FLAGS;
    rights.state = PIB_HCA_QPS_SQD;
    CHECK(modify_qp(pair.a, qa.qpn, rights) == CmdStatus::kOk);

    pass = true;
    pair.step_clock();
    CHECK(pair.a.saw_event(PIB_HCA_EVENT_SQ_DRAINED, qa.qpn));
    CHECK(query_qp(pair.a, qa.qpn)->sq_draining == 0);
    CHECK(pair.a.poll_all(qa).size() == 1);
    CHECK(modify_qp(pair.a, qa.qpn, in) == CmdStatus::kOk);
    CHECK(query_qp(pair.a, qa.qpn)->timeout == 12);

    to_state(pair.a, qa, PIB_HCA_QPS_RTS);
    pair.settle();
    CHECK(pair.a.poll(qa)->status == PIB_HCA_WC_SUCCESS);
}

// IBA 11.2.4.2, table 91: these attributes change in SQD, but not while requests are under way.
TEST_CASE("a QP in SQD takes a path, retries and limits of READs only after the drain") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    pair.b.post_recv(qb, {});
    bool pass = false;
    pair.filter = [&](const ib::PacketView&) { return pass; };
    pair.a.post(qa, {});
    pair.settle();
    to_state(pair.a, qa, PIB_HCA_QPS_SQD);
    const auto modify = [&](uint32_t attribute) {
        pib_hca_modify_qp in{};
        in.attr_mask = PIB_HCA_QP_ATTR_STATE | attribute;
        in.state = PIB_HCA_QPS_SQD;
        in.port = 1;
        in.av = pair.a.av_to(pair.b);
        in.timeout = 12;
        in.retry_cnt = in.rnr_retry = 7;
        in.max_rd_atomic = in.max_dest_rd_atomic = 16;
        in.access_flags = Hca::kAllAccess;
        in.min_rnr_timer = 2;
        return modify_qp(pair.a, qa.qpn, in);
    };
    constexpr uint32_t kNeedDrained[] = {PIB_HCA_QP_ATTR_PORT,
                                         PIB_HCA_QP_ATTR_AV,
                                         PIB_HCA_QP_ATTR_PKEY_INDEX,
                                         PIB_HCA_QP_ATTR_TIMEOUT,
                                         PIB_HCA_QP_ATTR_RETRY_CNT,
                                         PIB_HCA_QP_ATTR_RNR_RETRY,
                                         PIB_HCA_QP_ATTR_MAX_QP_RD_ATOMIC,
                                         PIB_HCA_QP_ATTR_MAX_DEST_RD_ATOMIC};
    for (const uint32_t attribute : kNeedDrained) {
        CAPTURE(attribute);
        CHECK(modify(attribute) == CmdStatus::kBadState);
    }
    // Other attributes change at once, and the queue drains on.
    CHECK(modify(PIB_HCA_QP_ATTR_ACCESS_FLAGS) == CmdStatus::kOk);
    CHECK(modify(PIB_HCA_QP_ATTR_MIN_RNR_TIMER) == CmdStatus::kOk);
    CHECK(query_qp(pair.a, qa.qpn)->sq_draining == 1);
    CHECK(modify(PIB_HCA_QP_ATTR_AV) == CmdStatus::kBadState);

    pass = true;
    REQUIRE(pair.run_until([&] { return query_qp(pair.a, qa.qpn)->sq_draining == 0; }));
    for (const uint32_t attribute : kNeedDrained) {
        CAPTURE(attribute);
        CHECK(modify(attribute) == CmdStatus::kOk);
    }
}

TEST_CASE("a fenced request waits for READs and atomics before it") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    const Buffer local = pair.a.make_buffer(8192);
    const Buffer remote = pair.b.make_buffer(8192);
    const bool fence = GENERATE(false, true);
    const auto before = static_cast<uint8_t>(
        GENERATE(PIB_HCA_WQE_RDMA_READ, PIB_HCA_WQE_FETCH_ADD, PIB_HCA_WQE_CMP_SWAP));
    const auto after = static_cast<uint8_t>(GENERATE(PIB_HCA_WQE_SEND, PIB_HCA_WQE_RDMA_WRITE,
                                                     PIB_HCA_WQE_RDMA_READ, PIB_HCA_WQE_FETCH_ADD));
    pair.b.post_recv(qb, {remote.sge(0, 8)});
    pair.a.write_send(qa, {.opcode = before,
                           .sges = {local.sge(0, before == PIB_HCA_WQE_RDMA_READ ? 4000 : 8)},
                           .remote_addr = remote.addr,
                           .rkey = remote.key});
    pair.a.write_send(
        qa, {.opcode = after,
             .flags = static_cast<uint8_t>(PIB_HCA_WQE_SIGNALED | (fence ? PIB_HCA_WQE_FENCE : 0)),
             .sges = {local.sge(4096, 8)},
             .remote_addr = remote.addr + 4096,
             .rkey = remote.key});
    pair.a.ring(qa);
    CHECK(pair.a.port.sent.size() == (fence ? 1 : 2));
    pair.settle();
    CHECK(pair.a.poll_all(qa).size() == 2);
}

TEST_CASE("a CQ overrun moves only the QPs of that CQ to Error") {
    Pair pair;
    Qp qa = pair.a.create({.log_cq_depth = 1});
    Qp qb = pair.b.create();
    pair.connect(qa, qb);
    const Qp idle = pair.a.create({.cqn = qa.cqn});
    to_init(pair.a, idle, {});
    const Qp unused = pair.a.create({.cqn = qa.cqn});
    auto [other_a, other_b] = pair.rc_pair();
    for (int i = 0; i < 3; ++i) {
        pair.b.post_recv(qb, {});
        pair.a.post(qa, {});
    }
    pair.settle();
    CHECK(pair.a.saw_event(PIB_HCA_EVENT_CQ_ERROR, qa.cqn));
    CHECK(pair.a.state(qa) == PIB_HCA_QPS_ERR);
    CHECK(pair.a.saw_event(PIB_HCA_EVENT_QP_FATAL, qa.qpn));
    CHECK(pair.a.saw_event(PIB_HCA_EVENT_QP_FATAL, idle.qpn));
    CHECK(pair.a.state(idle) == PIB_HCA_QPS_ERR);
    CHECK(pair.a.state(unused) == PIB_HCA_QPS_RESET);
    const auto events = pair.a.events();
    CHECK(std::ranges::count(events, PIB_HCA_EVENT_QP_FATAL, &pib_hca_eqe::type) == 2);
    CHECK(pair.a.poll_all(qa).size() == 2);
    pair.b.post_recv(other_b, {});
    pair.a.post(other_a, {});
    pair.settle();
    CHECK(pair.a.poll(other_a)->status == PIB_HCA_WC_SUCCESS);
}

// Each overrun makes the device look at all QPs.
TEST_CASE("after a CQ overrun among many QPs a doorbell waits for the next turn") {
    Hca hca(1);
    const uint32_t shared = hca.make_cq(4).cqn;
    for (uint64_t looks = 0; looks < (64u << 10); looks += kLookCost) {
        (void)hca.create({.type = PIB_HCA_QP_UD, .cqn = shared});
    }
    std::vector<Qp> senders;
    for (int i = 0; i < 3; ++i) {
        senders.push_back(hca.create({.type = PIB_HCA_QP_UD, .log_cq_depth = 1}));
        start_datagram(hca, senders.back(), 1);
    }
    SendWr wr{.dest_qpn = 1, .qkey = 1};
    wr.av.dlid = 1;
    wr.av.port = 1;
    for (Qp& sender : senders) {
        for (int i = 0; i < 3; ++i) {
            hca.write_send(sender, wr);
        }
        hca.ring(sender);
    }
    const auto failed_now = [&] {
        const auto events = hca.events();
        return std::ranges::count(events, PIB_HCA_EVENT_CQ_ERROR, &pib_hca_eqe::type);
    };
    CHECK(failed_now() == 1);
    while (hca.transport.run()) {
    }
    CHECK(failed_now() == 2);
}

TEST_CASE("a CQ overrun by a received packet counts for the link's turn") {
    Pair pair;
    Qp qa = pair.a.create();
    Qp qb = pair.b.create({.log_cq_depth = 1});
    pair.connect(qa, qb);
    for (int i = 0; i < 100; ++i) {
        (void)pair.b.create({.type = PIB_HCA_QP_UD, .cqn = qb.cqn});
    }
    for (int i = 0; i < 3; ++i) {
        pair.b.post_recv(qb, {});
        pair.a.post(qa, {});
    }
    pair.settle();
    CHECK(pair.b.saw_event(PIB_HCA_EVENT_CQ_ERROR, qb.cqn));
    CHECK(pair.b.transport.take_copied() >= 100 * kLookCost);
}

TEST_CASE("the first request in RTR raises COMM_EST once") {
    Pair pair;
    const Qp qa = pair.a.create();
    Qp qb = pair.b.create();
    Qp sender = qa;
    to_init(pair.a, qa);
    to_init(pair.b, qb);
    to_rtr(pair.a, qa, pair.a.av_to(pair.b), qb.qpn);
    to_rtr(pair.b, qb, pair.b.av_to(pair.a), qa.qpn);
    to_rts(pair.a, qa);
    pair.b.post_recv(qb, {});
    pair.b.post_recv(qb, {});
    pair.a.post(sender, {});
    pair.a.post(sender, {});
    pair.settle();
    CHECK(pair.a.poll_all(qa).size() == 2);
    const auto events = pair.b.events();
    REQUIRE(events.size() == 1);
    CHECK(events[0].type == PIB_HCA_EVENT_COMM_ESTABLISHED);
    CHECK(events[0].number == qb.qpn);
    pair.b.post(qb, {});  // a QP in RTR does not send
    pair.settle();
    CHECK(pair.b.poll_all(qb).size() == 2);
}

TEST_CASE("a QP whose queue memory vanishes moves to Error") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    SECTION("send queue") {
        pair.a.write_send(qa, {});
        pair.a.host.make_hole(qa.addr, 4096);
        pair.a.ring(qa);
        CHECK(pair.a.saw_event(PIB_HCA_EVENT_QP_FATAL, qa.qpn));
    }
    SECTION("receive queue") {
        pair.b.post_recv(qb, {});
        pair.b.host.make_hole(qb.addr, 4096);
        pair.a.post(qa, {});
        pair.settle();
        CHECK(pair.b.saw_event(PIB_HCA_EVENT_QP_FATAL, qb.qpn));
        CHECK(pair.a.poll(qa)->status == PIB_HCA_WC_REM_OP_ERR);
    }
}

TEST_CASE("doorbells of another UAR or for no QP are ignored") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    pair.a.write_send(qa, {});
    CHECK_FALSE(pair.a.transport.send_doorbell(Hca::kUar + 1, qa.qpn));
    CHECK_FALSE(pair.a.transport.recv_doorbell(Hca::kUar + 1, qa.qpn));
    CHECK_FALSE(pair.a.transport.send_doorbell(Hca::kUar, qa.qpn + 1));
    CHECK_FALSE(pair.a.transport.send_doorbell(Hca::kUar, 0));
    CHECK_FALSE(pair.a.transport.send_doorbell(Hca::kUar, UINT32_MAX));
    pair.settle();
    CHECK(pair.packets == 0);
}

TEST_CASE("a destroyed QP has neither a timer nor a turn") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    pair.filter = [](const ib::PacketView&) { return false; };
    pair.a.post(qa, {});
    pair.settle();
    CHECK(pair.a.transport.next_deadline() != kNever);
    CHECK(pair.a.transport.verbs().destroy(qa.qpn) == CmdStatus::kOk);
    CHECK(pair.a.transport.next_deadline() == kNever);
    pair.settle();
    CHECK(pair.a.transport.verbs().count_if([](const QueuePair& qp) { return qp.pd == 1; }) == 0);
}

// The windows of all QPs share one budget. When it is used up, each QP sends few requests at once.
TEST_CASE("a QP that is destroyed or reset gives the memory of its send window back") {
    constexpr uint32_t kStride = 64;
    const bool destroyed = GENERATE(true, false);
    Hca hca(1);
    QpServices services({hca.host, hca.mpt, hca.cqs, hca.srqs, hca.eqs, hca.counters, hca.ports});
    McastTable mcast;
    QpVerbs verbs(services, mcast);
    QueuePair& qp = services.qps().insert({});
    qp.attr.port = 1;
    qp.state = QpState::kRts;
    while (!qp.window.reserve(kStride, services.snapshots()).empty()) {
        qp.window.push(0, {}).wqe = {};
    }
    REQUIRE(services.snapshots().left < SnapshotBudget::kBytes);
    QpAttributes reset{};
    reset.attr_mask = qp_attr::kState;
    reset.state = QpState::kReset;
    REQUIRE((destroyed ? verbs.destroy(qp.qpn) : verbs.modify(qp.qpn, reset)) == CmdStatus::kOk);
    CHECK(services.snapshots().left == SnapshotBudget::kBytes);
}

TEST_CASE("an event that waits for room is dropped with its QP") {
    constexpr uint32_t kAsyncEqn = 1;
    constexpr uint32_t kEvents = 4096;  // entries of the EQ
    const bool destroyed = GENERATE(true, false);
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    for (uint32_t i = 0; i < kEvents; ++i) {
        pair.a.eqs.async_event(Event::kCqError, 0x10000 + i);
    }
    REQUIRE(pair.a.transport.verbs().inject_event(Event::kSqDrained, qa.qpn) == CmdStatus::kOk);
    REQUIRE_FALSE(pair.a.saw_event(PIB_HCA_EVENT_SQ_DRAINED, qa.qpn));
    if (destroyed) {
        REQUIRE(pair.a.transport.verbs().destroy(qa.qpn) == CmdStatus::kOk);
    }
    REQUIRE(pair.a.eqs.doorbell(kAsyncEqn | uint64_t{kEvents} << PIB_HCA_DB_COUNTER_SHIFT));
    CHECK(pair.a.saw_event(PIB_HCA_EVENT_SQ_DRAINED, qa.qpn) == !destroyed);
}

TEST_CASE("a device reset discards all requests without completions") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    pair.filter = [](const ib::PacketView&) { return false; };
    pair.a.post(qa, {});
    pair.settle();
    pair.a.transport.reset();
    CHECK(pair.a.transport.next_deadline() == kNever);
    CHECK_FALSE(pair.a.transport.run());
    CHECK(pair.a.poll_all(qa).empty());
    CHECK_FALSE(query_qp(pair.a, qa.qpn));
}

TEST_CASE("a QP that leaves SQD early raises no SQ_DRAINED event") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    pair.b.post_recv(qb, {});
    bool pass = false;
    pair.filter = [&](const ib::PacketView&) { return pass; };
    pair.a.post(qa, {});
    pair.settle();
    drain_with_event(pair.a, qa);
    to_state(pair.a, qa, PIB_HCA_QPS_RTS);
    CHECK(query_qp(pair.a, qa.qpn)->sq_draining == 0);
    pass = true;
    pair.step_clock();
    CHECK(pair.a.poll(qa)->status == PIB_HCA_WC_SUCCESS);
    CHECK_FALSE(pair.a.saw_event(PIB_HCA_EVENT_SQ_DRAINED, qa.qpn));
    CHECK(query_qp(pair.a, qa.qpn)->sq_draining == 0);
}
