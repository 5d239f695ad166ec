// SPDX-License-Identifier: GPL-2.0-or-later
// Performance management: queries that the device answers, and the counters behind them.
#include <catch2/generators/catch_generators.hpp>
#include <cstring>

#include "port_bench.h"

using namespace pib;
using namespace pib::hca;
using namespace pib::hca::test;
using ib::Counter;
using ib::Method;
using ib::MgmtClass;

namespace {

ib::Mad get_counters(uint8_t port = 1) {
    ib::Mad mad = make_mad(MgmtClass::kPerf, Method::kGet, ib::attr::kPortCounters);
    ib::set(mad.gmp_data(), ib::pma::kPortSelect, port);
    return mad;
}

// An Active port on whose VL 0 a packet waits for credits.
struct StalledPort : PortBench {
    StalledPort() {
        bring_up(160);
        peer_events.hold = true;
        while (send_data(0x20, 2048)) {
            pump();
        }
        take_sent();
    }
    void wait(uint64_t ns) {
        host.clock_ns += ns;
        pump();
    }
    // Asks over VL 1, which has credits.
    ib::Mad ask_pma(const ib::Mad& query) {
        MadPacket ends = gmp_to(kLid);
        ends.sl = ends.vl = 1;
        inject(ends, query);
        const auto replies = take_sent_mads();
        REQUIRE(replies.size() == 1);
        CHECK(replies[0].status() == 0);
        return replies[0];
    }
    uint64_t asked_wait() {
        return ib::get(ask_pma(get_counters()).gmp_data(), ib::port_counters::kPortXmitWait);
    }
    uint64_t asked_wait_of_vl(unsigned vl) {
        ib::Mad query = make_mad(MgmtClass::kPerf, Method::kGet, ib::attr::kPortVlXmitWaitCounters);
        ib::set(query.gmp_data(), ib::pma::kPortSelect, 1);
        // Two octets for each VL.
        const size_t at = ib::port_vl_xmit_wait_counters::kFirst.offset_bits / 8 + 2 * vl;
        return ib::load_be<uint16_t>(&ask_pma(query).gmp_data()[at]);
    }
};

}  // namespace

TEST_CASE("PMA answers return to the sender of the query") {
    PortBench bench;
    bench.bring_up();
    bench.take_sent();
    MadPacket ends = gmp_to(PortBench::kLid);
    ends.sl = 3;
    ends.src_qp = 0x456;
    bench.inject(ends, get_counters());
    const auto sent = bench.take_sent();
    REQUIRE(sent.size() == 1);
    const auto view = ib::PacketView::parse(sent[0], ib::Crcs::kElided);
    CHECK(view->lrh().dlid.value() == PortBench::kSmLid);
    CHECK(view->lrh().slid.value() == PortBench::kLid);
    CHECK(view->lrh().sl.value() == 3);
    CHECK(view->lrh().vl.value() == 3);  // the initial table maps SL 3 to VL 3
    CHECK(view->bth().dest_qp.value() == 0x456);
    CHECK(view->bth().pkey == ib::kDefaultPKey);
    CHECK(view->deth()->qkey == ib::kGsiQKey);
    CHECK(view->deth()->src_qp == ib::kQp1);
    CHECK_FALSE(view->grh());
    const ib::Mad reply = mad_of(sent[0]);
    CHECK(reply.method() == Method::kGetResp);
    CHECK(reply.status() == 0);
    CHECK(bench.client.packets.empty());
}

TEST_CASE("PMA answers swap the addresses of the GRH") {
    PortBench bench;
    bench.bring_up();
    // The default prefix is valid with another prefix of the subnet as well (IBA 4.1.1).
    const uint64_t prefix = GENERATE(ib::kDefaultGidPrefix, uint64_t{0xfec0000000001234});
    bench.set_port_info(
        [&](std::span<uint8_t> info) { ib::set(info, ib::port_info::kGidPrefix, prefix); });
    bench.take_sent();
    MadPacket ends = gmp_to(PortBench::kLid);
    ib::Grh grh{.tclass = 7, .flow_label = 0x12345, .hop_lmt = 1};
    grh.sgid = ib::Gid::from(ib::kDefaultGidPrefix, ib::Guid(0x99));
    grh.dgid = ib::Gid::from(ib::kDefaultGidPrefix, ib::Guid(0x5254000000000011));
    ends.grh = grh;
    bench.inject(ends, get_counters());
    const auto sent = bench.take_sent();
    REQUIRE(sent.size() == 1);
    const auto view = ib::PacketView::parse(sent[0], ib::Crcs::kElided);
    REQUIRE(view->grh());
    CHECK(view->grh()->sgid == grh.dgid);
    CHECK(view->grh()->dgid == grh.sgid);
    CHECK(view->grh()->tclass == 7);
    CHECK(view->grh()->flow_label == 0x12345);
}

