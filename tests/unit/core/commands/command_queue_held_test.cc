// SPDX-License-Identifier: GPL-2.0-or-later
// Calls of the device that take memory away during a pull return at once. Commands and
// work requests complete, and a reset ends, when the switch has stopped its access.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <functional>

#include "bench.h"
#include "commands/command_queue.h"
#include "fake_copy_link.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

constexpr uint64_t kSharedBytes = 16 << 20;
constexpr uint32_t kAccess = PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_WRITE;

Config copying_config() {
    Config config = bench_config();
    config.peer_copy = true;
    return config;
}

// A device whose link shares the start of RAM, with a region and a QP to which the switch copies.
struct CopyBench : ReadyBench {
    CopyBench() : ReadyBench(copying_config()), memory(kSharedBytes) {
        copy().set_link(1, link);
        copy().attach(1, {.control = memory.bytes(),
                          .blocks = {{host.ram(FakeHost::kRamBase, 1), kSharedBytes}}});
        qp = driver.create_qp(shape());
        RcPath path;
        path.av.dlid = 1;
        path.dest_qpn = qp.qpn;
        driver.connect_rc(qp, path);
        mr = driver.create_mr(pd, FakeHost::kPage, kAccess);
    }
    ~CopyBench() {
        link.is_pulling = false;
        memory.control().reading = 0;
        copy().detach(1);
    }
    DeviceObjects& objects() { return device->engine().objects(); }
    PeerCopy& copy() { return *objects().peer_copy; }

    SgList sg_list() {
        SgList out;
        const KeyedRange range{.key = mr.key, .addr = mr.addr, .length = 64, .access = 0};
        REQUIRE(objects().mpt.locate({.pd = pd, .privileged = false}, range, out));
        return out;
    }
    void start_pull() {
        std::vector<pib::link::BlockSegment> where;
        REQUIRE(copy().begin_pull(1, qp.qpn, sg_list(), where));
        link.is_pulling = true;
    }
    void start_read() {
        const auto offer = copy().open(1, sg_list(), {.qpn = qp.qpn, .keys = sg_list().keys});
        REQUIRE(offer);
        memory.control().reading = offer->handle;
    }
    void reset(bool by_register) {
        if (by_register) {
            driver.write32(PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_RESET);
        } else {
            device->reset(true);
        }
    }
    // Moves the clock by 2 ms, so that the device looks again whether the switch has stopped.
    void tick() {
        host.clock_ns += 2'000'000;
        device->timer();
        driver.pump();
    }

    // Looks again and again while the clock moves by `ns`.
    void outwait(uint64_t ns) {
        for (uint64_t waited = 0; waited < ns; waited += PeerCopy::kPullStepNs) {
            host.real_clock_ns += PeerCopy::kPullStepNs;
            tick();
        }
    }

    FakeCopyLink link;
    FakeControlMemory memory;
    MiniQp qp;
    MiniMr mr;
};

// Commands that take the memory of the region or of the QP away.
CommandOutcome take_away(CopyBench& bench, int which) {
    MiniDriver& d = bench.driver;
    pib_hca_modify_qp to{};
    to.attr_mask = PIB_HCA_QP_ATTR_STATE;
    to.state = which == 1 ? PIB_HCA_QPS_ERR : PIB_HCA_QPS_RESET;
    switch (which) {
        case 0:
            return d.command(PIB_HCA_CMD_DESTROY_MR, bench.mr.key);
        case 1:
        case 2:
            return d.modify(bench.qp, to);
        default:
            return d.command(PIB_HCA_CMD_DESTROY_QP, bench.qp.qpn);
    }
}

}  // namespace

TEST_CASE("a command that takes memory from a pull completes when the switch has cancelled it") {
    CopyBench bench;
    bench.start_pull();
    CHECK_FALSE(take_away(bench, GENERATE(0, 1, 2, 3)).ok());  // no completion yet
    CHECK(bench.link.cancels == 1);
    CHECK(bench.host.real_clock_ns == 0);  // the doorbell has not waited
    CHECK_FALSE(bench.host.woken);
    bench.tick();
    CHECK(bench.driver.reap().status == 0xff);
    CHECK(bench.host.timer_deadline_ns != kNever);
    bench.link.is_pulling = false;
    bench.tick();
    CHECK(bench.driver.reap().ok());
    CHECK(bench.link.given_up == 0);
    CHECK(bench.host.real_clock_ns == 0);
}

