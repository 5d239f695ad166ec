// SPDX-License-Identifier: GPL-2.0-or-later
// Timeouts, retries and RNR: their number, and their times to the nanosecond of virtual time.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cstring>

#include "pair.h"

using namespace pib;
using namespace pib::hca;
using namespace pib::hca::test;

TEST_CASE("a request to a silent peer is sent retry_cnt times again, after T_tr each") {
    const auto retries = static_cast<uint8_t>(GENERATE(range(0, 8)));
    const uint8_t timeout = GENERATE(uint8_t{1}, uint8_t{14}, uint8_t{31});
    Pair pair;
    auto [qa, qb] = pair.rc_pair({.timeout = timeout, .retry_cnt = retries});
    pair.filter = [](const ib::PacketView&) { return false; };
    const uint64_t start = pair.now();
    pair.a.post(qa, {});
    const auto finished = [&] { return pair.a.state(qa) == PIB_HCA_QPS_ERR; };
    REQUIRE(pair.run_until(finished));
    const uint64_t t_tr = 4096ull << timeout;
    CHECK(pair.now() - start == (retries + 1) * (t_tr + std::min(3 * t_tr, uint64_t{200'000'000})));
    CHECK(pair.packets == retries + 1u);
    CHECK(pair.a.poll(qa)->status == PIB_HCA_WC_RETRY_EXC_ERR);
    CHECK(pair.a.counter(PIB_HCA_COUNTER_LOCAL_ACK_TIMEOUT_ERR) == retries + 1u);
    CHECK(pair.a.transport.next_deadline() == kNever);
}

TEST_CASE("timeout 0 never expires") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair({.timeout = 0});
    pair.filter = [](const ib::PacketView&) { return false; };
    pair.a.post(qa, {});
    pair.settle();
    CHECK(pair.a.transport.next_deadline() == kNever);
    CHECK_FALSE(pair.step_clock());
}

TEST_CASE("an ACK stops the timer") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    pair.b.post_recv(qb, {});
    pair.a.post(qa, {});
    CHECK(pair.a.transport.next_deadline() == pair.now() + 4 * (4096ull << 10));
    pair.settle();
    CHECK(pair.a.transport.next_deadline() == kNever);
}

TEST_CASE("progress restores all retries") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair({.retry_cnt = 1});
    const Buffer from = pair.a.make_buffer(65536);
    const Buffer to = pair.b.make_buffer(65536);
    // Each retry gets five packets further, so that each timeout follows some progress.
    uint32_t limit = 5;
    pair.filter = [&](const ib::PacketView& packet) {
        return packet.opcode().is_response() || packet.bth().psn.value() < limit;
    };
    pair.a.post(qa, {.opcode = PIB_HCA_WQE_RDMA_WRITE,
                     .sges = {from.sge(0, 20000)},
                     .remote_addr = to.addr,
                     .rkey = to.key});
    pair.settle();
    for (; limit < 20; limit += 5) {
        REQUIRE(pair.step_clock());
        CHECK(pair.a.state(qa) == PIB_HCA_QPS_RTS);
    }
    REQUIRE(pair.run_until([&] { return pair.a.transport.next_deadline() == kNever; }));
    CHECK(pair.a.poll(qa)->status == PIB_HCA_WC_SUCCESS);
    CHECK(pair.a.counter(PIB_HCA_COUNTER_LOCAL_ACK_TIMEOUT_ERR) >= 3);
}

TEST_CASE("progress restores all RNR retries") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair({.timeout = 0, .rnr_retry = 1});
    for (int i = 0; i < 3; ++i) {
        pair.a.post(qa, {});
        pair.settle();
        CHECK_FALSE(pair.a.poll(qa));
        pair.b.post_recv(qb, {});
        REQUIRE(pair.step_clock());
        CHECK(pair.a.poll(qa)->status == PIB_HCA_WC_SUCCESS);
    }
    CHECK(pair.b.counter(PIB_HCA_COUNTER_RNR_NAK_SENT) == 3);
}

