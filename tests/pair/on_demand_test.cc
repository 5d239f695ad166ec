// SPDX-License-Identifier: GPL-2.0-or-later
// On-demand regions: an access to an absent page waits until the driver supplies the page and then
// succeeds, or until the driver refuses it and then fails.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <random>

#include "pair.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

constexpr uint32_t kPages = 8;
constexpr uint32_t kBytes = kPages * 4096;
constexpr uint64_t kIova = 0x7000'0000'0100;  // not at the beginning of a page
constexpr uint64_t kOffset = kIova % 4096;

// An on-demand region of one HCA, and the driver's handler of its page faults.
struct OnDemand {
    explicit OnDemand(Hca& on) : hca(on), table(on.host.alloc(4096)) {
        memory = hca.host.alloc(kBytes);
        Registration in{};
        in.pd = 1;
        in.access = Hca::kAllAccess;
        in.iova = kIova;
        in.length = kBytes - kOffset;
        in.page_offset = kOffset;
        in.pages = {.root = table, .page_count = 0, .levels = 1, .log_page_size = 12};
        in.flags = PIB_HCA_MR_ON_DEMAND;
        key = *hca.mpt.create(in);
    }
    void show(uint32_t page, bool writable) {
        const uint64_t bits = PIB_HCA_ON_DEMAND_READ | (writable ? PIB_HCA_ON_DEMAND_WRITE : 0);
        hca.host.poke<uint64_t>(table + 8 * page, bus_address(page) | bits);
    }
    // Adjacent pages of the region are not adjacent in memory.
    uint64_t bus_address(uint64_t page) const { return memory + 4096 * (kPages - 1 - page); }
    uint64_t bus_of(uint64_t at) const {
        return bus_address((kOffset + at) / 4096) + (kOffset + at) % 4096;
    }
    void hide(uint32_t page) { hca.host.poke<uint64_t>(table + 8 * page, 0); }
    void hide_all() {
        for (uint32_t page = 0; page < kPages; ++page) {
            hide(page);
        }
    }
    // Resolves all page faults, as the driver's fault handler does.
    void serve() {
        for (;;) {
            const pib_hca_page_fault fault = next_page_fault(hca);
            if (fault.length == 0) {
                return;
            }
            ++faults;
            REQUIRE(fault.key == key);
            REQUIRE(fault.addr >= kIova);
            REQUIRE(fault.addr + fault.length <= kIova + kBytes - kOffset);
            const uint64_t first = fault.addr - kIova + kOffset;
            for (uint64_t at = first / 4096; at <= (first + fault.length - 1) / 4096; ++at) {
                show(static_cast<uint32_t>(at), (fault.flags & PIB_HCA_PAGE_FAULT_WRITE) != 0);
            }
            const bool responder = (fault.flags & PIB_HCA_PAGE_FAULT_RESPONDER) != 0;
            const QpHalf half = responder ? QpHalf::kResponder : QpHalf::kRequester;
            CHECK(hca.transport.verbs().resume_page_fault(fault.qpn, half, refuse) ==
                  CmdStatus::kOk);
            if (refuse) {
                hide_all();
            }
        }
    }
    pib_hca_sge sge(uint32_t length) const {
        return {.addr = kIova, .length = length, .lkey = key};
    }
    uint8_t byte(uint64_t at) const { return hca.host.peek<uint8_t>(bus_of(at)); }
    void fill(uint32_t length, uint8_t seed) {
        for (uint32_t at = 0; at < length; ++at) {
            hca.host.poke<uint8_t>(bus_of(at), static_cast<uint8_t>(at * 7 + seed));
        }
    }

    Hca& hca;
    uint64_t table;
    uint64_t memory = 0;
    uint32_t key = 0;
    uint32_t faults = 0;
    bool refuse = false;
};

struct Paging : Pair {
    explicit Paging(const RcAttributes& attr = {}) : from(a), to(b) {
        auto connection = rc_pair(attr);
        qa = connection.a;
        qb = connection.b;
    }
    pib_hca_cqe result(const SendWr& wr) {
        a.post(qa, wr);
        return finish();
    }
    pib_hca_cqe finish() {
        // A loop instead of timers: a QP that waits for a page has no timer.
        for (int i = 0; i < 100000; ++i) {
            settle();
            if (const auto cqe = a.poll(qa)) {
                return *cqe;
            }
            // The clock moves only if there was no fault: a driver is faster than any timeout.
            const uint32_t faults = from.faults + to.faults;
            from.serve();
            to.serve();
            if (faults == from.faults + to.faults) {
                step_clock();
            }
        }
        FAIL("no completion");
        return {};
    }
    SendWr wr(uint8_t opcode, uint32_t length) const {
        return {.opcode = opcode, .sges = {from.sge(length)}, .remote_addr = kIova, .rkey = to.key};
    }