TEST_CASE("a command that takes memory from a reader completes when the switch has read it") {
    CopyBench bench;
    bench.start_read();
    CHECK(take_away(bench, GENERATE(0, 1, 2, 3)).status == 0xff);
    bench.memory.control().reading = 0;
    bench.tick();
    CHECK(bench.driver.reap().ok());
    CHECK(bench.host.real_clock_ns == 0);
}

TEST_CASE("a held command whose completion cannot be written stops the device") {
    CopyBench bench;
    bench.start_pull();
    CHECK_FALSE(take_away(bench, 0).ok());
    bench.host.make_hole(bench.driver.cmdq_cpl_base(), FakeHost::kPage);
    bench.link.is_pulling = false;
    bench.tick();
    CHECK((bench.driver.read32(PIB_HCA_REG_STATUS) & PIB_HCA_STATUS_FATAL) != 0);
    CHECK(bench.driver.read32(PIB_HCA_REG_FATAL_CAUSE) == PIB_HCA_FATAL_CMDQ_DMA);
}

TEST_CASE("the link's thread completes a held command without the timer") {
    CopyBench bench;
    bench.start_pull();
    CHECK(take_away(bench, 0).status == 0xff);
    bench.link.is_pulling = false;
    bench.device->links().writable(1);
    CHECK(bench.driver.reap().ok());
}

TEST_CASE("commands after a held one wait and complete in order") {
    CopyBench bench;
    bench.start_pull();
    CHECK(take_away(bench, 0).status == 0xff);
    CHECK(bench.driver.command(PIB_HCA_CMD_ALLOC_PD).status == 0xff);
    CHECK(bench.driver.command(PIB_HCA_CMD_DESTROY_MR, bench.mr.key).status == 0xff);
    const uint32_t consumed = bench.driver.read32(PIB_HCA_REG_CMDQ_CONSUMED);
    bench.link.is_pulling = false;
    bench.tick();
    CHECK(bench.driver.reap().ok());
    const CommandOutcome pd = bench.driver.reap();
    CHECK((pd.ok() && pd.result != 0));
    CHECK(bench.driver.reap().status == PIB_HCA_CMD_STATUS_BAD_RESOURCE);
    CHECK(bench.driver.read32(PIB_HCA_REG_CMDQ_CONSUMED) == consumed + 3);
}

TEST_CASE("commands that revoke no memory do not wait for a pull") {
    CopyBench bench;
    bench.start_pull();
    CHECK(bench.driver.command(PIB_HCA_CMD_NOP).ok());
    const MiniMr other = bench.driver.create_mr(bench.pd, 64, kAccess);
    CHECK(bench.driver.command(PIB_HCA_CMD_DESTROY_MR, other.key).ok());
    CHECK(bench.link.cancels == 0);
}

TEST_CASE("a WQE is flushed after the switch has stopped its access to the buffer") {
    CopyBench bench;
    const pib_hca_sge sge = MiniDriver::sge(bench.mr, 0, 64);
    bench.driver.post_recv(bench.qp, {&sge, 1});
    bench.start_pull();
    CHECK(take_away(bench, 1).status == 0xff);
    bench.device->run();
    bench.driver.ring_send(bench.qp);
    bench.tick();
    CHECK_FALSE(bench.driver.poll(bench.cq));
    bench.link.is_pulling = false;
    bench.tick();
    CHECK(bench.driver.reap().ok());
    const auto cqe = bench.driver.poll(bench.cq);
    REQUIRE(cqe);
    CHECK(cqe->status == PIB_HCA_WC_WR_FLUSH_ERR);
}

TEST_CASE("a switch that delays a command beyond the limit loses its link") {
    CopyBench bench;
    bench.start_pull();
    CHECK(take_away(bench, 0).status == 0xff);
    bench.outwait(PeerCopy::kPullTimeoutNs - PeerCopy::kPullStepNs);
    CHECK(bench.driver.reap().status == 0xff);
    bench.outwait(PeerCopy::kPullStepNs);
    CHECK(bench.driver.reap().ok());
    CHECK(bench.link.given_up == 1);
}

TEST_CASE("a pause of the device's process costs no link") {
    CopyBench bench;
    bench.start_pull();
    CHECK(take_away(bench, 0).status == 0xff);
    bench.host.real_clock_ns += 100 * PeerCopy::kPullTimeoutNs;
    bench.tick();
    CHECK(bench.driver.reap().status == 0xff);
    bench.link.is_pulling = false;
    bench.tick();
    CHECK(bench.driver.reap().ok());
    CHECK(bench.link.given_up == 0);
}