TEST_CASE("a limited member is answered with the port's own P_Key of that partition") {
    PortBench bench;
    bench.bring_up();
    bench.take_sent();
    MadPacket ends = gmp_to(PortBench::kLid);
    ends.pkey = 0x7fff;
    bench.inject(ends, get_counters());
    const auto sent = bench.take_sent();
    REQUIRE(sent.size() == 1);
    CHECK(ib::PacketView::parse(sent[0], ib::Crcs::kElided)->bth().pkey.value() == 0xffff);
}

TEST_CASE("wrong keys on QP1 are dropped, counted and reported by a trap") {
    PortBench bench;
    bench.bring_up();
    bench.take_sent();
    MadPacket ends = gmp_to(PortBench::kLid);
    SECTION("P_Key") {
        ends.pkey = 0x8001;
        bench.inject(ends, get_counters());
        CHECK(bench.attrs().get(ib::port_info::kPKeyViolations) == 1);
    }
    SECTION("Q_Key") {
        ends.qkey = 1;
        bench.inject(ends, get_counters());
        CHECK(bench.attrs().get(ib::port_info::kQKeyViolations) == 1);
    }
    CHECK(bench.take_sent().empty());
    CHECK(bench.client.packets.empty());
    CHECK(bench.attrs().traps.pending.size() == 1);
}

TEST_CASE("PMA queries whose SLID is of no port are dropped") {
    PortBench bench;
    bench.bring_up();
    bench.take_sent();
    MadPacket ends = gmp_to(PortBench::kLid);
    ends.slid = GENERATE(uint16_t{0}, uint16_t{0xc001}, ib::Lid::kPermissiveValue);
    const bool wrong_key = GENERATE(false, true);
    ends.qkey += wrong_key ? 1 : 0;
    bench.inject(ends, get_counters());
    CHECK(bench.take_sent().empty());
    CHECK(bench.counters.total(HcaCounter::kRxDropped) == 1);
    CHECK(bench.attrs().traps.pending.empty());  // a trap would name the SLID
}

TEST_CASE("other MADs on QP1 reach the guest") {
    PortBench bench;
    bench.bring_up();
    bench.take_sent();
    ib::Mad mad = make_mad(MgmtClass::kComMgt, Method::kSend, 0x10);
    MadPacket ends = gmp_to(PortBench::kLid);
    SECTION("another class") {}
    SECTION("a response to the guest's query") {
        mad = make_mad(MgmtClass::kPerf, Method::kGetResp, ib::attr::kPortCounters);
    }
    SECTION("keys of the guest's MADs are checked by the transport") {
        ends.qkey = 1;
    }
    const Bytes packet = make_packet(ends, mad);
    bench.inject(packet);
    CHECK(bench.take_sent().empty());
    const auto delivered = bench.take_delivered();
    REQUIRE(delivered.size() == 1);
    CHECK(delivered[0] == packet);
}

TEST_CASE("malformed PMA queries get their status") {
    PortBench bench;
    bench.bring_up();
    bench.take_sent();
    const auto status = [&](const ib::Mad& mad) {
        bench.inject(gmp_to(PortBench::kLid), mad);
        const auto replies = bench.take_sent_mads();
        REQUIRE(replies.size() == 1);
        return replies[0].status();
    };
    CHECK(status(get_counters(2)) == ib::mad_status::kBadField);
    ib::Mad mad = get_counters();
    mad.set(ib::mad_header::kClassVersion, 9);
    CHECK(status(mad) == ib::mad_status::kBadVersion);
    mad = make_mad(MgmtClass::kPerf, Method::kSend, ib::attr::kPortCounters);
    CHECK(status(mad) == ib::mad_status::kBadMethod);
    mad = make_mad(MgmtClass::kPerf, Method::kGet, 0x7777);
    CHECK(status(mad) == ib::mad_status::kBadMethodAttribute);
}

