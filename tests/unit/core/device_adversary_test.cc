// SPDX-License-Identifier: GPL-2.0-or-later
// An adversarial device as its driver sees it: it does only what the manual permits.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <set>

#include "bench.h"
#include "device.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

constexpr uint64_t kSecond = 1'000'000'000;

Config adversary(const std::string& text, Config config) {
    config.knobs.adversary = AdversaryPlan::parse(text).value();
    return config;
}

struct AdversaryBench : Bench {
    explicit AdversaryBench(const std::string& text, const Config& config = bench_config())
        : Bench(adversary(text, config)) {
        driver.submit_steps_clock = true;
        REQUIRE(driver.enable());
        async_eq = driver.create_eq(0, true);
        eq = driver.create_eq(1);
        cq = driver.create_cq(eq.eqn);
        pd = driver.alloc_pd();
    }
    DeviceObjects& objects() { return device->engine().objects(); }
    void pass(uint64_t ns) {
        const uint64_t until = host.clock_ns + ns;
        while (host.timer_deadline_ns <= until) {
            driver.step_clock();
        }
        host.clock_ns = until;
    }
    void take_events() {
        while (driver.poll(async_eq) || driver.poll(eq)) {
        }
    }
    MiniQp datagram_qp() {
        QpShape shape;
        shape.type = PIB_HCA_QP_UD;
        shape.pd = pd;
        shape.send_cq = shape.recv_cq = cq.cqn;
        MiniQp qp = driver.create_qp(shape);
        driver.connect_ud(qp, 1, 5);
        return qp;
    }
    uint32_t fetched(const MiniQp& qp) {
        return objects().transport.verbs().look_at(qp.qpn)->sq.consumer;
    }

    MiniEq async_eq;
    MiniEq eq;
    MiniCq cq;
    uint32_t pd = 0;
};

SendWr datagram() {
    SendWr request;
    request.av.dlid = 5;
    request.av.port = 1;
    request.dest_qpn = 7;
    request.qkey = 5;
    return request;
}

}  // namespace

TEST_CASE("commands wait before and after their execution, and complete in order") {
    AdversaryBench bench("1:commands");
    unsigned before = 0, after = 0;
    for (unsigned i = 0; i < 200; ++i) {
        const uint32_t pds = bench.objects().pds.count();
        const uint64_t start = bench.host.clock_ns;
        bench.driver.enqueue(bench.driver.make_entry(PIB_HCA_CMD_ALLOC_PD, 0, 0, 0));
        bench.driver.enqueue(bench.driver.make_entry(PIB_HCA_CMD_NOP, 0, 0, 0));
        bench.driver.ring_commands();
        bench.driver.pump();
        const bool executed = bench.objects().pds.count() > pds;
        CommandOutcome first = bench.driver.reap();
        before += executed ? 0 : 1;
        after += executed && !first.ok() ? 1 : 0;
        for (; !first.ok(); first = bench.driver.reap()) {
            bench.driver.step_clock();
        }
        CHECK(first.result != 0);  // the number of the PD
        CHECK(bench.host.clock_ns - start <= Adversary::kCommandNs);
        CommandOutcome second = bench.driver.reap();
        for (; !second.ok(); second = bench.driver.reap()) {
            bench.driver.step_clock();
        }
        CHECK(second.result == 0);
    }
    CHECK(before > 20);
    CHECK(after > 20);
}

TEST_CASE("both steps of a command together take at most as long as the manual permits") {
    FakeHost host;
    Adversary adversary(AdversaryPlan::parse("1:commands").value());
    CommandPace pace(host, &adversary);
    uint64_t longest = 0;
    for (unsigned i = 0; i < 100'000; ++i) {
        const uint64_t start = host.clock_ns;
        for (unsigned step = 0; step < 2; ++step) {
            while (pace.waits()) {
                host.clock_ns = pace.next_deadline();
            }
        }
        pace.completed();
        longest = std::max(longest, host.clock_ns - start);
    }
    CHECK(longest == Adversary::kCommandNs);
}