TEST_CASE("a reset ends a held command and affects no later command") {
    CopyBench bench;
    bench.start_pull();
    CHECK(take_away(bench, 0).status == 0xff);
    bench.reset(GENERATE(true, false));
    bench.link.is_pulling = false;
    const uint64_t old_ring = bench.driver.cmdq_cpl_base();
    CHECK(bench.host.peek<pib_hca_cmd_cpl>(old_ring).status == PIB_HCA_CMD_STATUS_OK);
    REQUIRE(bench.driver.enable());
    CHECK(bench.driver.command(PIB_HCA_CMD_NOP).ok());
    CHECK(bench.driver.reap().status == 0xff);
}

TEST_CASE("a reset in mid-pull returns at once, and STATUS shows when it has ended") {
    CopyBench bench;
    bench.start_pull();
    bench.reset(GENERATE(true, false));
    CHECK(bench.link.cancels == 1);
    CHECK(bench.driver.read32(PIB_HCA_REG_STATUS) == PIB_HCA_STATUS_RESETTING);
    bench.tick();
    CHECK(bench.driver.read32(PIB_HCA_REG_STATUS) == PIB_HCA_STATUS_RESETTING);
    SECTION("the switch stops") {
        bench.link.is_pulling = false;
    }
    SECTION("the switch does not stop: its link is closed") {
        bench.outwait(PeerCopy::kPullTimeoutNs);
        CHECK(bench.link.given_up == 1);
    }
    CHECK(bench.driver.read32(PIB_HCA_REG_STATUS) == 0);
}

TEST_CASE("a reset does not wait for memory that is taken away after it") {
    CopyBench bench;
    bench.reset(true);
    REQUIRE(bench.driver.enable());
    bench.pd = bench.driver.alloc_pd();
    bench.mr = bench.driver.create_mr(bench.pd, FakeHost::kPage, kAccess);
    bench.start_pull();
    CHECK(take_away(bench, 0).status == 0xff);
    CHECK(bench.driver.read32(PIB_HCA_REG_STATUS) == PIB_HCA_STATUS_ENABLED);
}

TEST_CASE("a held command waits while the VM is stopped, and completes when it runs again") {
    CopyBench bench;
    bench.start_pull();
    CHECK(take_away(bench, 0).status == 0xff);
    bench.device->stop_copying();
    CHECK_FALSE(bench.device->copying_stopped());
    bench.link.is_pulling = false;
    CHECK(bench.device->copying_stopped());
    CHECK(bench.driver.reap().status == 0xff);
    bench.device->run();
    CHECK(bench.driver.reap().ok());
}

TEST_CASE("a stop of the VM gives up a switch that does not answer") {
    CopyBench bench;
    bench.start_pull();
    bench.device->stop_copying();
    for (uint64_t waited = 0; waited < PeerCopy::kPullTimeoutNs; waited += PeerCopy::kPullStepNs) {
        CHECK_FALSE(bench.device->copying_stopped());
        bench.host.real_clock_ns += PeerCopy::kPullStepNs;
    }
    CHECK(bench.device->copying_stopped());
    CHECK(bench.link.given_up == 1);
}

TEST_CASE("a fatal error refuses a held command when the switch has stopped") {
    CopyBench bench;
    bench.start_pull();
    CHECK(take_away(bench, 0).status == 0xff);
    bench.objects().eqs.inject_fatal();
    bench.tick();
    CHECK((bench.driver.read32(PIB_HCA_REG_STATUS) & PIB_HCA_STATUS_FATAL) != 0);
    CHECK(bench.driver.reap().status == 0xff);
    bench.link.is_pulling = false;
    bench.tick();
    CHECK(bench.driver.reap().status == PIB_HCA_CMD_STATUS_FATAL);
}

TEST_CASE("a QP that fails in mid-pull keeps its completions until the switch has stopped") {
    CopyBench bench;
    bench.start_pull();
    pib_hca_sge wrong = MiniDriver::sge(bench.mr, 0, 64);
    wrong.lkey ^= 0xff;
    bench.driver.post_send(bench.qp, {.sges = {wrong}});
    CHECK(bench.link.cancels == 1);
    bench.device->run();
    bench.tick();
    CHECK_FALSE(bench.driver.poll(bench.cq));
    // A command that destroys the QP completes after the work requests.
    CHECK(bench.driver.command(PIB_HCA_CMD_DESTROY_QP, bench.qp.qpn).status == 0xff);
    bench.link.is_pulling = false;
    bench.tick();
    CHECK(bench.driver.reap().ok());
    const auto cqe = bench.driver.poll(bench.cq);
    REQUIRE(cqe);
    CHECK(cqe->status == PIB_HCA_WC_LOC_PROT_ERR);
    CHECK_FALSE(bench.driver.poll(bench.cq));
}

