// SPDX-License-Identifier: GPL-2.0-or-later
// The PMA: widths, selection and clearing, all ports of a switch, sampling over time.
#include "ib/mgmt/perf_counters.h"

#include <algorithm>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <vector>

using namespace pib::ib;

namespace {

Lrh packet(uint16_t dlid, uint16_t pkt_len, uint8_t sl = 0) {
    return {.sl = Sl(sl), .dlid = Lid(dlid), .pkt_len = pkt_len};
}

struct Hca {
    std::vector<PortCounters> counters{2};
    PortSampling sampling;
    PmaNode node() { return {.ports = counters, .sampling = sampling, .first_port = 1}; }
};

struct Switch {
    std::vector<PortCounters> counters{9};
    PortSampling sampling;
    PmaNode node() {
        return {.ports = counters, .sampling = sampling, .first_port = 0, .all_port_select = true};
    }
};

Mad perf(Method method, uint16_t attribute, unsigned port = 1, unsigned select = 0) {
    Mad mad;
    mad.set(mad_header::kBaseVersion, 1);
    mad.set(mad_header::kMgmtClass, static_cast<unsigned>(MgmtClass::kPerf));
    mad.set(mad_header::kClassVersion, 1);
    mad.set(mad_header::kMethod, static_cast<unsigned>(method));
    mad.set(mad_header::kAttributeId, attribute);
    set(mad.gmp_data(), pma::kPortSelect, port);
    set(mad.gmp_data(), pma::kCounterSelect, select);
    return mad;
}

Mad ask(const PmaNode& node, const Mad& request, uint64_t now_ns = 0) {
    const auto reply = pma_answer(node, request, now_ns);
    REQUIRE(reply.has_value());
    CHECK(reply->method() == Method::kGetResp);
    return *reply;
}

uint64_t read(const PmaNode& node, Field field, unsigned port = 1,
              uint16_t attribute = attr::kPortCounters) {
    const Mad reply = ask(node, perf(Method::kGet, attribute, port));
    CHECK(reply.status() == mad_status::kOk);
    return get(reply.gmp_data(), field);
}

}  // namespace

TEST_CASE("ClassPortInfo names the capabilities of the PMA") {
    Hca hca;
    Mad reply = ask(hca.node(), perf(Method::kGet, attr::kClassPortInfo));
    CHECK(get(reply.gmp_data(), class_port_info::kBaseVersion) == 1);
    CHECK(get(reply.gmp_data(), class_port_info::kClassVersion) == 1);
    CHECK(get(reply.gmp_data(), class_port_info::kCapabilityMask) == 0x9200);
    CHECK(get(reply.gmp_data(), class_port_info::kCapabilityMask2) == 2);
    Switch sw;
    reply = ask(sw.node(), perf(Method::kGet, attr::kClassPortInfo));
    CHECK(get(reply.gmp_data(), class_port_info::kCapabilityMask) == 0x9300);
}

TEST_CASE("unsupported queries get their status") {
    Hca hca;
    const PmaNode node = hca.node();
    const auto status = [&](Mad request) { return ask(node, request).status(); };
    Mad version = perf(Method::kGet, attr::kPortCounters);
    version.set(mad_header::kClassVersion, 3);
    CHECK(status(version) == mad_status::kBadVersion);
    CHECK(status(perf(Method::kTrap, attr::kNotice)) == mad_status::kBadMethod);
    CHECK(status(perf(Method::kGet, 0x99)) == mad_status::kBadMethodAttribute);
    CHECK(status(perf(Method::kSet, attr::kClassPortInfo)) == mad_status::kBadMethodAttribute);
    CHECK(status(perf(Method::kSet, attr::kPortSamplesResult)) == mad_status::kBadMethodAttribute);
    for (const unsigned port : {0U, 3U, 255U}) {
        CHECK(status(perf(Method::kGet, attr::kPortCounters, port)) == mad_status::kBadField);
        CHECK(status(perf(Method::kSet, attr::kPortCountersExtended, port)) ==
              mad_status::kBadField);
        CHECK(status(perf(Method::kSet, attr::kPortSamplesControl, port)) == mad_status::kBadField);
    }
    Mad modifier = perf(Method::kGet, attr::kPortCounters);
    modifier.set(mad_header::kAttributeModifier, 1);
    CHECK(status(modifier) == mad_status::kBadField);
    modifier.set(mad_header::kAttributeId, 0x99);
    CHECK(status(modifier) == mad_status::kBadMethodAttribute);

    Mad base = perf(Method::kGet, attr::kPortCounters);
    base.set(mad_header::kBaseVersion, 2);
    CHECK_FALSE(pma_answer(node, base, 0).has_value());
    CHECK_FALSE(pma_answer(node, perf(Method::kGetResp, attr::kPortCounters), 0).has_value());
}