    OnDemand from, to;
    Qp qa, qb;
};

bool same(const OnDemand& x, const OnDemand& y, uint32_t length) {
    for (uint32_t at = 0; at < length; ++at) {
        if (x.byte(at) != y.byte(at)) {
            return false;
        }
    }
    return true;
}

}  // namespace

TEST_CASE("both sides fault in the absent pages of a message") {
    Paging p;
    const uint32_t length = GENERATE(1u, 5000u, kBytes - 256u);
    const uint8_t opcode = GENERATE(uint8_t{PIB_HCA_WQE_SEND}, uint8_t{PIB_HCA_WQE_RDMA_WRITE},
                                    uint8_t{PIB_HCA_WQE_RDMA_READ});
    p.from.fill(length, 3);
    p.to.fill(length, 90);
    if (opcode == PIB_HCA_WQE_SEND) {
        p.b.post_recv(p.qb, {p.to.sge(length)});
    }
    CHECK(p.result(p.wr(opcode, length)).status == PIB_HCA_WC_SUCCESS);
    CHECK(same(p.from, p.to, length));
    CHECK(p.from.byte(0) == (opcode == PIB_HCA_WQE_RDMA_READ ? 90 : 3));
    CHECK(p.from.faults > 0);
    CHECK(p.to.faults > 0);
    // The pages are present now, so the same operation raises no fault.
    const uint32_t faults = p.from.faults + p.to.faults;
    if (opcode == PIB_HCA_WQE_SEND) {
        p.b.post_recv(p.qb, {p.to.sge(length)});
    }
    CHECK(p.result(p.wr(opcode, length)).status == PIB_HCA_WC_SUCCESS);
    CHECK(p.from.faults + p.to.faults == faults);
}

TEST_CASE("an atomic executes once although its pages arrive late") {
    Paging p;
    p.to.hca.host.poke<uint64_t>(p.to.bus_of(0), 40);
    SendWr add = p.wr(PIB_HCA_WQE_FETCH_ADD, 8);
    add.swap_or_add = 2;
    CHECK(p.result(add).status == PIB_HCA_WC_SUCCESS);
    CHECK(p.to.hca.host.peek<uint64_t>(p.to.bus_of(0)) == 42);
    CHECK(p.from.hca.host.peek<uint64_t>(p.from.bus_of(0)) == 40);
    CHECK(p.from.faults == 1);
    CHECK(p.to.faults == 1);
}

TEST_CASE("a write to a read-only page raises a page fault") {
    Paging p;
    p.from.fill(100, 1);
    p.from.show(0, false);
    p.to.show(0, false);
    CHECK(p.result(p.wr(PIB_HCA_WQE_RDMA_WRITE, 100)).status == PIB_HCA_WC_SUCCESS);
    CHECK(p.from.faults == 0);
    CHECK(p.to.faults == 1);
    CHECK(same(p.from, p.to, 100));
}

TEST_CASE("an atomic to a read-only page raises a page fault before it changes the page") {
    Paging p;
    const uint8_t opcode = GENERATE(uint8_t{PIB_HCA_WQE_FETCH_ADD}, uint8_t{PIB_HCA_WQE_CMP_SWAP},
                                    uint8_t{PIB_HCA_WQE_ATOMIC_WRITE});
    p.from.show(0, true);
    p.to.show(0, false);
    p.from.hca.host.poke<uint64_t>(p.from.bus_of(0), 42);
    p.to.hca.host.poke<uint64_t>(p.to.bus_of(0), 40);
    SendWr wr = p.wr(opcode, 8);
    wr.compare = 40;
    wr.swap_or_add = opcode == PIB_HCA_WQE_FETCH_ADD ? 2 : 42;
    p.a.post(p.qa, wr);
    p.settle();
    CHECK(p.to.hca.host.peek<uint64_t>(p.to.bus_of(0)) == 40);
    CHECK(p.finish().status == PIB_HCA_WC_SUCCESS);
    CHECK(p.to.faults == 1);
    CHECK(p.to.hca.host.peek<uint64_t>(p.to.bus_of(0)) == 42);
}

TEST_CASE("a page whose entry has WRITE without READ is absent") {
    Paging p;
    p.to.hca.host.poke<uint64_t>(p.to.table, p.to.bus_address(0) | PIB_HCA_ON_DEMAND_WRITE);
    CHECK(p.result(p.wr(PIB_HCA_WQE_RDMA_WRITE, 8)).status == PIB_HCA_WC_SUCCESS);
    CHECK(p.to.faults == 1);
}