TEST_CASE("a strict device names an output that is written before its command completes") {
    Config config = bench_config();
    config.knobs.strict = Strictness::kOn;
    AdversaryBench bench("1:commands", config);
    MiniDriver& d = bench.driver;
    const uint64_t output = d.out_buffer();
    bool waited = false;
    while (!waited) {  // until a command waits between its execution and its completion
        bench.host.poke(output, pib_hca_query_port{});
        d.enqueue(d.make_entry(PIB_HCA_CMD_QUERY_PORT, 1, 0, sizeof(pib_hca_query_port)));
        d.ring_commands();
        CommandOutcome outcome = d.reap();
        while (outcome.status == 0xff && !waited) {
            waited = bench.host.peek<uint64_t>(output) != 0;
            REQUIRE((waited || d.step_clock()));
            outcome = waited ? outcome : d.reap();
        }
    }
    CHECK(bench.host.warnings.empty());
    bench.host.poke(output, uint8_t{0xff});
    bench.pass(Adversary::kCommandNs);
    REQUIRE_FALSE(bench.host.warnings.empty());
    CHECK(bench.host.warnings[0].ends_with("(manual 5.2 rule 5)"));
}

TEST_CASE("a reset ends the commands that wait") {
    AdversaryBench bench("1:commands");
    for (unsigned i = 0; i < 20; ++i) {
        bench.driver.enqueue(bench.driver.make_entry(PIB_HCA_CMD_NOP, 0, 0, 0));
        bench.driver.ring_commands();
        bench.device->reset(false);
        CHECK(bench.device->engine().commands().next_deadline() == kNever);
        bench.pass(kSecond);
        REQUIRE(bench.driver.enable());
    }
}

TEST_CASE("a device that has been reset raises no spurious interrupt") {
    AdversaryBench bench("1:interrupts");
    const auto raised = [&] {
        for (unsigned i = 0; i < 10'000; ++i) {
            bench.device->kick(0);
        }
        return bench.host.interrupts;
    };
    const auto enabled = bench.host.interrupts;
    CHECK(raised() != enabled);
    bench.device->reset(false);
    const auto reset = bench.host.interrupts;
    CHECK(raised() == reset);
}

TEST_CASE("events of several CQs come late and in any order, but none is lost") {
    AdversaryBench bench("1:events");
    unsigned late = 0, unordered = 0;
    for (unsigned round = 0; round < 50; ++round) {
        bench.device->engine().enter([&] {
            for (uint32_t cqn = 1; cqn <= 8; ++cqn) {
                bench.objects().eqs.completion_event(bench.eq.eqn, cqn);
            }
        });
        std::vector<uint32_t> seen;
        const auto take = [&] {
            while (const auto eqe = bench.driver.poll(bench.eq)) {
                seen.push_back(eqe->number);
            }
        };
        take();
        late += seen.size() < 8 ? 1 : 0;
        bench.pass(Adversary::kEventNs);
        take();
        unordered += std::ranges::is_sorted(seen) ? 0 : 1;
        std::ranges::sort(seen);
        CHECK(seen == std::vector<uint32_t>{1, 2, 3, 4, 5, 6, 7, 8});
    }
    CHECK(late > 10);
    CHECK(unordered > 10);
}

TEST_CASE("the waiting event of a destroyed CQ is dropped") {
    AdversaryBench bench("1:events");
    for (unsigned round = 0; round < 50; ++round) {
        const MiniCq cq = bench.driver.create_cq(bench.eq.eqn);
        bench.device->engine().enter(
            [&] { bench.objects().eqs.completion_event(bench.eq.eqn, cq.cqn); });
        while (bench.driver.poll(bench.eq)) {
        }
        bench.driver.destroy(PIB_HCA_CMD_DESTROY_CQ, cq.cqn);
        while (bench.driver.poll(bench.eq)) {
        }
        bench.pass(Adversary::kEventNs);
        CHECK_FALSE(bench.driver.poll(bench.eq));
    }
}