TEST_CASE("packets are counted as words and by kind of destination") {
    Hca hca;
    hca.counters[0].count_sent(packet(5, 14));
    hca.counters[0].count_sent(packet(0xC001, 6));
    hca.counters[0].count_received(packet(5, 7));
    const PmaNode node = hca.node();
    CHECK(read(node, port_counters::kPortXmitData) == 20);
    CHECK(read(node, port_counters::kPortXmitPkts) == 2);
    CHECK(read(node, port_counters::kPortRcvData) == 7);
    CHECK(read(node, port_counters::kPortRcvPkts) == 1);
    const auto ext = [&](Field field) { return read(node, field, 1, attr::kPortCountersExtended); };
    CHECK(ext(port_counters_ext::kPortUnicastXmitPkts) == 1);
    CHECK(ext(port_counters_ext::kPortMulticastXmitPkts) == 1);
    CHECK(ext(port_counters_ext::kPortUnicastRcvPkts) == 1);
    CHECK(ext(port_counters_ext::kPortMulticastRcvPkts) == 0);
    CHECK(read(node, port_counters::kPortXmitData, 2) == 0);
    // The permissive LID is not a multicast LID.
    hca.counters[0].count_sent(packet(0xFFFF, 72));
    hca.counters[0].count_received(packet(0xFFFF, 72));
    CHECK(ext(port_counters_ext::kPortUnicastXmitPkts) == 2);
    CHECK(ext(port_counters_ext::kPortMulticastXmitPkts) == 1);
    CHECK(ext(port_counters_ext::kPortUnicastRcvPkts) == 2);
    CHECK(ext(port_counters_ext::kPortMulticastRcvPkts) == 0);
}

TEST_CASE("counters stop at the maximum of their field") {
    Hca hca;
    PortCounters& c = hca.counters[0];
    const PmaNode node = hca.node();
    c.add(Counter::kLocalLinkIntegrityErrors, 16);
    c.add(Counter::kLinkDowned, 300);
    c.add(Counter::kSymbolErrors, 70000);
    c.add(Counter::kPortXmitData, 0x1'0000'0005);
    CHECK(read(node, port_counters::kLocalLinkIntegrityErrors) == 15);
    CHECK(read(node, port_counters::kLinkDowned) == 255);
    CHECK(read(node, port_counters::kSymbolErrors) == 65535);
    CHECK(read(node, port_counters::kPortXmitData) == 0xFFFFFFFF);
    CHECK(read(node, port_counters_ext::kPortXmitData, 1, attr::kPortCountersExtended) ==
          0x1'0000'0005);
    CHECK(read(node, port_counters_ext::kLinkDowned, 1, attr::kPortCountersExtended) == 300);
}