TEST_CASE("a page that the driver cannot supply is a protection error") {
    Paging p;
    SECTION("the requester sends") {
        p.from.refuse = true;
        CHECK(p.result(p.wr(PIB_HCA_WQE_RDMA_WRITE, 100)).status == PIB_HCA_WC_LOC_PROT_ERR);
    }
    SECTION("the requester receives a response") {
        p.from.refuse = true;
        CHECK(p.result(p.wr(PIB_HCA_WQE_RDMA_READ, 100)).status == PIB_HCA_WC_LOC_PROT_ERR);
    }
    SECTION("the responder receives a request") {
        p.to.refuse = true;
        CHECK(p.result(p.wr(PIB_HCA_WQE_RDMA_WRITE, 100)).status == PIB_HCA_WC_REM_ACCESS_ERR);
    }
    SECTION("the responder sends a response") {
        p.to.refuse = true;
        CHECK(p.result(p.wr(PIB_HCA_WQE_RDMA_READ, 100)).status == PIB_HCA_WC_REM_ACCESS_ERR);
    }
}

TEST_CASE("the refusal of a page refuses no other page, and none that has arrived") {
    Paging p;
    const bool responder = GENERATE(false, true);
    const uint8_t opcode =
        GENERATE(uint8_t{PIB_HCA_WQE_RDMA_WRITE}, uint8_t{PIB_HCA_WQE_RDMA_READ});
    OnDemand& absent = responder ? p.to : p.from;
    for (uint32_t page = 0; page < kPages; ++page) {
        p.from.show(page, true);
        p.to.show(page, true);
    }
    absent.hide(1);
    absent.hide(5);
    p.from.fill(kBytes - 256, 3);
    p.to.fill(kBytes - 256, 90);
    p.a.post(p.qa, p.wr(opcode, kBytes - 256));
    p.settle();
    const pib_hca_page_fault fault = next_page_fault(absent.hca);
    REQUIRE(fault.length != 0);
    CHECK((fault.addr - kIova + kOffset) / 4096 == 1);
    absent.show(1, true);
    const QpHalf half = responder ? QpHalf::kResponder : QpHalf::kRequester;
    CHECK(absent.hca.transport.verbs().resume_page_fault(fault.qpn, half, true) == CmdStatus::kOk);
    CHECK(p.finish().status == PIB_HCA_WC_SUCCESS);
    CHECK(absent.faults == 1);
    CHECK(same(p.from, p.to, kBytes - 256));
}

TEST_CASE("messages arrive although pages come and go meanwhile") {
    Paging p;
    std::mt19937 random(GENERATE(1u, 2u, 3u, 4u));
    const auto any = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
    p.tap = [&](const pib::ib::PacketView&) {
        if (any(3) == 0) {
            (any(2) == 0 ? p.from : p.to).hide(any(kPages));
        }
    };
    constexpr uint8_t kOpcodes[] = {PIB_HCA_WQE_SEND, PIB_HCA_WQE_RDMA_WRITE,
                                    PIB_HCA_WQE_RDMA_READ};
    for (int i = 0; i < 40; ++i) {
        const uint8_t opcode = kOpcodes[any(3)];
        const uint32_t length = 1 + any(kBytes - 256);
        p.from.fill(length, static_cast<uint8_t>(i));
        p.to.fill(length, static_cast<uint8_t>(i + 100));
        if (opcode == PIB_HCA_WQE_SEND) {
            p.b.post_recv(p.qb, {p.to.sge(length)});
        }
        REQUIRE(p.result(p.wr(opcode, length)).status == PIB_HCA_WC_SUCCESS);
        REQUIRE(same(p.from, p.to, length));
    }
}

TEST_CASE("RESUME refuses a QP that does not wait, and a destroyed QP has no fault") {
    Paging p;
    CHECK(p.a.transport.verbs().resume_page_fault(p.qa.qpn, QpHalf::kRequester, false) ==
          CmdStatus::kBadState);
    CHECK(p.a.transport.verbs().resume_page_fault(999, QpHalf::kRequester, false) ==
          CmdStatus::kBadResource);
    p.a.post(p.qa, p.wr(PIB_HCA_WQE_RDMA_WRITE, 100));
    CHECK(p.a.saw_event(PIB_HCA_EVENT_PAGE_FAULT, 0));
    to_state(p.a, p.qa, PIB_HCA_QPS_RESET);
    CHECK(next_page_fault(p.a).length == 0);
    CHECK(p.a.transport.verbs().resume_page_fault(p.qa.qpn, QpHalf::kRequester, false) ==
          CmdStatus::kBadState);
}