TEST_CASE("held completions come before a DESTROY_QP that finds the switch stopped") {
    CopyBench bench;
    bench.start_pull();
    pib_hca_sge wrong = MiniDriver::sge(bench.mr, 0, 64);
    wrong.lkey ^= 0xff;
    bench.driver.post_send(bench.qp, {.sges = {wrong}});
    bench.device->run();
    REQUIRE_FALSE(bench.driver.poll(bench.cq));
    SECTION("before the doorbell") {
        bench.link.is_pulling = false;
    }
    SECTION("while the device executes the command") {
        bench.host.before_dma = [&](uint64_t, size_t, bool) { bench.link.is_pulling = false; };
    }
    bench.host.record_writes = true;
    CHECK(bench.driver.command(PIB_HCA_CMD_DESTROY_QP, bench.qp.qpn).ok());
    const auto write_in = [&](uint64_t page) {
        return std::ranges::find_if(bench.host.writes, [&](const FakeHost::Write& write) {
            return write.addr / FakeHost::kPage == page / FakeHost::kPage;
        });
    };
    CHECK(write_in(bench.cq.memory.page(0)) < write_in(bench.driver.cmdq_cpl_base()));
}

TEST_CASE("a QP whose turn was skipped in mid-pull gets it when the switch has stopped") {
    CopyBench bench;
    bench.driver.post_recv(bench.qp, {});
    bench.start_pull();
    pib_hca_sge wrong = MiniDriver::sge(bench.mr, 0, 64);
    wrong.lkey ^= 0xff;
    bench.driver.post_send(bench.qp, {.sges = {wrong}});
    bench.device->run();
    bench.link.is_pulling = false;
    bench.host.woken = false;
    bench.tick();
    CHECK(bench.driver.poll(bench.cq)->status == PIB_HCA_WC_LOC_PROT_ERR);
    const auto flushed = bench.driver.poll(bench.cq);
    REQUIRE(flushed);
    CHECK(flushed->status == PIB_HCA_WC_WR_FLUSH_ERR);
}

namespace {

// A device that has begun to resize a full CQ, which takes several turns.
struct ResizeBench : ReadyBench {
    static constexpr uint8_t kLogDepth = 15;
    ResizeBench()
        : full(driver.create_cq(eq.eqn, kLogDepth)), to(host, full.memory.bytes()), cqs(table()) {
        for (uint32_t i = 0; i < 1u << kLogDepth; ++i) {
            REQUIRE(cqs.post(full.cqn, {.wqe_counter = i}, false));
        }
        pib_hca_resize_cq in{};
        in.pages = to.list();
        in.log_depth = kLogDepth;
        host.poke(driver.in_buffer(), in);
        driver.enqueue(driver.make_entry(PIB_HCA_CMD_RESIZE_CQ, full.cqn, sizeof in, 0));
        driver.enqueue(driver.make_entry(PIB_HCA_CMD_DESTROY_CQ, full.cqn, 0, 0));
        driver.ring_commands();
        REQUIRE(cqs.is_resizing());
        REQUIRE(driver.reap().status == 0xff);
    }
    CqTable& table() { return device->engine().objects().cqs; }

    MiniCq full;
    GuestMemory to;
    CqTable& cqs;
};

}  // namespace

TEST_CASE("a resize of many CQEs completes later, and later commands wait for it") {
    ResizeBench bench;
    REQUIRE(bench.driver.pump());
    CHECK_FALSE(bench.cqs.is_resizing());
    CHECK(bench.driver.reap().ok());
    CHECK(bench.driver.reap().ok());  // DESTROY_CQ
    constexpr uint64_t kLast = (1u << ResizeBench::kLogDepth) - 1;
    const uint64_t last = PIB_HCA_QUEUE_HEADER_SIZE + kLast * sizeof(pib_hca_cqe);
    CHECK(bench.to.peek<pib_hca_cqe>(last).wqe_counter == kLast);
}