TEST_CASE("a Set writes the selected counters of its attribute") {
    Hca hca;
    PortCounters& c = hca.counters[0];
    const PmaNode node = hca.node();
    c.add(Counter::kSymbolErrors, 10);
    c.add(Counter::kLinkDowned, 20);
    c.add(Counter::kPortXmitWait, 30);
    Mad reply = ask(node, perf(Method::kSet, attr::kPortCounters, 1, 1U << 0));
    CHECK(reply.status() == mad_status::kOk);
    CHECK(get(reply.gmp_data(), port_counters::kSymbolErrors) == 0);
    CHECK(read(node, port_counters::kSymbolErrors) == 0);
    CHECK(read(node, port_counters::kLinkDowned) == 20);
    CHECK(read(node, port_counters_ext::kSymbolErrors, 1, attr::kPortCountersExtended) == 10);
    c.add(Counter::kSymbolErrors, 3);
    CHECK(read(node, port_counters::kSymbolErrors) == 3);

    Mad wait = perf(Method::kSet, attr::kPortCounters, 1, 0);
    set(wait.gmp_data(), port_counters::kCounterSelect2, 1);
    ask(node, wait);
    CHECK(read(node, port_counters::kPortXmitWait) == 0);
    CHECK(read(node, port_counters::kLinkDowned) == 20);

    Mad value = perf(Method::kSet, attr::kPortCounters, 1, 1U << 2);
    set(value.gmp_data(), port_counters::kLinkDowned, 100);
    ask(node, value);
    CHECK(read(node, port_counters::kLinkDowned) == 100);
    c.add(Counter::kLinkDowned, 200);
    CHECK(read(node, port_counters::kLinkDowned) == 255);

    Mad extended = perf(Method::kSet, attr::kPortCountersExtended, 1, 0);
    set(extended.gmp_data(), port_counters_ext::kCounterSelect2, 1U << 2);
    ask(node, extended);
    CHECK(read(node, port_counters_ext::kLinkDowned, 1, attr::kPortCountersExtended) == 0);
    CHECK(read(node, port_counters::kLinkDowned) == 255);
}

namespace {

// Bits in which two answers differ.
std::set<size_t> changed_bits(const Mad& before, const Mad& after) {
    std::set<size_t> changed;
    for (size_t bit = 0; bit < 8 * kGmpDataSize; ++bit) {
        const auto differ = before.gmp_data()[bit / 8] ^ after.gmp_data()[bit / 8];
        if ((differ >> bit % 8 & 1) != 0) {
            changed.insert(bit);
        }
    }
    return changed;
}

// A Set of `attribute` that clears the counter of `bit`. CounterSelect has bits 0 to 15; the others
// are in CounterSelect2, which some attributes lack.
Mad clear_by(uint16_t attribute, unsigned bit) {
    Mad clear = perf(Method::kSet, attribute, 1, bit < 16 ? 1U << bit : 0);
    if (attribute == attr::kPortCounters && bit >= 16 && bit < 24) {
        set(clear.gmp_data(), port_counters::kCounterSelect2, 1U << (bit - 16));
    }
    if (attribute == attr::kPortCountersExtended && bit >= 16) {
        set(clear.gmp_data(), port_counters_ext::kCounterSelect2, 1U << (bit - 16));
    }
    return clear;
}

void fill(PortCounters& counters, uint64_t value) {
    for (size_t i = 0; i < kCounterCount; ++i) {
        counters.add(static_cast<Counter>(i), value);
    }
}

struct SelectBits {
    uint16_t attribute;
    uint32_t bits;  // bits that select a counter
};
constexpr SelectBits kSelectBits[] = {
    {attr::kPortCounters, 0x3'ffff},         {attr::kPortCountersExtended, 0x3fff'00ff},
    {attr::kPortRcvErrorDetails, 0x3f},      {attr::kPortXmitDiscardDetails, 0xf},
    {attr::kPortXmitDataSl, 0xffff},         {attr::kPortRcvDataSl, 0xffff},
    {attr::kPortVlXmitWaitCounters, 0xffff}, {attr::kPortVlXmitFlowCtlUpdateErrors, 0xffff},
};

}  // namespace

