// SPDX-License-Identifier: GPL-2.0-or-later
// Shared receive queues: which QP takes which WQE, limit and last-WQE events, errors, resizing.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "pair.h"
#include "queues/posted_receives.h"

using namespace pib;
using namespace pib::hca;
using namespace pib::hca::test;

namespace {

// Two connections whose ends at `b` receive from one SRQ.
struct Shared {
    explicit Shared(uint8_t log_depth = 4, const RcAttributes& attr = {}) {
        srq = pair.b.make_srq(log_depth);
        for (auto* connection : {&first, &second}) {
            connection->a = pair.a.create();
            connection->b = pair.b.create({.srq = srq.srqn});
            pair.connect(connection->a, connection->b, attr);
        }
        from = pair.a.make_buffer(65536);
        to = pair.b.make_buffer(65536);
    }

    void receive(uint32_t id, uint32_t length = 1024) {
        pair.b.post_srq(srq, id, {to.sge(id * 1024, length)});
    }
    void send(Pair::Connection& connection, uint32_t length) {
        pair.a.post(connection.a, {.sges = {from.sge(0, length)}});
    }
    uint32_t waiting() { return pair.b.srqs.query(srq.srqn)->waiting; }

    Pair pair;
    Srq srq;
    Pair::Connection first;
    Pair::Connection second;
    Buffer from;
    Buffer to;
};

}  // namespace

TEST_CASE("posted_receives() lists the WQEs that wait in an SRQ, with their ids") {
    Shared t;
    const auto look = [&] {
        const SharedReceiveQueue& srq = *t.pair.b.srqs.find(t.srq.srqn);
        return posted_receives(t.pair.b.host, srq.buffer, srq.queue, ReceiveRing::kShared, 2);
    };
    CHECK(look()->count == 0);
    for (uint32_t id = 10; id < 14; ++id) {
        t.receive(id, 100 + id);
    }
    t.send(t.first, 4);
    t.pair.settle();
    const auto found = look();
    REQUIRE(found);
    CHECK(found->count == 3);
    REQUIRE(found->entries.size() == 2);
    CHECK(found->entries[0].counter == 11);
    CHECK(found->entries[0].bytes == 111);
    CHECK(found->entries[1].counter == 12);
    t.pair.b.host.make_hole(t.srq.addr, 1);
    CHECK_FALSE(look());
}

TEST_CASE("QPs take the WQEs of their SRQ in the order of their messages") {
    Shared t;
    for (uint32_t id = 10; id < 14; ++id) {
        t.receive(id);
    }
    t.pair.a.host.poke<uint32_t>(t.from.addr, 0xfeedf00d);
    for (auto* connection : {&t.second, &t.first, &t.first, &t.second}) {
        t.send(*connection, 4);
        t.pair.settle();
    }
    const auto second = t.pair.b.poll_all(t.second.b);
    const auto first = t.pair.b.poll_all(t.first.b);
    REQUIRE(first.size() == 2);
    REQUIRE(second.size() == 2);
    CHECK(second[0].wqe_counter == 10);
    CHECK(first[0].wqe_counter == 11);
    CHECK(first[1].wqe_counter == 12);
    CHECK(second[1].wqe_counter == 13);
    for (const auto& cqe : first) {
        CHECK(cqe.status == PIB_HCA_WC_SUCCESS);
        CHECK(cqe.qpn == t.first.b.qpn);
        CHECK(cqe.srqn == t.srq.srqn);
        CHECK((cqe.flags & PIB_HCA_CQE_FLAG_SRQ) != 0);
        CHECK(t.pair.b.host.peek<uint32_t>(t.to.addr + cqe.wqe_counter * 1024ull) == 0xfeedf00d);
    }
    CHECK(t.waiting() == 0);
}

TEST_CASE("an unfinished message keeps its WQE while others overtake it") {
    Shared t(1);
    t.receive(0, 4096);
    t.receive(1);
    // The first packet passes, the rest waits for the retry.
    unsigned passed = 0;
    t.pair.filter = [&](const ib::PacketView& packet) {
        return packet.bth().dest_qp.value() != t.first.b.qpn || ++passed == 1;
    };
    t.send(t.first, 3000);
    t.pair.settle();
    for (uint32_t id = 2; id < 12; ++id) {  // ten WQEs pass through a ring of two
        t.send(t.second, 100);
        t.pair.settle();
        const auto cqe = t.pair.b.poll(t.second.b);
        REQUIRE(cqe);
        CHECK(cqe->wqe_counter == id - 1);
        t.receive(id);
    }
    t.pair.filter = nullptr;
    REQUIRE(t.pair.run_until([&] { return t.pair.a.transport.next_deadline() == kNever; }));
    const auto cqe = t.pair.b.poll(t.first.b);
    REQUIRE(cqe);
    CHECK(cqe->wqe_counter == 0);
    CHECK(cqe->byte_count == 3000);
    CHECK(t.waiting() == 1);
}