TEST_CASE("an answer without a credit waits for one") {
    PortBench bench;
    bench.bring_up(160);
    bench.peer_events.hold = true;
    while (bench.send_data(0x20, 2048)) {
        bench.pump();
    }
    while (bench.send_data(0x20, 4)) {
        bench.pump();
    }
    bench.take_sent();
    bench.inject(gmp_to(PortBench::kLid), get_counters());
    CHECK(bench.take_sent().empty());
    bench.peer_events.release_all();
    bench.pump();
    const auto mads = bench.take_sent_mads();
    REQUIRE(mads.size() == 1);
    CHECK(mads[0].method() == Method::kGetResp);
    CHECK(bench.counter(Counter::kQp1Dropped) == 0);
}

TEST_CASE("a flood of PMA queries is bounded, and dropped queries are counted") {
    PortBench bench;
    bench.bring_up(160);
    bench.peer_events.hold = true;
    bench.take_sent();
    const Bytes query = make_packet(gmp_to(PortBench::kLid), get_counters());
    constexpr uint64_t kQueries = 1000;
    for (uint64_t i = 0; i < kQueries; ++i) {
        bench.inject(query);
    }
    const uint64_t dropped = bench.counter(Counter::kQp1Dropped);
    CHECK(dropped > 0);
    uint64_t answered = bench.take_sent().size();
    CHECK(answered > 0);
    bench.peer_events.hold = false;
    bench.peer_events.release_all();
    bench.pump();
    answered += bench.take_sent().size();
    CHECK(answered + dropped == kQueries);
    CHECK(bench.client.packets.empty());
}

TEST_CASE("data counters count 4-octet words from LRH to ICRC, on all VLs") {
    PortBench bench;
    bench.bring_up();
    ib::PortCounters& pma = bench.pma();
    const uint64_t sent = pma.value(Counter::kPortXmitData);
    const uint64_t sent_pkts = pma.value(Counter::kPortXmitPkts);
    const uint64_t got = pma.value(Counter::kPortRcvData);
    REQUIRE(bench.send_data(0x20, 64));
    // LRH 8, BTH 12, DETH 8, payload 64, ICRC 4.
    CHECK(pma.value(Counter::kPortXmitData) - sent == 24);
    CHECK(pma.value(Counter::kPortXmitPkts) - sent_pkts == 1);
    REQUIRE(bench.send_data(0xc001, 64));
    CHECK(pma.value(Counter::kPortMulticastXmitPkts) == 1);
    bench.inject(::pib::test::make_packet(0, PortBench::kLid, 128));
    CHECK(pma.value(Counter::kPortRcvData) - got == 40);
    const uint64_t smps = pma.value(Counter::kPortRcvPkts);
    bench.ask(make_dr_smp(Method::kGet, ib::attr::kNodeInfo));
    CHECK(pma.value(Counter::kPortRcvPkts) == smps + 1);
    // Packets to the port itself do not use the link.
    const uint64_t before = pma.value(Counter::kPortXmitPkts);
    REQUIRE(bench.send_data(PortBench::kLid, 64));
    bench.pump();
    CHECK(pma.value(Counter::kPortXmitPkts) == before);
    CHECK(bench.counters.total(HcaCounter::kRxPackets) >= 3);
}

TEST_CASE("a query to the GID of another port is not answered") {
    PortBench bench;
    bench.bring_up();
    bench.take_sent();
    MadPacket ends = gmp_to(PortBench::kLid);
    ends.grh = ib::Grh{.hop_lmt = 1};
    ends.grh->dgid = ib::Gid::from(ib::kDefaultGidPrefix, ib::Guid(0x98));
    bench.inject(ends, get_counters());
    CHECK(bench.take_sent().empty());
    CHECK(bench.client.packets.empty());
}

