// SPDX-License-Identifier: GPL-2.0-or-later
// Performance management: queries that the device answers, and the counters behind them.
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