TEST_CASE("WQEs are fetched some time after their doorbell") {
    AdversaryBench bench("1:fetches");
    MiniQp qp = bench.datagram_qp();
    unsigned late = 0;
    for (unsigned i = 0; i < 100; ++i) {
        bench.driver.post_send(qp, datagram());
        late += bench.fetched(qp) != qp.sq_producer ? 1 : 0;
        bench.pass(Adversary::kFetchNs);
        CHECK(bench.fetched(qp) == qp.sq_producer);
        CHECK(bench.driver.wait(bench.cq).status == PIB_HCA_WC_SUCCESS);
    }
    CHECK(late > 5);
}

TEST_CASE("WQEs are fetched before their doorbell") {
    AdversaryBench bench("1:fetches");
    MiniQp qp = bench.datagram_qp();
    for (unsigned i = 0; i < 16; ++i) {
        bench.driver.post_send(qp, datagram());
        bench.pass(Adversary::kFetchNs);
        CHECK(bench.driver.wait(bench.cq).status == PIB_HCA_WC_SUCCESS);
    }
    bench.driver.post_send(qp, datagram(), true);
    for (unsigned i = 0; i < 1000 && bench.fetched(qp) != qp.sq_producer; ++i) {
        bench.device->run();
    }
    CHECK(bench.fetched(qp) == qp.sq_producer);
}

TEST_CASE("WQEs are fetched some time after their kick") {
    Config config = bench_config();
    config.shadow_doorbells = true;
    AdversaryBench bench("1:fetches", config);
    const uint64_t page = bench.host.alloc(FakeHost::kPage);
    MiniDriver::must(bench.driver.command_in(PIB_HCA_CMD_SET_SHADOW_PAGE, 0,
                                             pib_hca_set_shadow_page{.addr = page}),
                     "SET_SHADOW_PAGE");
    MiniQp qp = bench.datagram_qp();
    const uint64_t word = qp.qpn / 64;
    const auto kick = [&] {
        bench.driver.post_send(qp, datagram(), true);
        bench.host.poke(page + offsetof(pib_hca_shadow_page, rung) + word * 8,
                        uint64_t{1} << qp.qpn % 64);
        bench.host.poke(page + offsetof(pib_hca_shadow_page, summary), uint64_t{1} << word);
        bench.driver.ring(0, PIB_HCA_UAR_KICK, 0);
    };
    unsigned late = 0;
    for (unsigned i = 0; i < 100; ++i) {
        kick();
        late += bench.fetched(qp) != qp.sq_producer ? 1 : 0;
        bench.pass(Adversary::kFetchNs);
        CHECK(bench.fetched(qp) == qp.sq_producer);
        CHECK(bench.driver.wait(bench.cq).status == PIB_HCA_WC_SUCCESS);
    }
    CHECK(late > 5);
    // A page that is removed has no late kick.
    kick();
    MiniDriver::must(
        bench.driver.command_in(PIB_HCA_CMD_SET_SHADOW_PAGE, 0, pib_hca_set_shadow_page{}),
        "SET_SHADOW_PAGE");
    bench.pass(Adversary::kFetchNs);
    CHECK(bench.host.guest_errors == 0);
}

TEST_CASE("the number or key of a destroyed object names the next one at once") {
    AdversaryBench bench("1:numbers");
    MiniDriver& d = bench.driver;
    const auto again = [&](auto create, pib_hca_cmd_opcode destroy) {
        const uint32_t number = create();
        d.destroy(destroy, number);
        bench.take_events();
        CHECK(create() == number);
        d.destroy(destroy, number);
    };
    again([&] { return d.alloc_pd(); }, PIB_HCA_CMD_FREE_PD);
    again([&] { return d.alloc_uar(); }, PIB_HCA_CMD_FREE_UAR);
    again([&] { return d.create_eq(2).eqn; }, PIB_HCA_CMD_DESTROY_EQ);
    again([&] { return d.create_cq(bench.eq.eqn).cqn; }, PIB_HCA_CMD_DESTROY_CQ);
    again([&] { return d.create_mr(bench.pd, 4096, PIB_HCA_ACCESS_LOCAL_WRITE).key; },
          PIB_HCA_CMD_DESTROY_MR);
    again([&] { return bench.datagram_qp().qpn; }, PIB_HCA_CMD_DESTROY_QP);
}