TEST_CASE("a resize that is refused in the end tells the driver why") {
    ResizeBench bench;
    CHECK_FALSE(bench.cqs.post(bench.full.cqn, {}, false));  // an overrun
    bench.driver.pump();
    CHECK(bench.driver.reap().status == PIB_HCA_CMD_STATUS_BAD_STATE);
    CHECK(bench.device->objects().find("is a CQ in error") != std::string::npos);
}

TEST_CASE("a reset ends a resize") {
    ResizeBench bench;
    bench.driver.write32(PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_RESET);
    CHECK_FALSE(bench.cqs.is_resizing());
    REQUIRE(bench.driver.enable());
    CHECK(bench.driver.command(PIB_HCA_CMD_NOP).ok());
}

namespace {

// A device with a QP that has bound many windows, whose removal takes several turns. The second
// command frees one of these windows.
struct WindowsBench : ReadyBench {
    static constexpr uint32_t kWindows = 5 * MemoryWindows::kUnbindsPerCall;
    WindowsBench() : mpt(device->engine().objects().mpt), qp(driver.create_qp(shape())) {
        const MiniMr mr =
            driver.create_mr(pd, 4096, PIB_HCA_ACCESS_REMOTE_READ | PIB_HCA_ACCESS_MW_BIND);
        for (uint32_t i = 0; i < kWindows; ++i) {
            const auto rkey = mpt.alloc_window({.pd = pd, .type = kWindowType2, .key = 0});
            REQUIRE(rkey);
            last = *rkey;
            REQUIRE(mpt.bind({.pd = pd, .privileged = false, .qpn = qp.qpn},
                             {.rkey = last | 1,
                              .lkey = mr.key,
                              .access = PIB_HCA_ACCESS_REMOTE_READ,
                              .addr = mr.addr,
                              .length = 64}));
        }
        key = mr.key;
    }
    void begin(uint16_t opcode, uint32_t in_length = 0) {
        driver.enqueue(driver.make_entry(opcode, qp.qpn, in_length, 0));
        driver.enqueue(driver.make_entry(PIB_HCA_CMD_DESTROY_MR, key, 0, 0));
        driver.ring_commands();
        REQUIRE(mpt.windows().is_unbinding());
        REQUIRE(driver.reap().status == 0xff);
    }
    uint32_t bound() {
        uint32_t windows = 0;
        mpt.look_at(key, [&](uint32_t, const auto& entry) {
            if constexpr (requires { entry.windows; }) {
                windows = entry.windows;
            }
        });
        return windows;
    }

    Mpt& mpt;
    MiniQp qp;
    uint32_t key = 0;
    uint32_t last = 0;
};

}  // namespace

TEST_CASE("the destruction of a QP with many windows completes later, and later commands wait") {
    WindowsBench bench;
    bench.begin(PIB_HCA_CMD_DESTROY_QP);
    for (uint32_t before = bench.bound(); bench.mpt.windows().is_unbinding();
         before = bench.bound()) {
        CHECK(bench.bound() > 0);
        bench.device->run();
        CHECK(before - bench.bound() <= 2 * MemoryWindows::kUnbindsPerCall);
    }
    REQUIRE(bench.driver.pump());
    CHECK(bench.bound() == 0);
    CHECK(bench.driver.reap().ok());
    CHECK(bench.driver.reap().ok());  // DESTROY_MR: no window is bound to the region
}

TEST_CASE("the reset of a QP with many windows completes later") {
    WindowsBench bench;
    pib_hca_modify_qp in{};
    in.attr_mask = PIB_HCA_QP_ATTR_STATE;
    in.state = PIB_HCA_QPS_RESET;
    bench.host.poke(bench.driver.in_buffer(), in);
    bench.begin(PIB_HCA_CMD_MODIFY_QP, sizeof in);
    REQUIRE(bench.driver.pump());
    CHECK(bench.driver.reap().ok());
    CHECK(bench.driver.reap().ok());
}

TEST_CASE("a reset of the device, or a fatal error, ends the removal of windows") {
    WindowsBench bench;
    bench.begin(PIB_HCA_CMD_DESTROY_QP);
    if (GENERATE(false, true)) {
        bench.device->engine().health().fail(PIB_HCA_FATAL_INTERNAL);
        bench.driver.pump();
        CHECK(bench.driver.reap().status == PIB_HCA_CMD_STATUS_FATAL);
    }
    bench.driver.write32(PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_RESET);
    CHECK_FALSE(bench.mpt.windows().is_unbinding());
    REQUIRE(bench.driver.enable());
    CHECK(bench.driver.command(PIB_HCA_CMD_NOP).ok());
}