// IBA 9.7.6.1.3: the timer measures the time without progress.
TEST_CASE("an ACK restarts the timer, and a new request does not") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    unsigned sent = 0;
    pair.filter = [&](const ib::PacketView&) { return ++sent == 0; };
    const SendWr write{.opcode = PIB_HCA_WQE_RDMA_WRITE};  // needs no end-to-end credit
    const uint64_t timeout = 4 * (4096ull << 10);
    pair.a.post(qa, write);
    pair.settle();
    const uint64_t first = pair.a.transport.next_deadline();
    CHECK(first == pair.now() + timeout);
    pair.a.host.clock_ns += timeout / 4;
    pair.a.post(qa, write);
    pair.settle();
    CHECK(sent == 2);
    CHECK(pair.a.transport.next_deadline() == first);
    pair.a.host.clock_ns += timeout / 4;
    ib::PacketHeaders ack;
    ack.lrh.dlid = ib::Lid(1);
    ack.lrh.slid = ib::Lid(2);
    ack.bth.pkey = ib::kDefaultPKey;
    ack.bth.dest_qp = ib::Qpn(qa.qpn);
    ack.bth.opcode = ib::opcode::kAcknowledge;
    ack.aeth.syndrome = 0x1f;
    pair.inject(pair.a, ack);
    CHECK(pair.a.poll_all(qa).size() == 1);
    CHECK(pair.a.transport.next_deadline() == pair.now() + timeout);
}

TEST_CASE("an RNR NAK is retried rnr_retry times after the responder's timer, with 7 without end") {
    const auto retries = static_cast<uint8_t>(GENERATE(0, 1, 3, 6, 7));
    const auto timer = static_cast<uint8_t>(GENERATE(1, 12, 31, 0));
    Pair pair;
    auto [qa, qb] =
        pair.rc_pair({.timeout = 0, .retry_cnt = 0, .rnr_retry = retries, .min_rnr_timer = timer});
    const uint64_t start = pair.now();
    pair.a.post(qa, {});
    pair.settle();
    unsigned waits = 0;
    while (pair.a.state(qa) == PIB_HCA_QPS_RTS && waits < 100) {
        REQUIRE(pair.step_clock());
        ++waits;
        CHECK(pair.now() - start == waits * ib::rnr_timer_ns(timer));
    }
    if (retries == 7) {
        CHECK(waits == 100);
        pair.b.post_recv(qb, {});
        pair.step_clock();
        CHECK(pair.a.poll(qa)->status == PIB_HCA_WC_SUCCESS);
        return;
    }
    CHECK(waits == retries);
    CHECK(pair.a.poll(qa)->status == PIB_HCA_WC_RNR_RETRY_EXC_ERR);
    CHECK(pair.a.counter(PIB_HCA_COUNTER_RNR_NAK_RETRY_ERR) == 1);
    CHECK(pair.b.counter(PIB_HCA_COUNTER_RNR_NAK_SENT) == retries + 1u);
    CHECK(pair.b.counter(PIB_HCA_COUNTER_OUT_OF_BUFFER) == retries + 1u);
    CHECK(pair.b.state(qb) == PIB_HCA_QPS_RTS);
}

// The wire has duplicated the first packet, and the copy arrives after a receive was posted.
TEST_CASE("an ACK while the RNR timer runs lets the next request go on") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair({.timeout = 0, .min_rnr_timer = 1});
    std::vector<uint8_t> copy;
    pair.tap = [&](const ib::PacketView& packet) {
        if (copy.empty()) {
            copy.resize(packet.bytes().size());
            packet.bytes().copy_to(copy);
        }
    };
    pair.a.post(qa, {});
    pair.a.post(qa, {.opcode = PIB_HCA_WQE_SEND_WITH_IMM, .imm = 7});
    pair.settle();
    REQUIRE(pair.b.counter(PIB_HCA_COUNTER_RNR_NAK_SENT) == 1);
    pair.b.post_recv(qb, {});
    pair.b.post_recv(qb, {});
    Pair::give(pair.b, ib::Burst(ib::PacketView::parse(copy, ib::Crcs::kElided).value()));
    pair.run_until([] { return false; }, 10);
    for (uint32_t i = 0; i < 2; ++i) {
        const auto sent = pair.a.poll(qa);
        REQUIRE(sent);
        CHECK(sent->status == PIB_HCA_WC_SUCCESS);
        const auto received = pair.b.poll(qb);
        REQUIRE(received);
        CHECK(received->status == PIB_HCA_WC_SUCCESS);
        CHECK((received->flags & PIB_HCA_CQE_FLAG_IMM) == (i == 1 ? PIB_HCA_CQE_FLAG_IMM : 0));
    }
}