TEST_CASE("every counter of every attribute has its own select bit") {
    for (const auto& [attribute, bits] : kSelectBits) {
        Hca zero;
        Hca full;
        fill(full.counters[0], 1);
        const auto all = changed_bits(ask(zero.node(), perf(Method::kGet, attribute)),
                                      ask(full.node(), perf(Method::kGet, attribute)));
        std::set<size_t> seen;
        for (unsigned bit = 0; bit < 32; ++bit) {
            Hca hca;
            fill(hca.counters[0], 1);
            const PmaNode node = hca.node();
            const Mad before = ask(node, perf(Method::kGet, attribute));
            ask(node, clear_by(attribute, bit));
            const auto cleared = changed_bits(before, ask(node, perf(Method::kGet, attribute)));
            CAPTURE(attribute, bit);
            CHECK(cleared.size() == (bits >> bit & 1));
            seen.insert(cleared.begin(), cleared.end());
        }
        CHECK(seen == all);
        CHECK(seen.size() == static_cast<size_t>(std::popcount(bits)));
    }
}

TEST_CASE("each of the 38 counters of extended speeds has its own select bit") {
    namespace es = port_extended_speeds;
    Hca hca;
    fill(hca.counters[0], 5);
    const PmaNode node = hca.node();
    for (unsigned bit = 0; bit < 64; ++bit) {
        Mad clear = perf(Method::kSet, attr::kPortExtendedSpeedsCounters);
        set(clear.gmp_data(), es::kCounterSelect, uint64_t{1} << bit);
        const Mad reply = ask(node, clear);
        CHECK(reply.status() == mad_status::kOk);
        CHECK(get(reply.gmp_data(), es::kCounterSelect) == uint64_t{1} << bit);
        const Mad after = ask(node, perf(Method::kGet, attr::kPortExtendedSpeedsCounters));
        // 14 counters of two bytes from byte 16 on, then 24 of four.
        const auto left = std::ranges::count(after.gmp_data().subspan(16), 5);
        CAPTURE(bit);
        CHECK(left == std::max(0, 37 - static_cast<int>(bit)));
    }
    CHECK(read(node, es::kFecUncorrectableBlocksLane0.next(11), 1,
               attr::kPortExtendedSpeedsCounters) == 0);
    Mad value = perf(Method::kSet, attr::kPortExtendedSpeedsCounters);
    set(value.gmp_data(), es::kCounterSelect, 1U << 2);
    set(value.gmp_data(), es::kErrorDetectionLane0, 77);
    CHECK(get(ask(node, value).gmp_data(), es::kErrorDetectionLane0) == 77);
    CHECK(hca.counters[0].value(Counter::kErrorDetectionLane) == 77);
}

TEST_CASE("data is also counted by SL, including multicast and subnet management") {
    Hca hca;
    PortCounters& c = hca.counters[0];
    c.count_sent(packet(5, 14, 3));
    c.count_sent(packet(0xC001, 6, 3));
    c.count_sent(packet(5, 9, 15));
    c.count_received(packet(5, 7, 0));
    const PmaNode node = hca.node();
    const auto sent = [&](unsigned sl) {
        return get(ask(node, perf(Method::kGet, attr::kPortXmitDataSl)).gmp_data().subspan(4 * sl),
                   port_data_sl::kFirst);
    };
    CHECK(sent(0) == 0);
    CHECK(sent(3) == 20);
    CHECK(sent(15) == 9);
    CHECK(read(node, port_data_sl::kFirst, 1, attr::kPortRcvDataSl) == 7);
    CHECK(read(node, port_data_sl::kFirst, 2, attr::kPortRcvDataSl) == 0);
    ask(node, perf(Method::kSet, attr::kPortXmitDataSl, 1, 1U << 3));
    CHECK(sent(3) == 0);
    CHECK(sent(15) == 9);
    CHECK(read(node, port_counters::kPortXmitData) == 29);
}

