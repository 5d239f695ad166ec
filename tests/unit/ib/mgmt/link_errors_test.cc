// SPDX-License-Identifier: GPL-2.0-or-later
// Thresholds of link errors, and the counters and traps that follow.
#include "ib/mgmt/link_errors.h"

#include <catch2/catch_test_macros.hpp>

using namespace pib::ib;
using pib::link::PacketFault;

namespace {

struct Bench {
    PortAttrs port = make_port({.kind = PortKind::kChannelAdapter, .port_number = 2});
    PortCounters counters;
    LinkErrors errors;
    uint64_t now_ns = 5 * kFlowControlPeriodNs;

    explicit Bench(unsigned threshold) {
        port.set(port_info::kLocalPhyErrors, threshold);
        port.set(port_info::kOverrunErrors, threshold);
    }
    std::optional<LinkError> drop(PacketFault fault) {
        return errors.dropped(fault, port, counters, now_ns);
    }
    // How many of `packets` faults reach the threshold of an error, as dropped() reports it.
    unsigned told(PacketFault fault, unsigned packets) {
        unsigned errors_told = 0;
        for (unsigned i = 0; i < packets; ++i) {
            errors_told += drop(fault) ? 1 : 0;
        }
        return errors_told;
    }
    [[nodiscard]] uint64_t count(Counter counter) const { return counters.value(counter); }
};

}  // namespace

TEST_CASE("each packet fault counts in the sum and in the counter of its kind") {
    struct Row {
        PacketFault fault;
        Counter detail;
    };
    for (const Row& row : {Row{PacketFault::kMalformed, Counter::kPortMalformedPacketErrors},
                           Row{PacketFault::kTooLong, Counter::kPortMalformedPacketErrors},
                           Row{PacketFault::kIcrc, Counter::kPortLocalPhysicalErrors},
                           Row{PacketFault::kVcrc, Counter::kPortLocalPhysicalErrors},
                           Row{PacketFault::kOverrun, Counter::kPortBufferOverrunErrors}}) {
        Bench bench(15);
        CHECK_FALSE(bench.drop(row.fault));
        CHECK(bench.count(Counter::kPortRcvErrors) == 1);
        CHECK(bench.count(row.detail) == 1);
    }
    Bench bench(0);
    CHECK(bench.told(PacketFault::kMalformed, 100) == 0);
}

TEST_CASE("more local physical errors than the threshold are a link integrity error") {
    Bench bench(3);
    CHECK(bench.told(PacketFault::kVcrc, 3) == 0);
    CHECK(bench.drop(PacketFault::kIcrc) == LinkError::kLocalIntegrity);
    CHECK(bench.count(Counter::kLocalLinkIntegrityErrors) == 1);
    CHECK(bench.told(PacketFault::kVcrc, 8) == 2);
    CHECK(bench.count(Counter::kLocalLinkIntegrityErrors) == 3);
    Bench none(0);
    CHECK(none.told(PacketFault::kVcrc, 5) == 5);
}

TEST_CASE("a good packet cancels one local physical error") {
    Bench bench(3);
    for (unsigned i = 0; i < 50; ++i) {
        CHECK_FALSE(bench.drop(PacketFault::kVcrc));
        bench.errors.good(1);
    }
    bench.errors.good(1000);
    CHECK(bench.told(PacketFault::kVcrc, 3) == 0);
    bench.errors.good(2);
    CHECK(bench.told(PacketFault::kVcrc, 2) == 0);
    CHECK(bench.drop(PacketFault::kVcrc) == LinkError::kLocalIntegrity);
}

TEST_CASE("as many successive periods with overruns as the threshold are an excessive overrun") {
    Bench bench(3);
    for (unsigned period = 0; period < 2; ++period) {
        CHECK(bench.told(PacketFault::kOverrun, 100) == 0);
        bench.now_ns += kFlowControlPeriodNs;
    }
    CHECK(bench.drop(PacketFault::kOverrun) == LinkError::kBufferOverrun);
    CHECK(bench.told(PacketFault::kOverrun, 100) == 0);
    CHECK(bench.count(Counter::kExcessiveBufferOverrunErrors) == 1);
    // Periods with overruns are not successive if a period without overruns is between them.
    for (unsigned period = 0; period < 10; ++period) {
        bench.now_ns += (period % 2 + 1) * kFlowControlPeriodNs;
        CHECK_FALSE(bench.drop(PacketFault::kOverrun));
    }
    Bench none(0);
    CHECK(none.told(PacketFault::kOverrun, 5) == 1);
    none.now_ns += kFlowControlPeriodNs;
    CHECK(none.told(PacketFault::kOverrun, 5) == 1);
}

TEST_CASE("the trap of a link error names the port and waits for an Active sender") {
    Bench bench(0);
    PortAttrs sender = make_port({.kind = PortKind::kSwitchPort0, .port_number = 0});
    sender.set(port_info::kLid, 0x31);
    for (const uint16_t number : {129, 130, 131}) {
        const auto error = link_error_of(number);
        REQUIRE(error);
        tell_link_error(*error, 7, bench.port, 0);
        CHECK(bench.port.traps.pending.empty());
        tell_link_error(*error, 7, sender, 0);
        tell_link_error(*error, 7, sender, 1);
        const Notice& notice = sender.traps.pending.back().notice;
        CHECK(get(notice, notice::kTrapNumber) == number);
        CHECK(get(notice, notice::kType) == static_cast<unsigned>(NoticeType::kUrgent));
        CHECK(get(notice, notice_details::kLid) == 0x31);
        CHECK(get(notice, notice_details::kPortNumber) == 7);
    }
    CHECK(sender.traps.pending.size() == 3);
    CHECK_FALSE(link_error_of(128));
    CHECK_FALSE(link_error_of(132));
    count_link_error(LinkError::kFlowControlUpdate, bench.counters);
    CHECK(bench.count(Counter::kPortVlXmitFlowCtlUpdateErrors) == 1);
}