TEST_CASE("an empty SRQ gives RNR NAKs until a WQE is posted") {
    Shared t;
    t.send(t.first, 8);
    t.pair.settle();
    CHECK(t.pair.b.counter(PIB_HCA_COUNTER_RNR_NAK_SENT) == 1);
    t.receive(5);
    REQUIRE(t.pair.run_until([&] { return t.pair.a.transport.next_deadline() == kNever; }));
    CHECK(t.pair.a.poll(t.first.a)->status == PIB_HCA_WC_SUCCESS);
    CHECK(t.pair.b.poll(t.first.b)->wqe_counter == 5);
}

TEST_CASE("the limit event is raised once, when fewer WQEs are posted than the limit") {
    Shared t;
    for (uint32_t id = 0; id < 4; ++id) {
        t.receive(id);
    }
    REQUIRE(t.pair.b.set_limit(t.srq, 3) == CmdStatus::kOk);
    t.send(t.first, 1);
    t.pair.settle();
    CHECK_FALSE(t.pair.b.saw_event(PIB_HCA_EVENT_SRQ_LIMIT_REACHED, t.srq.srqn));
    CHECK(t.pair.b.srqs.query(t.srq.srqn)->limit == 3);
    t.send(t.second, 1);
    t.pair.settle();
    CHECK(t.pair.b.saw_event(PIB_HCA_EVENT_SRQ_LIMIT_REACHED, t.srq.srqn));
    CHECK(t.pair.b.srqs.query(t.srq.srqn)->limit == 0);
    (void)t.pair.b.events();
    t.send(t.first, 1);
    t.pair.settle();
    CHECK_FALSE(t.pair.b.saw_event(PIB_HCA_EVENT_SRQ_LIMIT_REACHED, t.srq.srqn));
    // A limit that is already reached raises the event at once; a limit beyond the depth is
    // refused.
    REQUIRE(t.pair.b.set_limit(t.srq, 2) == CmdStatus::kOk);
    CHECK(t.pair.b.saw_event(PIB_HCA_EVENT_SRQ_LIMIT_REACHED, t.srq.srqn));
    CHECK(t.pair.b.set_limit(t.srq, 17) == CmdStatus::kBadParam);
}

TEST_CASE("WQEs posted since the last read of the producer count for the limit") {
    Shared t;
    t.receive(0);
    REQUIRE(t.pair.b.set_limit(t.srq, 1) == CmdStatus::kOk);
    t.receive(1);
    t.send(t.first, 1);
    t.pair.settle();
    CHECK_FALSE(t.pair.b.saw_event(PIB_HCA_EVENT_SRQ_LIMIT_REACHED, t.srq.srqn));
    CHECK(t.waiting() == 1);
}

TEST_CASE("a QP in Error flushes its current WQE, raises LAST_WQE_REACHED and leaves the others") {
    Shared t;
    t.receive(7, 4096);
    t.receive(8);
    const bool under_way = GENERATE(true, false);
    unsigned passed = 0;
    t.pair.filter = [&](const ib::PacketView&) { return ++passed == 1; };
    if (under_way) {
        t.send(t.first, 3000);
        t.pair.settle();
    }
    to_state(t.pair.b, t.first.b, PIB_HCA_QPS_ERR);
    t.pair.settle();
    const auto flushed = t.pair.b.poll_all(t.first.b);
    REQUIRE(flushed.size() == (under_way ? 1 : 0));
    if (under_way) {
        CHECK(flushed[0].status == PIB_HCA_WC_WR_FLUSH_ERR);
        CHECK(flushed[0].wqe_counter == 7);
        CHECK((flushed[0].flags & PIB_HCA_CQE_FLAG_SRQ) != 0);
    }
    const auto events = t.pair.b.events();
    CHECK(std::ranges::count_if(events, [&](const pib_hca_eqe& eqe) {
              return eqe.type == PIB_HCA_EVENT_LAST_WQE_REACHED && eqe.number == t.first.b.qpn;
          }) == 1);
    t.pair.filter = nullptr;
    t.send(t.second, 1);
    t.pair.settle();
    CHECK(t.pair.b.poll(t.second.b)->wqe_counter == (under_way ? 8 : 7));
}