TEST_CASE("counters of a VL stop at the maximum of their field") {
    Hca hca;
    PortCounters& c = hca.counters[0];
    c.add(counter_of(Counter::kPortVlXmitWait, 0), 70000);
    c.add(counter_of(Counter::kPortVlXmitFlowCtlUpdateErrors, 1), 4);
    const PmaNode node = hca.node();
    CHECK(read(node, port_vl_xmit_wait_counters::kFirst, 1, attr::kPortVlXmitWaitCounters) ==
          65535);
    const Mad errors = ask(node, perf(Method::kGet, attr::kPortVlXmitFlowCtlUpdateErrors));
    CHECK(errors.gmp_data()[4] == 0b00'11'00'00);
}

TEST_CASE("PortRcvErrorDetails and PortXmitDiscardDetails have their counters") {
    Hca hca;
    hca.counters[0].add(Counter::kPortMalformedPacketErrors, 2);
    hca.counters[0].add(Counter::kPortSwHoqLifetimeLimitDiscards, 3);
    const PmaNode node = hca.node();
    CHECK(read(node, port_rcv_error_details::kPortMalformedPacketErrors, 1,
               attr::kPortRcvErrorDetails) == 2);
    CHECK(read(node, port_xmit_discard_details::kPortSwHoqLifetimeLimitDiscards, 1,
               attr::kPortXmitDiscardDetails) == 3);
    ask(node, perf(Method::kSet, attr::kPortRcvErrorDetails, 1, 0x3F));
    CHECK(read(node, port_rcv_error_details::kPortMalformedPacketErrors, 1,
               attr::kPortRcvErrorDetails) == 0);
}

TEST_CASE("a switch sums and clears all ports at once") {
    Switch sw;
    const PmaNode node = sw.node();
    for (auto& counters : sw.counters) {
        counters.add(Counter::kPortRcvErrors, 10000);
    }
    CHECK(read(node, port_counters::kPortRcvErrors, 0) == 10000);
    CHECK(read(node, port_counters::kPortRcvErrors, 255) == 65535);
    CHECK(read(node, port_counters_ext::kPortRcvErrors, 255, attr::kPortCountersExtended) == 90000);
    ask(node, perf(Method::kSet, attr::kPortCounters, 255, 1U << 3));
    CHECK(read(node, port_counters::kPortRcvErrors, 255) == 0);
    CHECK(read(node, port_counters::kPortRcvErrors, 8) == 0);
}

TEST_CASE("a sampling counts the events of its interval") {
    Hca hca;
    const PmaNode node = hca.node();
    Mad control = perf(Method::kSet, attr::kPortSamplesControl, 2);
    const auto data = control.gmp_data();
    set(data, port_samples_control::kSampleStart, 10);
    set(data, port_samples_control::kSampleInterval, 100);
    set(data, port_samples_control::kTag, 0x55);
    store_be(&data[38], uint16_t{3});  // PortXmitPkts
    store_be(&data[40], uint16_t{1});  // PortXmitData
    CHECK(ask(node, control, 1000).status() == mad_status::kOk);
    CHECK(hca.sampling.status == PortSampling::Status::kStarted);

    hca.counters[1].count_sent(packet(1, 8));
    REQUIRE(hca.sampling.deadline_ns() == 11'000);
    pma_advance(node, 11'000);
    hca.counters[1].count_sent(packet(1, 8));
    hca.counters[1].count_sent(packet(1, 8));
    // A Set does not start another measurement while this one runs.
    Mad other = control;
    set(other.gmp_data(), port_samples_control::kTag, 0x66);
    const Mad busy = ask(node, other, 50'000);
    CHECK(get(busy.gmp_data(), port_samples_control::kSampleStatus) == 2);
    CHECK(get(busy.gmp_data(), port_samples_control::kTag) == 0x55);
    REQUIRE(hca.sampling.deadline_ns() == 111'000);
    pma_advance(node, 111'000);
    CHECK_FALSE(hca.sampling.deadline_ns().has_value());
    hca.counters[1].count_sent(packet(1, 8));

    const Mad result = ask(node, perf(Method::kGet, attr::kPortSamplesResult), 200'000);
    CHECK(get(result.gmp_data(), port_samples_result::kTag) == 0x55);
    CHECK(get(result.gmp_data(), port_samples_result::kSampleStatus) == 0);
    CHECK(load_be<uint32_t>(&result.gmp_data()[4]) == 2);
    CHECK(load_be<uint32_t>(&result.gmp_data()[8]) == 16);
    const Mad extended = ask(node, perf(Method::kGet, attr::kPortSamplesResultExtended), 200'000);
    CHECK(load_be<uint64_t>(&extended.gmp_data()[8]) == 2);
    CHECK(load_be<uint64_t>(&extended.gmp_data()[16]) == 16);
}

TEST_CASE("optional counters that OptionMask has can be sampled, too") {
    namespace psc = port_samples_control;
    Hca hca;
    const PmaNode node = hca.node();
    const Mad idle = ask(node, perf(Method::kGet, attr::kPortSamplesControl));
    CHECK(get(idle.gmp_data(), psc::kOptionMask) == 0x0180'0000'10C0'FFC0);
    Mad control = perf(Method::kSet, attr::kPortSamplesControl);
    set(control.gmp_data(), psc::kSampleInterval, 1);
    const uint16_t selects[] = {0x4005, 0x400E, 0x4316, 0x4F15, 0x0005};
    for (size_t i = 0; i < std::size(selects); ++i) {
        store_be(&control.gmp_data()[psc::kCounterSelect0Offset + 2 * i], selects[i]);
    }
    CHECK(ask(node, control).status() == mad_status::kOk);
    PortCounters& c = hca.counters[0];
    c.add(Counter::kPortLocalPhysicalErrors, 2);
    c.add(Counter::kPortSwHoqLifetimeLimitDiscards, 3);
    c.add(counter_of(Counter::kPortVlXmitWait, 3), 4);
    c.add(counter_of(Counter::kPortVlXmitFlowCtlUpdateErrors, 15), 5);
    const Mad result = ask(node, perf(Method::kGet, attr::kPortSamplesResult), kPmaTickNs);
    const auto data = result.gmp_data().subspan(port_samples_result::kCounter0Offset);
    for (size_t i = 0; i < 4; ++i) {
        CHECK(load_be<uint32_t>(&data[4 * i]) == i + 2);
    }
    CHECK(load_be<uint32_t>(&data[16]) == 0);
}

TEST_CASE("the samples control of a switch names the port of the measurement, port 0 as well") {
    namespace psc = port_samples_control;
    Switch sw;
    const auto port_of_answer = [&] {
        const Mad answer = ask(sw.node(), perf(Method::kGet, attr::kPortSamplesControl, 3), 1);
        return get(answer.gmp_data(), psc::kPortSelect);
    };
    CHECK(port_of_answer() == 3);  // no measurement yet
    CHECK(ask(sw.node(), perf(Method::kSet, attr::kPortSamplesControl, 0), 1).status() ==
          mad_status::kOk);
    CHECK(port_of_answer() == 0);
}

TEST_CASE("a sampling of an unsupported counter is refused") {
    Hca hca;
    Mad control = perf(Method::kSet, attr::kPortSamplesControl, 1);
    for (const unsigned select : {0x0006U, 0x4004U, 0x400FU, 0x4017U, 0x5016U, 0xC000U}) {
        store_be(&control.gmp_data()[38], static_cast<uint16_t>(select));
        CHECK(ask(hca.node(), control).status() == mad_status::kBadField);
    }
    store_be(&control.gmp_data()[38], uint16_t{1});
    store_be(&control.gmp_data()[48], uint16_t{1});
    CHECK(ask(hca.node(), control).status() == mad_status::kBadField);
    CHECK(hca.sampling == PortSampling{});
}