TEST_CASE("an ACK while the RNR timer runs repeats what the responder has dropped") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair({.timeout = 0, .min_rnr_timer = 1});
    std::vector<uint8_t> first;
    pair.tap = [&](const ib::PacketView& packet) {
        if (first.empty()) {
            first.resize(packet.bytes().size());
            packet.bytes().copy_to(first);
        }
    };
    pair.a.post(qa, {});
    pair.a.post(qa, {.opcode = PIB_HCA_WQE_RDMA_WRITE});  // needs no credit, so it follows at once
    pair.settle();
    REQUIRE(pair.b.counter(PIB_HCA_COUNTER_RNR_NAK_SENT) == 1);
    pair.b.post_recv(qb, {});
    Pair::give(pair.b, ib::Burst(ib::PacketView::parse(first, ib::Crcs::kElided).value()));
    pair.run_until([] { return false; }, 10);
    CHECK(pair.a.poll_all(qa).size() == 2);
}

TEST_CASE("WRITE with immediate data gets an RNR NAK at its last packet only") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    const Buffer from = pair.a.make_buffer(8192);
    const Buffer to = pair.b.make_buffer(8192);
    pair.a.host.poke<uint64_t>(from.addr + 5000, 0x1122334455667788);
    pair.a.post(qa, {.opcode = PIB_HCA_WQE_RDMA_WRITE_WITH_IMM,
                     .sges = {from.sge(0, 6000)},
                     .remote_addr = to.addr,
                     .rkey = to.key});
    pair.settle();
    CHECK(pair.b.counter(PIB_HCA_COUNTER_RNR_NAK_SENT) == 1);
    const uint64_t before = pair.packets;
    pair.b.post_recv(qb, {});
    pair.step_clock();
    CHECK(pair.packets - before == 2);  // one packet and its ACK
    CHECK(pair.b.poll(qb)->byte_count == 6000);
    CHECK(pair.b.host.peek<uint64_t>(to.addr + 5000) == 0x1122334455667788);
}

TEST_CASE("a NAK repeats a lost request without a timeout") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    const Buffer from = pair.a.make_buffer(8192);
    const Buffer to = pair.b.make_buffer(8192);
    bool lost = false;
    pair.filter = [&](const ib::PacketView& packet) {
        return packet.bth().psn.value() != 2 || packet.opcode().is_response() ||
               std::exchange(lost, true);
    };
    const uint64_t start = pair.now();
    pair.a.post(qa, {.opcode = PIB_HCA_WQE_RDMA_WRITE,
                     .sges = {from.sge(0, 8000)},
                     .remote_addr = to.addr,
                     .rkey = to.key});
    pair.settle();
    CHECK(pair.now() == start);
    CHECK(pair.a.poll(qa)->status == PIB_HCA_WC_SUCCESS);
    CHECK(pair.a.counter(PIB_HCA_COUNTER_PACKET_SEQ_ERR) == 1);
    CHECK(pair.b.counter(PIB_HCA_COUNTER_OUT_OF_SEQUENCE) == 5);
}

// After the RNR timer the request is sent once more. A NAK that follows says that this packet is
// lost, too, and nothing else says so if there is no timeout.
TEST_CASE("a NAK of a request that an RNR NAK has delayed repeats the request") {
    constexpr uint8_t kNak = 0x60;  // PSN sequence error
    constexpr uint8_t kRnrNak = 0x21;
    Pair pair;
    auto [qa, qb] = pair.rc_pair({.timeout = 0});
    unsigned sent = 0;
    pair.filter = [&](const ib::PacketView&) { return ++sent == 0; };
    const auto answer = [&](uint8_t syndrome) {
        ib::PacketHeaders headers;
        headers.lrh.dlid = ib::Lid(1);
        headers.lrh.slid = ib::Lid(2);
        headers.bth.pkey = ib::kDefaultPKey;
        headers.bth.dest_qp = ib::Qpn(qa.qpn);
        headers.bth.opcode = ib::opcode::kAcknowledge;
        headers.aeth.syndrome = syndrome;
        pair.inject(pair.a, headers);
    };
    pair.a.post(qa, {});
    pair.settle();
    REQUIRE(sent == 1);
    answer(kNak);
    REQUIRE(sent == 2);
    answer(kRnrNak);
    REQUIRE(sent == 2);
    REQUIRE(pair.step_clock());
    REQUIRE(sent == 3);
    answer(kNak);
    CHECK(sent == 4);
    answer(kNak);
    CHECK(sent == 4);
}