TEST_CASE("a QP that was reset raises LAST_WQE_REACHED again") {
    Shared t;
    const auto reached = [&](const pib_hca_eqe& eqe) {
        return eqe.type == PIB_HCA_EVENT_LAST_WQE_REACHED && eqe.number == t.first.b.qpn;
    };
    for (int life = 0; life < 2; ++life) {
        to_state(t.pair.b, t.first.b, PIB_HCA_QPS_ERR);
        t.pair.settle();
        CHECK(std::ranges::count_if(t.pair.b.events(), reached) == 1);
        to_state(t.pair.b, t.first.b, PIB_HCA_QPS_RESET);
        to_init(t.pair.b, t.first.b);
    }
}

TEST_CASE("the keys of an SRQ's WQEs are checked in the SRQ's PD") {
    Pair pair;
    const Srq srq = pair.b.make_srq(4, 2);
    Srq posts = srq;
    const Qp qa = pair.a.create();
    const Qp qb = pair.b.create({.pd = 1, .srq = srq.srqn});
    pair.connect(qa, qb);
    Qp sender = qa;
    const Buffer from = pair.a.make_buffer(64);
    const uint32_t pd = GENERATE(1u, 2u);
    const Buffer to = pair.b.make_buffer(64, Hca::kAllAccess, pd);
    pair.b.post_srq(posts, 1, {to.all()});
    pair.a.post(sender, {.sges = {from.all()}});
    pair.settle();
    CHECK(pair.b.poll(qb)->status == (pd == 2 ? PIB_HCA_WC_SUCCESS : PIB_HCA_WC_LOC_PROT_ERR));
}

TEST_CASE("UD QPs share an SRQ, and a datagram that is too long takes no WQE") {
    Pair pair;
    Srq srq = pair.b.make_srq(4);
    Qp qa = pair.a.create({.type = PIB_HCA_QP_UD});
    const Qp qb = pair.b.create({.type = PIB_HCA_QP_UD, .srq = srq.srqn});
    start_datagram(pair.a, qa, 0x1234);
    start_datagram(pair.b, qb, 0x1234);
    const Buffer from = pair.a.make_buffer(4096);
    const Buffer to = pair.b.make_buffer(4096);
    pair.b.post_srq(srq, 3, {to.sge(0, 140)});
    SendWr wr{.sges = {from.sge(0, 101)}, .av = pair.a.av_to(pair.b), .dest_qpn = qb.qpn};
    wr.av.port = 1;
    wr.qkey = 0x1234;
    pair.a.post(qa, wr);
    pair.settle();
    CHECK_FALSE(pair.b.poll(qb));
    wr.sges = {from.sge(0, 100)};
    pair.a.post(qa, wr);
    pair.settle();
    const auto cqe = pair.b.poll(qb);
    REQUIRE(cqe);
    CHECK(cqe->wqe_counter == 3);
    CHECK(cqe->byte_count == 140);
}

TEST_CASE("an impossible producer moves the SRQ and the QPs that use it to Error") {
    Shared t(2);
    t.pair.b.host.poke<uint32_t>(t.srq.addr, 5);
    t.send(t.first, 1);
    t.pair.settle();
    CHECK(t.pair.b.saw_event(PIB_HCA_EVENT_SRQ_ERROR, t.srq.srqn));
    CHECK(t.pair.b.saw_event(PIB_HCA_EVENT_QP_FATAL, t.first.b.qpn));
    CHECK(t.pair.b.state(t.first.b) == PIB_HCA_QPS_ERR);
    CHECK(t.pair.b.state(t.second.b) == PIB_HCA_QPS_RTS);
    CHECK(t.pair.b.srqs.query(t.srq.srqn)->is_error == 1);
    CHECK(t.pair.b.resize_srq(t.srq, 3) == CmdStatus::kBadState);
}

TEST_CASE("a strict device names an SRQ whose ring is no longer RAM") {
    Pair pair;
    Hca& hca = pair.b;
    Strict strict(hca.host, false);
    strict.report_to(hca.refusals);
    SrqTable srqs(hca.host, hca.eqs, hca.cqs, 1, &strict);
    const uint64_t ring = hca.host.alloc(4096);
    pib_hca_create_srq in{};
    in.pages = contiguous(ring, 4096);
    in.pd = 1;
    in.offset = 64;
    in.log_depth = 3;
    in.log_stride = 5;
    const auto srqn = srqs.create(in);
    REQUIRE(srqn);
    hca.host.poke<uint32_t>(ring, 1);
    hca.host.make_hole(ring + 64, 1);
    std::vector<uint8_t> wqe;
    CHECK(srqs.peek(*srqn, wqe) == SrqTable::Take::kError);
    REQUIRE(hca.refusals.newest(0) != nullptr);
    CHECK(hca.refusals.newest(0)->verdict.rule == Rule::kMemoryLost);
}