TEST_CASE("a number is not given again until software has taken the events") {
    AdversaryBench bench("1:numbers");
    const uint32_t cqn = bench.driver.create_cq(bench.eq.eqn).cqn;
    bench.driver.destroy(PIB_HCA_CMD_DESTROY_CQ, cqn);
    CHECK(bench.driver.create_cq(bench.eq.eqn).cqn != cqn);
    bench.take_events();
    CHECK(bench.driver.create_cq(bench.eq.eqn).cqn == cqn);
}

TEST_CASE("the device's clock steps forward, and a driver sees it in the register") {
    AdversaryBench bench("1:clock");
    uint64_t last = 0;
    for (unsigned i = 0; i < 100; ++i) {
        bench.pass(kSecond);
        bench.device->run();
        const uint64_t now = bench.driver.read64(PIB_HCA_REG_CLOCK);
        CHECK(now >= last + kSecond);
        last = now;
    }
    CHECK(last > bench.host.clock_ns);
}

TEST_CASE("the device stops, is reset or is gone, and starts again") {
    std::set<std::string> seen;
    for (unsigned seed = 1; seed <= 20; ++seed) {
        AdversaryBench bench(std::to_string(seed) + ":end");
        uint32_t status = PIB_HCA_STATUS_ENABLED;
        for (unsigned i = 0; status == PIB_HCA_STATUS_ENABLED && i < 1000; ++i) {
            bench.pass(kSecond / 4);
            bench.device->run();
            status = bench.driver.read32(PIB_HCA_REG_STATUS);
        }
        const bool gone = status == UINT32_MAX;
        seen.insert(gone ? "gone" : (status & PIB_HCA_STATUS_FATAL) != 0 ? "stopped" : "reset");
        if (gone) {
            CHECK(bench.driver.read64(PIB_HCA_REG_CLOCK) == UINT64_MAX);
            bench.driver.write32(PIB_HCA_REG_SCRATCH, 5);  // a store without effect
            bench.pass(5 * kSecond);
            CHECK(bench.driver.read32(PIB_HCA_REG_SCRATCH) == 0);
        }
        bench.driver.write32(PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_RESET);
        CHECK(bench.driver.read32(PIB_HCA_REG_STATUS) == 0);
        CHECK(bench.driver.enable());
    }
    CHECK(seen == std::set<std::string>{"gone", "reset", "stopped"});
}

TEST_CASE("the same seed makes the same device") {
    const auto run = [](const char* text) {
        AdversaryBench bench(text);
        MiniQp qp = bench.datagram_qp();
        std::vector<uint64_t> moments;
        for (unsigned i = 0; i < 50; ++i) {
            bench.driver.post_send(qp, datagram());
            bench.pass(Adversary::kFetchNs);
            moments.push_back(bench.driver.wait(bench.cq).timestamp);
            bench.driver.alloc_pd();
            moments.push_back(bench.host.clock_ns);
        }
        return moments;
    };
    CHECK(run("7") == run("7"));
    CHECK(run("7") != run("8"));
}

TEST_CASE("doorbells that wait end with the device, and their timer with them") {
    Config config = bench_config();
    config.knobs.inject = true;
    AdversaryBench bench("1:fetches", config);
    MiniQp qp = bench.datagram_qp();
    for (unsigned i = 0; i < 100 && bench.objects().doorbells.next_deadline() == kNever; ++i) {
        bench.driver.ring_send(qp);
    }
    REQUIRE(bench.objects().doorbells.next_deadline() != kNever);
    pib_hca_inject_event stop{};
    stop.type = PIB_HCA_EVENT_DEVICE_FATAL;
    MiniDriver::must(bench.driver.command_in(PIB_HCA_CMD_INJECT_EVENT, 0, stop), "INJECT_EVENT");
    REQUIRE(bench.device->engine().health().is_fatal());
    CHECK(bench.objects().doorbells.next_deadline() == kNever);
    bench.host.clock_ns += Adversary::kFetchNs;
    bench.host.timer_deadline_ns = kNever;
    bench.device->timer();
    CHECK(bench.host.timer_deadline_ns == kNever);
}