TEST_CASE("a lost READ response is an implied NAK, and only the rest is requested again") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    const Buffer to = pair.a.make_buffer(16384);
    const Buffer from = pair.b.make_buffer(16384);
    for (uint32_t i = 0; i < 16384; ++i) {
        pair.b.host.poke<uint8_t>(from.addr + i, static_cast<uint8_t>(i >> 4));
    }
    bool lost = false;
    std::vector<uint32_t> asked;
    pair.tap = [&](const ib::PacketView& packet) {
        if (const auto reth = packet.reth()) {
            asked.push_back(reth->dma_len);
        }
    };
    pair.filter = [&](const ib::PacketView& packet) {
        return packet.bth().psn.value() != 5 || packet.opcode().is_request() ||
               std::exchange(lost, true);
    };
    const uint64_t start = pair.now();
    pair.a.post(qa, {.opcode = PIB_HCA_WQE_RDMA_READ,
                     .sges = {to.sge(0, 16000)},
                     .remote_addr = from.addr,
                     .rkey = from.key});
    pair.settle();
    CHECK(pair.now() == start);
    CHECK(asked == std::vector<uint32_t>{16000, 16000 - 5 * 1024});
    CHECK(pair.a.poll(qa)->status == PIB_HCA_WC_SUCCESS);
    CHECK(pair.a.counter(PIB_HCA_COUNTER_IMPLIED_NAK_SEQ_ERR) == 1);
    std::vector<uint8_t> seen(16000), right(16000);
    pair.a.host.peek_bytes(to.addr, seen);
    pair.b.host.peek_bytes(from.addr, right);
    CHECK(seen == right);
}

TEST_CASE("an atomic whose ACK is lost executes once") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    const Buffer result = pair.a.make_buffer(4096);
    const Buffer word = pair.b.make_buffer(4096);
    unsigned lost = 0;
    pair.filter = [&](const ib::PacketView& packet) {
        return packet.opcode().is_request() || ++lost > 3;
    };
    pair.b.host.poke<uint64_t>(word.addr, 100);
    pair.a.post(qa, {.opcode = PIB_HCA_WQE_FETCH_ADD,
                     .sges = {result.sge(0, 8)},
                     .remote_addr = word.addr,
                     .rkey = word.key,
                     .swap_or_add = 1});
    REQUIRE(pair.run_until([&] { return pair.a.transport.next_deadline() == kNever; }));
    CHECK(pair.a.poll(qa)->status == PIB_HCA_WC_SUCCESS);
    CHECK(pair.a.host.peek<uint64_t>(result.addr) == 100);
    CHECK(pair.b.host.peek<uint64_t>(word.addr) == 101);
    CHECK(pair.b.counter(PIB_HCA_COUNTER_DUPLICATE_REQUEST) == 3);
}

TEST_CASE("a connection survives a short loss of its port") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair();
    pair.b.post_recv(qb, {});
    pair.a.port.active = false;
    pair.a.post(qa, {});
    pair.step_clock();
    pair.step_clock();
    pair.a.port.active = true;
    REQUIRE(pair.run_until([&] { return pair.a.transport.next_deadline() == kNever; }));
    CHECK(pair.a.poll(qa)->status == PIB_HCA_WC_SUCCESS);
}

namespace {

constexpr uint64_t kHuge = 1ull << 31;

// A buffer of 2 GiB. All its pages are the same page of RAM, so it needs little memory.
Buffer make_huge_buffer(Hca& hca) {
    const uint64_t page = hca.host.alloc(4096);
    const uint64_t list = hca.host.alloc(4096);
    for (uint64_t i = 0; i < 512; ++i) {
        hca.host.poke<uint64_t>(list + 8 * i, page);
    }
    std::vector<uint64_t> lists((kHuge >> 12) / 512, list);
    const uint64_t top = hca.host.alloc(lists.size() * 8);
    hca.host.poke_bytes(top, {reinterpret_cast<const uint8_t*>(lists.data()), 8 * lists.size()});
    const uint64_t root = hca.host.alloc(4096);
    for (uint64_t i = 0; i < lists.size() / 512; ++i) {
        hca.host.poke<uint64_t>(root + 8 * i, top + 4096 * i);
    }
    Registration in{};
    in.pd = 1;
    in.access = Hca::kAllAccess;
    in.length = kHuge;
    in.pages = {.root = root,
                .page_count = static_cast<uint32_t>(kHuge >> 12),
                .levels = 3,
                .log_page_size = 12};
    return Buffer{.addr = 0, .bytes = kHuge, .key = hca.mpt.create(in).value()};
}

}  // namespace