// Reset ends the wait: software knows nothing of a fault that a former life of the QP has raised.
TEST_CASE("a QP that waits for a page when it is reset works in its next life") {
    Paging p;
    const bool responder = GENERATE(false, true);
    const SendWr read = p.wr(PIB_HCA_WQE_RDMA_READ, 100);
    (responder ? p.from : p.to).show(0, true);
    p.a.post(p.qa, read);
    p.settle();
    REQUIRE_FALSE(p.a.poll(p.qa));
    REQUIRE((responder ? p.b : p.a).saw_event(PIB_HCA_EVENT_PAGE_FAULT, 0));
    to_state(p.a, p.qa, PIB_HCA_QPS_RESET);
    to_state(p.b, p.qb, PIB_HCA_QPS_RESET);
    p.a.set_sq_producer(p.qa, 0);
    p.connect(p.qa, p.qb);
    p.from.show(0, true);
    p.to.show(0, true);
    p.to.fill(100, 90);
    CHECK(p.result(read).status == PIB_HCA_WC_SUCCESS);
    CHECK(same(p.from, p.to, 100));
}

// The peer answers the whole message only, so its silence is no fault of the path.
TEST_CASE("timeouts use up no retry while a message waits for a page") {
    Paging p({.retry_cnt = 0});
    constexpr uint32_t kLength = 5000;
    p.from.fill(kLength, 3);
    p.from.show(0, true);
    p.to.show(0, true);
    p.to.show(1, true);
    p.a.post(p.qa, p.wr(PIB_HCA_WQE_RDMA_WRITE, kLength));
    p.settle();
    for (int timeouts = 0; timeouts < 10; ++timeouts) {
        REQUIRE(p.step_clock());
        REQUIRE(p.a.state(p.qa) == PIB_HCA_QPS_RTS);
    }
    CHECK(p.finish().status == PIB_HCA_WC_SUCCESS);
    CHECK(same(p.from, p.to, kLength));
    CHECK(p.a.counter(PIB_HCA_COUNTER_LOCAL_ACK_TIMEOUT_ERR) == 0);
}

TEST_CASE("invalid descriptions of an on-demand region are refused") {
    Paging p;
    Registration in{};
    in.pd = 1;
    in.iova = 0;
    in.length = 4096;
    in.pages = {.root = p.from.table, .page_count = 0, .levels = 1, .log_page_size = 12};
    in.flags = PIB_HCA_MR_ON_DEMAND;
    SECTION("no tables") {
        in.pages.levels = 0;
    }
    SECTION("too many levels") {
        in.pages.levels = PIB_HCA_MAX_ON_DEMAND_LEVELS + 1;
    }
    SECTION("a page list") {
        in.pages.page_count = 1;
    }
    SECTION("large pages") {
        in.pages.log_page_size = 21;
    }
    SECTION("region longer than its tables") {
        in.length = 512 * 4096 + 1;
    }
    SECTION("region whose page offset moves its end beyond its tables") {
        in.page_offset = kOffset;
        in.length = 512 * 4096 - kOffset;
        CHECK(p.a.mpt.create(in));
        ++in.length;
    }
    SECTION("misaligned tables") {
        in.pages.root += 8;
    }
    SECTION("bus addresses") {
        in.flags |= PIB_HCA_MR_PHYSICAL;
    }
    CHECK(!p.a.mpt.create(in));
}

// A datagram cannot be retransmitted, so an absent page is an error at once.
TEST_CASE("an absent page under a datagram's buffer stops no other QP") {
    Hca hca(1);
    OnDemand region(hca);
    Qp qp = hca.create({.type = PIB_HCA_QP_UD});
    start_datagram(hca, qp, 0x11);
    hca.post_recv(qp, {region.sge(1000)});
    const Buffer from = hca.make_buffer(4096);
    Qp sender = hca.create({.type = PIB_HCA_QP_UD});
    start_datagram(hca, sender, 0x11);
    SendWr wr{.sges = {from.sge(0, 100)}, .dest_qpn = qp.qpn, .qkey = 0x11};
    wr.av = hca.av_to(hca);
    wr.av.port = 1;
    hca.post(sender, wr);
    (void)hca.transport.run();
    const auto sent = hca.port.sent.front();
    const auto view = pib::ib::PacketView::parse(sent, pib::ib::Crcs::kElided).value();
    Pair::give(hca, pib::ib::Burst(view));
    CHECK(hca.poll(qp)->status == PIB_HCA_WC_LOC_PROT_ERR);
    CHECK_FALSE(hca.mpt.take_miss());
}