TEST_CASE("a malformed WQE of an SRQ fails the QP that takes it") {
    Shared t;
    t.pair.b.post_srq(t.srq, 9, {});
    t.pair.b.host.poke<uint32_t>(t.srq.addr + 64, 33);  // num_sge
    t.send(t.first, 1);
    t.pair.settle();
    const auto cqe = t.pair.b.poll(t.first.b);
    REQUIRE(cqe);
    CHECK(cqe->status == PIB_HCA_WC_LOC_QP_OP_ERR);
    CHECK(cqe->wqe_counter == 9);
    CHECK(t.pair.a.poll(t.first.a)->status == PIB_HCA_WC_REM_OP_ERR);
    CHECK(t.pair.b.srqs.query(t.srq.srqn)->is_error == 0);
}

TEST_CASE("an SRQ in use is BUSY, and a resize keeps its WQEs") {
    Shared t(2);
    CHECK(t.pair.b.srqs.destroy(t.srq.srqn) == CmdStatus::kBusy);
    for (uint32_t id = 0; id < 6; ++id) {  // moves the counters away from the start of the ring
        t.receive(id);
        if (id < 3) {
            t.send(t.first, 1);
            t.pair.settle();
        }
    }
    CHECK(t.pair.b.resize_srq(t.srq, 1) == CmdStatus::kBusy);
    CHECK(t.pair.b.resize_srq(t.srq, 15) == CmdStatus::kBadParam);
    REQUIRE(t.pair.b.resize_srq(t.srq, 5) == CmdStatus::kOk);
    for (uint32_t id = 6; id < 30; ++id) {
        t.receive(id);
    }
    for (uint32_t id = 3; id < 30; ++id) {
        t.send(t.second, 1);
        t.pair.settle();
        CHECK(t.pair.b.poll(t.second.b)->wqe_counter == id);
    }
    CHECK(t.pair.b.transport.verbs().destroy(t.first.b.qpn) == CmdStatus::kOk);
    CHECK(t.pair.b.transport.verbs().destroy(t.second.b.qpn) == CmdStatus::kOk);
    CHECK(t.pair.b.srqs.destroy(t.srq.srqn) == CmdStatus::kOk);
    CHECK(t.pair.b.srqs.query(t.srq.srqn).error() == CmdStatus::kBadResource);
}

// All pages of a new ring are one page of RAM, which many entries of page lists name.
TEST_CASE("an SRQ that is resized often lists the pages of its newest ring only") {
    constexpr uint32_t kRingPages = 513;
    Hca hca(1);
    const Srq srq = hca.make_srq(4);
    pib_hca_modify_srq in{};
    in.attr_mask = PIB_HCA_SRQ_ATTR_MAX_WR;
    in.log_depth = kMaxWqLogDepth;
    in.pages = contiguous(hca.host.alloc(4096), uint64_t{kRingPages} * 4096);
    in.pages.levels = 2;
    const uint64_t leaf = hca.host.alloc(4096);
    const uint64_t page = hca.host.alloc(4096);
    for (uint64_t at = 0; at < 4096; at += 8) {
        hca.host.poke(in.pages.root + at, leaf);
        hca.host.poke(leaf + at, page);
    }
    for (uint64_t listed = 0; listed <= Limits::kSrqPages; listed += kRingPages) {
        REQUIRE(hca.srqs.modify(srq.srqn, in) == CmdStatus::kOk);
    }
}

TEST_CASE("a limit that comes with a resize must fit the new depth") {
    Hca hca(1);
    const Srq srq = hca.make_srq(3);
    const auto modify = [&](uint8_t log_depth, uint32_t limit) {
        const uint64_t bytes = 64 + (1ull << (log_depth + srq.log_stride));
        pib_hca_modify_srq in{};
        in.attr_mask = PIB_HCA_SRQ_ATTR_MAX_WR | PIB_HCA_SRQ_ATTR_LIMIT;
        in.pages = contiguous(hca.host.alloc(bytes), bytes);
        in.log_depth = log_depth;
        in.limit = limit;
        return hca.srqs.modify(srq.srqn, in);
    };
    CHECK(modify(4, 17) == CmdStatus::kBadParam);
    CHECK(modify(4, 16) == CmdStatus::kOk);
    CHECK(hca.srqs.query(srq.srqn)->log_depth == 4);
    CHECK(modify(3, 9) == CmdStatus::kBadParam);
    CHECK(hca.srqs.query(srq.srqn)->log_depth == 4);
    CHECK(modify(3, 8) == CmdStatus::kOk);
}