TEST_CASE("a message of 2^31 bytes has 2^19 packets or more") {
    Pair pair;
    auto [qa, qb] = pair.rc_pair({.path_mtu = 5});
    const Buffer from = make_huge_buffer(pair.a);
    const Buffer to = make_huge_buffer(pair.b);
    const auto opcode = GENERATE(PIB_HCA_WQE_RDMA_WRITE, PIB_HCA_WQE_RDMA_READ);
    pair.a.post(qa, {.opcode = static_cast<uint8_t>(opcode),
                     .sges = {from.sge(0, 0x7fffffff), from.sge(0, 1)},
                     .remote_addr = to.addr,
                     .rkey = to.key});
    pair.settle();
    CHECK(pair.a.poll(qa)->status == PIB_HCA_WC_SUCCESS);
    CHECK(pair.packets > 1u << 19);
}

// IBA 9.7.1: more PSNs at once could not be told from those of earlier packets.
TEST_CASE("READs with more than 2^23 responses together are not outstanding at once") {
    const bool fit = GENERATE(true, false);
    Pair pair;
    auto [qa, qb] = pair.rc_pair({.path_mtu = 1});
    const Buffer to = make_huge_buffer(pair.a);
    constexpr uint32_t kMtu = 256;
    unsigned asked = 0;
    pair.filter = [&](const ib::PacketView& packet) {
        asked += packet.opcode().kind == ib::OpKind::kRdmaReadRequest ? 1 : 0;
        return false;
    };
    const auto most = static_cast<uint32_t>(kHuge - kMtu);
    pair.a.write_send(qa, {.opcode = PIB_HCA_WQE_RDMA_READ, .sges = {to.sge(0, most)}});
    pair.a.write_send(
        qa, {.opcode = PIB_HCA_WQE_RDMA_READ, .sges = {to.sge(0, fit ? kMtu : kMtu + 1)}});
    pair.a.ring(qa);
    pair.settle();
    CHECK(asked == (fit ? 2 : 1));
}

// Two READs of 2^23 responses each pass all PSNs. A duplicate of each asks for the last response
// only, so that the responder does not send all others.
TEST_CASE("a duplicate is answered from the newest request with its PSN") {
    const bool atomic = GENERATE(true, false);
    Pair pair;
    auto [qa, qb] = pair.rc_pair({.path_mtu = 1});
    const Buffer huge = make_huge_buffer(pair.b);
    const Buffer words = pair.b.make_buffer(4096);
    std::vector<uint64_t> answers;
    pair.tap = [&](const ib::PacketView& packet) {
        if (packet.atomic_ack_eth()) {
            answers.push_back(packet.atomic_ack_eth()->original_data);
        } else if (packet.payload().size() == 8) {
            std::memcpy(&answers.emplace_back(), packet.payload().data(), 8);
        }
    };
    const auto give = [&](uint8_t opcode, uint32_t psn, const Buffer& from, uint64_t offset,
                          uint32_t bytes) {
        ib::PacketHeaders headers;
        headers.lrh.dlid = ib::Lid(2);
        headers.lrh.slid = ib::Lid(1);
        headers.bth.opcode = opcode;
        headers.bth.pkey = ib::kDefaultPKey;
        headers.bth.dest_qp = ib::Qpn(qb.qpn);
        headers.bth.psn = ib::Psn(psn);
        headers.reth = {.va = from.addr + offset, .rkey = ib::RKey(from.key), .dma_len = bytes};
        headers.atomic_eth = {
            .va = from.addr, .rkey = ib::RKey(from.key), .swap_or_add = 1, .compare = 0};
        std::vector<uint8_t> packet(ib::kMaxPacket);
        auto builder = ib::PacketBuilder::begin(packet, headers, 0, ib::Crcs::kElided).value();
        const auto view = ib::PacketView::parse(builder.finish(), ib::Crcs::kElided).value();
        CHECK(Pair::give(pair.b, ib::Burst(view)) == 1);
    };
    const auto first = [&](uint64_t offset) {
        const uint8_t opcode = atomic ? ib::opcode::kFetchAdd : ib::opcode::kRdmaReadRequest;
        give(opcode, 0, words, offset, 8);
        pair.settle();
    };
    constexpr uint32_t kMtu = 256;
    const auto pass = [&](uint32_t psn, uint32_t packets) {
        give(ib::opcode::kRdmaReadRequest, psn, huge, 0, packets * kMtu);
        const uint32_t last = packets - 1;
        give(ib::opcode::kRdmaReadRequest, psn + last, huge, uint64_t{last} * kMtu, kMtu);
        pair.settle();
    };
    pair.b.host.poke<uint64_t>(words.addr, 70);
    pair.b.host.poke<uint64_t>(words.addr + 8, 71);
    first(0);
    pass(1, 1u << 23);
    pass((1u << 23) + 1, (1u << 23) - 1);
    first(8);
    first(8);
    CHECK(answers == std::vector<uint64_t>{70, 71, 71});
    CHECK(pair.b.state(qb) == PIB_HCA_QPS_RTS);
}