TEST_CASE("PortXmitWait and PortVLXmitWait move while data waits") {
    StalledPort bench;
    bench.wait(50'000);
    CHECK(bench.asked_wait() == 50);
    bench.wait(20'000);
    CHECK(bench.asked_wait_of_vl(0) == 70);
    CHECK(bench.asked_wait_of_vl(1) == 0);
    pib_hca_mad_ifc in{};
    const ib::Mad query = get_counters();
    std::memcpy(in.mad, query.bytes.data(), sizeof(in.mad));
    bench.wait(5'000);
    const auto reply = mad_ifc(bench.ports, 1, in, bench.host.clock_ns);
    REQUIRE(reply);
    REQUIRE(reply->has_mad());
    CHECK(ib::get(reply->mad.gmp_data(), ib::port_counters::kPortXmitWait) == 75);
    bench.peer_events.release_all();
    bench.pump();
    bench.wait(9'000);
    CHECK(bench.asked_wait() == 75);
}

TEST_CASE("PortXmitWait counts a time once, however many VLs wait") {
    StalledPort bench;
    while (bench.send_data(0x20, 2048, 2)) {
        bench.pump();
    }
    bench.take_sent();
    bench.wait(40'000);
    CHECK(bench.asked_wait() == 40);
    CHECK(bench.asked_wait_of_vl(0) == 40);
    CHECK(bench.asked_wait_of_vl(2) == 40);
}

TEST_CASE("samples of PortXmitWait begin and end while data waits") {
    StalledPort bench;
    bench.wait(50'000);
    ib::Mad control = make_mad(MgmtClass::kPerf, Method::kSet, ib::attr::kPortSamplesControl);
    ib::set(control.gmp_data(), ib::pma::kPortSelect, 1);
    ib::set(control.gmp_data(), ib::port_samples_control::kSampleStart, 10);
    ib::set(control.gmp_data(), ib::port_samples_control::kSampleInterval, 20);
    constexpr uint16_t kPortXmitWait = 5;  // IBA table 220
    ib::store_be(&control.gmp_data()[ib::port_samples_control::kCounterSelect0Offset],
                 kPortXmitWait);
    bench.ask_pma(control);
    bench.advance(100'000);
    const ib::Mad result =
        bench.ask_pma(make_mad(MgmtClass::kPerf, Method::kGet, ib::attr::kPortSamplesResult));
    CHECK(ib::load_be<uint32_t>(&result.gmp_data()[ib::port_samples_result::kCounter0Offset]) ==
          20);
}

TEST_CASE("a wait counts even if the link or the port ends it") {
    StalledPort bench;
    bench.host.clock_ns += 50'000;
    SECTION("the link goes down") {
        bench.disconnect();
        CHECK(bench.counter(Counter::kPortXmitWait) == 50);
    }
    SECTION("the SM sets the port to Down") {
        ib::Mad smp = make_dr_smp(Method::kSet, ib::attr::kPortInfo, 1);
        std::ranges::copy(bench.attrs().info, smp.smp_data().begin());
        ib::set(smp.smp_data(), ib::port_info::kPortState,
                static_cast<unsigned>(ib::PortState::kDown));
        ib::set(smp.smp_data(), ib::port_info::kPortPhysicalState, 0);
        bench.inject(MadPacket{}, smp);
        CHECK_FALSE(bench.port().is_active());
        CHECK(bench.counter(Counter::kPortXmitWait) == 50);
    }
    SECTION("the driver resets the device") {
        bench.ports.reset(false);
        CHECK(bench.counter(Counter::kPortXmitWait) == 50);
        bench.host.clock_ns += 50'000;
        bench.port().count_waits();
        CHECK(bench.counter(Counter::kPortXmitWait) == 50);
    }
    SECTION("a cold reset clears the counters") {
        bench.ports.reset(true);
        bench.port().count_waits();
        CHECK(bench.counter(Counter::kPortXmitWait) == 0);
    }
}

TEST_CASE("waits that are shorter than a tick add up") {
    StalledPort bench;
    for (unsigned i = 0; i < 3; ++i) {
        bench.wait(700);
        (void)bench.asked_wait();
    }
    CHECK(bench.asked_wait() == 2);
    CHECK(bench.asked_wait_of_vl(0) == 2);
}
