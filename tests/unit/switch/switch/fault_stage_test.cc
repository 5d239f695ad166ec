// SPDX-License-Identifier: GPL-2.0-or-later
// Injected faults: their counters and their seed, in both directions.
#include <catch2/catch_test_macros.hpp>

#include "test_fabric.h"

namespace pib::test {
namespace {

using fabric::FaultSpec;

constexpr unsigned kPackets = 5000;

// Sends numbered packets from the first adapter to the second; returns the numbers that arrive.
std::vector<uint32_t> run(TestFabric& fabric, unsigned packets = kPackets) {
    for (uint32_t i = 0; i < packets; ++i) {
        Bytes packet = make_packet(0, 2, 64, 1);
        ib::store_be(&packet[16], i);
        REQUIRE(fabric.hca(0).send_packet(packet));
        fabric.advance(10'000);
    }
    fabric.advance(1'000'000'000);
    std::vector<uint32_t> numbers;
    for (const Bytes& packet : fabric.hca(1).packets) {
        numbers.push_back(ib::load_be<uint32_t>(&packet[16]));
    }
    return numbers;
}

}  // namespace

TEST_CASE("faults: ingress and egress lose packets, and a seed repeats the losses") {
    std::vector<uint32_t> first;
    for (unsigned round = 0; round < 2; ++round) {
        TestFabric fabric(2);
        fabric.make_active();
        fabric.sw.port(1).ingress_faults().set({.drop = 0.01, .seed = 42});
        fabric.sw.port(2).egress_faults().set({.drop = 0.01, .seed = 43});
        const auto numbers = run(fabric);
        const auto lost = fabric.sw.port(1).ingress_faults().counts().dropped +
                          fabric.sw.port(2).egress_faults().counts().dropped;
        CHECK(numbers.size() + lost == kPackets);
        CHECK(lost > 40);
        CHECK(lost < 200);
        CHECK(std::ranges::is_sorted(numbers));
        CHECK(fabric.sw.held_packets() == 0);
        CHECK(fabric.hca(0).own_end().sender().credits(0) > 1024);
        CHECK((round == 0 || numbers == first));
        first = numbers;
        CHECK(fabric.query(ib::Method::kGet, ib::attr::kNodeInfo, 0, {}, {2}));
    }
}

TEST_CASE("faults: duplicates, reordering and delay lose no packet") {
    TestFabric fabric(2);
    fabric.make_active();
    fabric.sw.port(2).egress_faults().set({.duplicate = 0.05,
                                           .reorder = 0.05,
                                           .delay_ns = 1'000'000,
                                           .jitter_ns = 1'000'000,
                                           .seed = 7});
    const auto numbers = run(fabric);
    const auto& counts = fabric.sw.port(2).egress_faults().counts();
    CHECK(numbers.size() == kPackets + counts.duplicated);
    CHECK(counts.duplicated > 100);
    CHECK(counts.reordered > 100);
    CHECK_FALSE(std::ranges::is_sorted(numbers));
    auto sorted = numbers;
    std::ranges::sort(sorted);
    const auto tail = std::ranges::unique(sorted);
    sorted.erase(tail.begin(), tail.end());
    CHECK(sorted.size() == kPackets);
}

TEST_CASE("faults: reordering moves packets by a bounded number of places") {
    TestFabric fabric(2);
    fabric.make_active();
    fabric.sw.port(1).ingress_faults().set({.reorder = 0.1, .reorder_depth = 3, .seed = 5});
    const auto numbers = run(fabric);
    REQUIRE(numbers.size() == kPackets);
    CHECK_FALSE(std::ranges::is_sorted(numbers));
    for (uint32_t i = 0; i < numbers.size(); ++i) {
        const auto moved = static_cast<int64_t>(numbers[i]) - static_cast<int64_t>(i);
        CHECK(std::abs(moved) <= 32);
    }
}

// docs/pib-switch.md: a packet is delayed until later ones have passed, or 20 ms. The switch works
// at its deadlines only, as in the program.
TEST_CASE("faults: a packet that no other one passes leaves after 20 ms") {
    constexpr uint64_t kHeldBackNs = 20'000'000;
    fabric::TimerQueue timers;
    const auto config = TestFabric::default_config();
    TestFabric fabric(2, config, &timers);
    fabric.make_active();
    fabric::SwitchPort& port = fabric.sw.port(1);
    port.ingress_faults().set({.reorder = 1.0});
    REQUIRE(fabric.hca(0).send_packet(make_packet(0, TestFabric::lid_of(1), 64, 1)));
    fabric.settle();
    CHECK(port.next_deadline() == fabric.now_ns() + kHeldBackNs);
    fabric.advance(kHeldBackNs - 1);
    CHECK(fabric.hca(1).packets.empty());
    fabric.advance(1);
    CHECK(fabric.hca(1).packets.size() == 1);
    CHECK(port.next_deadline() == UINT64_MAX);
}

TEST_CASE("faults: the receiver detects corruption") {
    TestFabric fabric(2);
    fabric.make_active();
    fabric.sw.port(2).egress_faults().set({.corrupt = 0.1, .seed = 3});
    const auto numbers = run(fabric);
    const auto corrupted = fabric.sw.port(2).egress_faults().counts().corrupted;
    CHECK(corrupted > 300);
    CHECK(numbers.size() + corrupted == kPackets);
    CHECK(fabric.hca(1).faults.size() == corrupted);
    CHECK(fabric.hca(1).own_end().is_up());

    fabric.sw.port(1).ingress_faults().set({.corrupt = 1.0});
    REQUIRE(fabric.hca(0).send_packet(make_packet(0, 2, 64, 1)));
    fabric.settle();
    CHECK(fabric.count(1, ib::Counter::kPortRcvErrors) == 1);
}

TEST_CASE("faults: corruption above the threshold is reported as a link integrity error") {
    TestFabric fabric(2);
    fabric.make_active();
    REQUIRE(fabric.set_port_info(1, {{ib::port_info::kLocalPhyErrors, 4}}) == 0);
    const auto corrupted = [&](double part, unsigned packets) {
        fabric.sw.port(1).ingress_faults().set({.corrupt = part, .seed = 11});
        run(fabric, packets);
        return fabric.count(1, ib::Counter::kLocalLinkIntegrityErrors);
    };
    CHECK(corrupted(0.05, kPackets) == 0);  // each good packet takes one error off the count
    CHECK(fabric.count(1, ib::Counter::kPortLocalPhysicalErrors) > 100);
    CHECK(traps_of(fabric.hca(0), ib::trap::kLocalLinkIntegrity).empty());
    CHECK(corrupted(1.0, 5) == 1);
    const auto traps = traps_of(fabric.hca(0), ib::trap::kLocalLinkIntegrity);
    REQUIRE_FALSE(traps.empty());
    CHECK(ib::get(traps[0].smp_data(), ib::notice_details::kLid) == TestFabric::kSwitchLid);
    CHECK(ib::get(traps[0].smp_data(), ib::notice_details::kPortNumber) == 1);
    CHECK(corrupted(1.0, 10) == 3);
}

TEST_CASE("faults: link errors before a training do not count for the new link") {
    TestFabric fabric(2);
    fabric.make_active();
    REQUIRE(fabric.set_port_info(2, {{ib::port_info::kLocalPhyErrors, 4}}) == 0);
    fabric.sw.port(2).ingress_faults().set({.corrupt = 1.0});
    const auto errors_after = [&](unsigned packets) {
        for (unsigned i = 0; i < packets; ++i) {
            REQUIRE(fabric.hca(1).send_packet(make_packet(0, TestFabric::lid_of(0), 64, 2)));
            fabric.settle();
        }
        return fabric.count(2, ib::Counter::kLocalLinkIntegrityErrors);
    };
    CHECK(errors_after(4) == 0);  // as many as LocalPhyErrors permits
    for (const bool up : {false, true}) {
        fabric.hca(1).own_end().training().set_parameters(make_parameters(up));
        fabric.settle();
    }
    REQUIRE(fabric.sw.port(2).attrs().link_is_up());
    CHECK(errors_after(4) == 0);
    CHECK(errors_after(1) == 1);
}

TEST_CASE("faults: only the chosen opcode is affected, and VL15 only on request") {
    TestFabric fabric(2);
    fabric.make_active();
    fabric.sw.port(1).ingress_faults().set(
        {.drop = 1.0, .opcode = ib::opcode::kRc | ib::opcode::kAcknowledge});
    CHECK(run(fabric, 10).size() == 10);
    fabric.sw.port(1).ingress_faults().set({.drop = 1.0});
    CHECK(run(fabric, 10).size() == 10);
    CHECK(fabric.query(ib::Method::kGet, ib::attr::kNodeInfo, 0));
    fabric.sw.port(1).ingress_faults().set({.drop = 1.0, .vl15 = true});
    CHECK_FALSE(fabric.query(ib::Method::kGet, ib::attr::kNodeInfo, 0));
    fabric.sw.port(1).ingress_faults().set({});
    CHECK(fabric.query(ib::Method::kGet, ib::attr::kNodeInfo, 0));
}

TEST_CASE("faults: delayed packets are dropped when their link goes down") {
    TestFabric fabric(2);
    fabric.make_active();
    fabric.sw.port(2).egress_faults().set({.delay_ns = 1'000'000'000});
    for (unsigned i = 0; i < 10; ++i) {
        REQUIRE(fabric.hca(0).send_packet(make_packet(0, 2, 64, 1)));
    }
    fabric.settle();
    CHECK(fabric.sw.held_packets() == 10);
    fabric.hca(1).disconnect();
    CHECK(fabric.sw.held_packets() == 0);
    fabric.advance(2'000'000'000);
}

}  // namespace pib::test