namespace {

// A QP that waits for an answer, whose CQ has no room for the completion.
struct Stuck {
    Qp qp;
    Qp other;  // sends to the same CQ, and waits for nothing
};

Stuck make_stuck(Pair& pair) {
    Stuck stuck;
    stuck.qp = pair.a.create({.log_depth = 1, .log_cq_depth = 0});
    stuck.other = pair.a.create({.type = PIB_HCA_QP_UD, .log_depth = 0, .cqn = stuck.qp.cqn});
    start_datagram(pair.a, stuck.other, 0x1111);
    const RcAttributes attr{.timeout = 10, .retry_cnt = 0};
    to_init(pair.a, stuck.qp, attr);
    to_rtr(pair.a, stuck.qp, pair.a.av_to(pair.b), 0x123, attr);
    to_rts(pair.a, stuck.qp, attr);
    REQUIRE(pair.a.cqs.post(stuck.qp.cqn, {.qpn = stuck.qp.qpn}, false));
    pair.a.post(stuck.qp, {});
    return stuck;
}

}  // namespace

TEST_CASE("one search finds the QPs of all CQs that expired timers overrun") {
    constexpr size_t kQps = 8;
    Pair pair;
    std::vector<Stuck> all;
    for (size_t i = 0; i < kQps; ++i) {
        all.push_back(make_stuck(pair));
    }
    pair.a.port.sent.clear();
    (void)pair.a.events();
    pair.a.host.clock_ns += 10'000'000'000;
    (void)pair.a.transport.timer(pair.now());
    const auto events = pair.a.events();
    REQUIRE(events.size() == 3 * kQps);
    // The events of the other QPs come last, because one search finds all of them.
    for (size_t i = 0; i < events.size(); ++i) {
        const bool found_in_search = std::ranges::any_of(all, [&](const Stuck& stuck) {
            return events[i].type == PIB_HCA_EVENT_QP_FATAL && events[i].number == stuck.other.qpn;
        });
        CHECK(found_in_search == (i >= 2 * kQps));
    }
    for (const Stuck& stuck : all) {
        CHECK(pair.a.state(stuck.qp) == PIB_HCA_QPS_ERR);
        CHECK(pair.a.state(stuck.other) == PIB_HCA_QPS_ERR);
    }
}

TEST_CASE("a call handles a bounded number of expired timers, and later calls the rest") {
    constexpr unsigned kQps = 3000;
    constexpr unsigned kMost = 1024;
    Pair pair;
    pair.a.port.capacity = SIZE_MAX;
    const uint32_t cqn = pair.a.make_cq(13).cqn;
    const RcAttributes attr{.timeout = 10, .retry_cnt = 0};
    for (unsigned i = 0; i < kQps; ++i) {
        Qp qp = pair.a.create({.log_depth = 0, .cqn = cqn});
        to_init(pair.a, qp, attr);
        to_rtr(pair.a, qp, pair.a.av_to(pair.b), 0x123, attr);
        to_rts(pair.a, qp, attr);
        pair.a.post(qp, {});
    }
    pair.a.port.sent.clear();
    pair.a.host.clock_ns += 10'000'000'000;
    uint64_t before = 0;
    for (uint64_t next = 0; next <= pair.now();) {
        next = pair.a.transport.timer(pair.now());
        const uint64_t handled = pair.a.counter(PIB_HCA_COUNTER_LOCAL_ACK_TIMEOUT_ERR);
        CHECK(handled > before);
        CHECK(handled - before <= kMost);
        before = handled;
    }
    CHECK(before == kQps);
    CHECK(pair.a.transport.next_deadline() == kNever);
}
