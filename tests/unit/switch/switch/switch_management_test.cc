// SPDX-License-Identifier: GPL-2.0-or-later
// Subnet management of a switch: directed routes, SwitchInfo, forwarding table blocks, traps, PMA.
#include <catch2/catch_test_macros.hpp>

#include "base/mad_packets.h"
#include "test_fabric.h"

namespace pib::test {
namespace {

using ib::Method;
namespace pi = ib::port_info;
namespace si = ib::switch_info;
namespace ni = ib::node_info;

struct PmaAnswer {
    ib::Lrh lrh;
    std::optional<ib::Grh> grh;
    ib::Bth bth;
    ib::Mad mad;
};

// Headers of a request to the PMA of port 0.
ib::PacketHeaders pma_headers(uint16_t slid = 1) {
    ib::PacketHeaders headers{};
    headers.lrh.dlid = ib::Lid(TestFabric::kSwitchLid);
    headers.lrh.slid = ib::Lid(slid);
    headers.bth.opcode = ib::opcode::kUdSendOnly;
    headers.bth.pkey = ib::kDefaultPKey;
    headers.bth.dest_qp = ib::kQp1;
    headers.deth = {.qkey = ib::kGsiQKey, .src_qp = ib::Qpn(77)};
    return headers;
}

// Sends a Get of PortCounters from an adapter; returns the answer that it gets.
std::optional<PmaAnswer> ask_pma(TestFabric& fabric, unsigned hca, const ib::PacketHeaders& headers,
                                 uint8_t port = 1) {
    ib::Mad request;
    request.set(ib::mad_header::kBaseVersion, 1);
    request.set(ib::mad_header::kMgmtClass, static_cast<unsigned>(ib::MgmtClass::kPerf));
    request.set(ib::mad_header::kClassVersion, 1);
    request.set(ib::mad_header::kMethod, static_cast<unsigned>(Method::kGet));
    request.set(ib::mad_header::kAttributeId, ib::attr::kPortCounters);
    ib::set(request.gmp_data(), ib::pma::kPortSelect, port);
    const fabric::MadPacket packet(headers, request);
    const auto before = fabric.hca(hca).packets.size();
    REQUIRE(fabric.hca(hca).send_packet({packet.bytes().begin(), packet.bytes().end()}));
    fabric.settle();
    if (fabric.hca(hca).packets.size() == before) {
        return std::nullopt;
    }
    const auto view = ib::PacketView::parse(fabric.hca(hca).packets.back(), ib::Crcs::kElided);
    REQUIRE(view);
    REQUIRE(view->payload().size() == ib::kMadSize);
    PmaAnswer answer{view->lrh(), view->grh(), view->bth(), {}};
    std::ranges::copy(view->payload(), answer.mad.bytes.begin());
    return answer;
}

}  // namespace

TEST_CASE("management: a directed route reads NodeInfo and PortInfo of a switch") {
    TestFabric fabric(2);
    const auto info = fabric.query(Method::kGet, ib::attr::kNodeInfo, 0);
    REQUIRE(info);
    CHECK(info->status() == 0);
    CHECK(ib::get(info->smp_data(), ni::kNodeType) == 2);
    CHECK(ib::get(info->smp_data(), ni::kNumPorts) == 8);
    CHECK(ib::get(info->smp_data(), ni::kNodeGuid) == 0x0650000000000001);
    CHECK(ib::get(info->smp_data(), ni::kLocalPortNum) == 1);
    const auto port = fabric.query(Method::kGet, ib::attr::kPortInfo, 2);
    REQUIRE(port);
    CHECK(ib::get(port->smp_data(), pi::kPortState) ==
          static_cast<unsigned>(ib::PortState::kInitialize));
    CHECK(ib::get(port->smp_data(), pi::kPortPhysicalState) ==
          static_cast<unsigned>(ib::PhysState::kLinkUp));
    const auto empty = fabric.query(Method::kGet, ib::attr::kPortInfo, 5);
    REQUIRE(empty);
    CHECK(ib::get(empty->smp_data(), pi::kPortState) ==
          static_cast<unsigned>(ib::PortState::kDown));
    CHECK(ib::get(empty->smp_data(), pi::kPortPhysicalState) ==
          static_cast<unsigned>(ib::PhysState::kPolling));
    CHECK(fabric.query(Method::kGet, ib::attr::kPortInfo, 9)->status() ==
          ib::mad_status::kBadField);
}

TEST_CASE("management: a directed route leads through the switch and back") {
    TestFabric fabric(3);
    const auto info = fabric.query(Method::kGet, ib::attr::kNodeInfo, 0, {}, {3});
    REQUIRE(info);
    CHECK(ib::get(info->smp_data(), ni::kNodeGuid) == fabric.hca(2).node.node_guid.value());
    REQUIRE(fabric.hca(2).requests.size() == 1);
    const ib::Mad& seen = fabric.hca(2).requests[0];
    CHECK(return_path(seen)[2] == 1);  // the adapter's own port
    CHECK(return_path(seen)[1] == 1);  // the switch's ingress port
    CHECK(fabric.hca(2).smp_lrhs[0].dlid.is_permissive());
    CHECK(fabric.hca(2).smp_lrhs[0].slid.is_permissive());
}

TEST_CASE("management: an SMP whose directed route ends at a switch goes on by LID, and back") {
    constexpr uint64_t kTransaction = 0x77;
    TestFabric fabric(2);
    fabric.make_active();
    ib::Mad smp = make_smp(Method::kGet, ib::attr::kNodeInfo, 0);
    smp.set(ib::mad_header::kTransactionId, kTransaction);
    smp.set(ib::smp::kHopCount, 1);
    initial_path(smp)[1] = 1;
    smp.set(ib::smp::kDrDlid, TestFabric::lid_of(1));
    fabric.hca(0).send_smp(smp);
    fabric.settle();
    // C14-9: the packet has DrDLID as its DLID, and the switch's LID as its SLID.
    REQUIRE(fabric.hca(1).requests.size() == 1);
    CHECK(fabric.hca(1).smp_lrhs.back().dlid == ib::Lid(TestFabric::lid_of(1)));
    CHECK(fabric.hca(1).smp_lrhs.back().slid == ib::Lid(TestFabric::kSwitchLid));

    // C14-13: the answer reaches the switch by LID, and takes the directed route from there.
    ib::Mad answer = fabric.hca(1).requests[0];
    answer.set(ib::mad_header::kMethod, static_cast<unsigned>(Method::kGetResp));
    answer.set(ib::smp::kD, 1);
    fabric.hca(1).send_packet(
        smp_packet(answer, ib::Lid(TestFabric::kSwitchLid), ib::Lid(TestFabric::lid_of(1))));
    fabric.settle();
    CHECK(std::ranges::count(fabric.hca(0).answers, kTransaction, &ib::Mad::transaction_id) == 1);
    CHECK(fabric.hca(0).smp_lrhs.back().dlid.is_permissive());
}

TEST_CASE("management: an answer whose directed route ends at a switch goes on by LID") {
    constexpr uint64_t kTransaction = 0x77;
    TestFabric fabric(2);
    fabric.make_active();
    // The request reaches the switch by LID, and takes a directed route from there.
    ib::Mad smp = make_smp(Method::kGet, ib::attr::kNodeInfo, 0);
    smp.set(ib::mad_header::kTransactionId, kTransaction);
    smp.set(ib::smp::kHopCount, 1);
    initial_path(smp)[1] = 2;
    smp.set(ib::smp::kDrSlid, TestFabric::lid_of(0));
    fabric.hca(0).send_packet(
        smp_packet(smp, ib::Lid(TestFabric::kSwitchLid), ib::Lid(TestFabric::lid_of(0))));
    fabric.settle();
    REQUIRE(fabric.hca(1).requests.size() == 1);
    CHECK(fabric.hca(1).smp_lrhs.back().dlid.is_permissive());
    // C14-13: the packet has DrSLID as its DLID, and the switch's LID as its SLID.
    CHECK(std::ranges::count(fabric.hca(0).answers, kTransaction, &ib::Mad::transaction_id) == 1);
    CHECK(fabric.hca(0).smp_lrhs.back().dlid == ib::Lid(TestFabric::lid_of(0)));
    CHECK(fabric.hca(0).smp_lrhs.back().slid == ib::Lid(TestFabric::kSwitchLid));
}

TEST_CASE("management: directed routes to no port are dropped") {
    TestFabric fabric(2);
    CHECK_FALSE(fabric.query(Method::kGet, ib::attr::kNodeInfo, 0, {}, {0}));
    CHECK_FALSE(fabric.query(Method::kGet, ib::attr::kNodeInfo, 0, {}, {7}));
    CHECK_FALSE(fabric.query(Method::kGet, ib::attr::kNodeInfo, 0, {}, {200}));
    CHECK_FALSE(fabric.query(Method::kGet, ib::attr::kNodeInfo, 0, {}, {1, 1, 1, 7}));
    CHECK(fabric.hca(1).requests.empty());
    CHECK(fabric.query(Method::kGet, ib::attr::kNodeInfo, 0));
}

TEST_CASE("management: malformed SMPs change nothing") {
    TestFabric fabric(2);
    CHECK(fabric.query(Method::kGet, 0x7777, 0)->status() == ib::mad_status::kBadMethodAttribute);
    CHECK(fabric.query(Method::kSet, ib::attr::kNodeInfo, 0)->status() ==
          ib::mad_status::kBadMethodAttribute);
    CHECK(fabric.query(Method::kGet, ib::attr::kRandomForwardingTable, 0)->status() ==
          ib::mad_status::kBadMethodAttribute);
    Bytes truncated = make_packet(15, 0xFFFF, 128);
    CHECK(fabric.hca(0).send_packet(truncated));
    fabric.settle();
    CHECK(fabric.query(Method::kGet, ib::attr::kNodeInfo, 0));
}

TEST_CASE("management: SwitchInfo is read and set") {
    TestFabric fabric(1);
    auto info = fabric.query(Method::kGet, ib::attr::kSwitchInfo, 0).value();
    CHECK(ib::get(info.smp_data(), si::kLinearFdbCap) == 0xC000);
    CHECK(ib::get(info.smp_data(), si::kMulticastFdbCap) == 4096);
    CHECK(ib::get(info.smp_data(), si::kPortStateChange) == 1);  // the adapter came up
    ib::set(info.smp_data(), si::kLinearFdbTop, 0xBFFF);
    ib::set(info.smp_data(), si::kLifeTimeValue, 10);
    ib::set(info.smp_data(), si::kLinearFdbCap, 1);  // read-only
    const auto set = fabric.query(Method::kSet, ib::attr::kSwitchInfo, 0, info.smp_data());
    REQUIRE(set);
    CHECK(set->status() == 0);
    CHECK(ib::get(set->smp_data(), si::kLinearFdbTop) == 0xBFFF);
    CHECK(ib::get(set->smp_data(), si::kLinearFdbCap) == 0xC000);
    CHECK(ib::get(set->smp_data(), si::kLifeTimeValue) == 10);
    CHECK(ib::get(set->smp_data(), si::kPortStateChange) == 0);
    ib::set(info.smp_data(), si::kLinearFdbTop, 0xC000);
    CHECK(fabric.query(Method::kSet, ib::attr::kSwitchInfo, 0, info.smp_data())->status() ==
          ib::mad_status::kBadField);
}

// IBA 14.2.5.4: writing 1 clears the bit, and writing 0 has no effect. An SM that has read the bit
// before the link changed writes 0.
TEST_CASE("management: a Set of SwitchInfo with PortStateChange 0 does not clear the bit") {
    TestFabric fabric(1);
    auto info = fabric.query(Method::kGet, ib::attr::kSwitchInfo, 0).value();
    REQUIRE(ib::get(info.smp_data(), si::kPortStateChange) == 1);  // the adapter came up
    const auto bit_after_set = [&](unsigned written) {
        ib::set(info.smp_data(), si::kPortStateChange, written);
        const auto set = fabric.query(Method::kSet, ib::attr::kSwitchInfo, 0, info.smp_data());
        const auto got = fabric.query(Method::kGet, ib::attr::kSwitchInfo, 0);
        REQUIRE(set);
        REQUIRE(got);
        CHECK(set->status() == 0);
        CHECK(ib::get(set->smp_data(), si::kPortStateChange) ==
              ib::get(got->smp_data(), si::kPortStateChange));
        return ib::get(got->smp_data(), si::kPortStateChange);
    };
    CHECK(bit_after_set(0) == 1);
    CHECK(bit_after_set(1) == 0);
    CHECK(bit_after_set(0) == 0);
}

TEST_CASE("management: forwarding tables are read and set in blocks up to their end") {
    TestFabric fabric(1);
    std::array<uint8_t, 64> block;
    for (unsigned i = 0; i < 64; ++i) {
        block[i] = static_cast<uint8_t>(i % 9);
    }
    CHECK(fabric.query(Method::kSet, ib::attr::kLinearForwardingTable, 767, block)->status() == 0);
    const auto lft = fabric.query(Method::kGet, ib::attr::kLinearForwardingTable, 767);
    CHECK(std::ranges::equal(lft->smp_data(), block));
    for (const uint32_t past : {768U, 0xFFFFU, 0x04000000U}) {
        CHECK(fabric.query(Method::kGet, ib::attr::kLinearForwardingTable, past)->status() ==
              ib::mad_status::kBadField);
        CHECK(fabric.query(Method::kSet, ib::attr::kLinearForwardingTable, past, block)->status() ==
              ib::mad_status::kBadField);
    }
    const uint32_t position1 = 1U << 28 | 127;
    CHECK(fabric.query(Method::kSet, ib::attr::kMulticastForwardingTable, position1, block)
              ->status() == 0);
    const auto is_set = [&](uint32_t modifier) {
        const auto mft = fabric.query(Method::kGet, ib::attr::kMulticastForwardingTable, modifier);
        return std::ranges::equal(mft->smp_data(), block);
    };
    CHECK(is_set(position1));
    // Position 0 has masks of other ports, so its block does not replace that of position 1.
    CHECK(fabric.query(Method::kSet, ib::attr::kMulticastForwardingTable, 127, block)->status() ==
          0);
    CHECK(is_set(127));
    CHECK(is_set(position1));
    for (const uint32_t past : {128U, 5U << 28, 0x00FFFFFFU}) {
        CHECK(fabric.query(Method::kSet, ib::attr::kMulticastForwardingTable, past, block)
                  ->status() == ib::mad_status::kBadField);
    }
}

TEST_CASE("management: trap 128 goes to the SM until it is repressed") {
    TestFabric fabric(2);
    fabric.make_active();
    fabric.advance(5'000'000'000);
    for (const auto& mad : std::vector(fabric.hca(0).answers)) {
        if (mad.method() == Method::kTrap) {
            ib::Mad repress = mad;
            repress.set(ib::mad_header::kMethod, static_cast<unsigned>(Method::kTrapRepress));
            fabric.hca(0).send_smp(repress);
        }
    }
    fabric.settle();
    fabric.hca(0).answers.clear();
    fabric.advance(5'000'000'000);
    CHECK(traps_of(fabric.hca(0), 128).empty());

    fabric.hca(1).disconnect();
    fabric.advance(5'000'000'000);
    CHECK(!traps_of(fabric.hca(0), 128).empty());
    fabric.advance(5'000'000'000);
    CHECK(traps_of(fabric.hca(0), 128).size() >= 2);
    const ib::Mad trap = fabric.hca(0).answers.back();
    CHECK(ib::get(trap.smp_data(), ib::notice::kIssuerLid) == TestFabric::kSwitchLid);
    CHECK(ib::get(trap.smp_data(), ib::notice_details::kLid128) == TestFabric::kSwitchLid);
    const auto info = fabric.query(Method::kGet, ib::attr::kSwitchInfo, 0);
    CHECK(ib::get(info->smp_data(), si::kPortStateChange) == 1);
    const auto port = fabric.query(Method::kGet, ib::attr::kPortInfo, 2);
    CHECK(ib::get(port->smp_data(), pi::kPortState) == static_cast<unsigned>(ib::PortState::kDown));
    CHECK(fabric.count(2, ib::Counter::kLinkDowned) == 1);
}

TEST_CASE("management: a disabled port stays down until it is enabled") {
    TestFabric fabric(2);
    fabric.make_active();
    fabric.set_port_info(
        2, {{pi::kPortState, static_cast<unsigned>(ib::PortState::kDown)},
            {pi::kPortPhysicalState, static_cast<unsigned>(ib::PhysState::kDisabled)}});
    CHECK_FALSE(fabric.hca(1).own_end().is_up());
    CHECK(fabric.sw.port(2).attrs().phys_state() == ib::PhysState::kDisabled);
    fabric.set_port_info(
        2, {{pi::kPortState, static_cast<unsigned>(ib::PortState::kDown)},
            {pi::kPortPhysicalState, static_cast<unsigned>(ib::PhysState::kPolling)}});
    CHECK(fabric.hca(1).own_end().is_up());
    CHECK(fabric.sw.port(2).attrs().state() == ib::PortState::kInitialize);
}

TEST_CASE("management: a pulled cable takes the port Down") {
    TestFabric fabric(2);
    fabric.make_active();
    fabric.sw.port(2).cable().plug(false);
    fabric.settle();
    CHECK_FALSE(fabric.hca(1).own_end().is_up());
    CHECK(fabric.sw.port(2).attrs().phys_state() == ib::PhysState::kPolling);
    fabric.sw.port(2).cable().plug(true);
    fabric.settle();
    CHECK(fabric.hca(1).own_end().is_up());
    CHECK(fabric.sw.port(2).attrs().state() == ib::PortState::kInitialize);
}

TEST_CASE("management: the PMA answers PortCounters on port 0's LID") {
    TestFabric fabric(2);
    fabric.make_active();
    const auto answer = ask_pma(fabric, 0, pma_headers());
    REQUIRE(answer);
    CHECK(answer->lrh.slid == ib::Lid(TestFabric::kSwitchLid));
    CHECK(answer->bth.dest_qp == ib::Qpn(77));
    CHECK(answer->mad.method() == Method::kGetResp);
    CHECK(answer->mad.status() == 0);
    CHECK(ib::get(answer->mad.gmp_data(), ib::port_counters::kPortRcvPkts) > 5);
}

TEST_CASE("management: the PMA's answer has the P_Key of port 0") {
    constexpr uint16_t kFull = 0xFFFF, kLimited = 0x7FFF;
    TestFabric fabric(2);
    fabric.make_active();
    const auto answered = [&](uint16_t asker, uint16_t own) -> unsigned {
        fabric.sw.node().port0().pkeys[0] = ib::PKey(own);
        auto headers = pma_headers();
        headers.bth.pkey = ib::PKey(asker);
        const auto answer = ask_pma(fabric, 0, headers);
        return answer ? answer->bth.pkey.value() : 0;
    };
    CHECK(answered(kFull, kFull) == kFull);
    CHECK(answered(kLimited, kFull) == kFull);
    CHECK(answered(kFull, kLimited) == kLimited);
    CHECK(answered(kLimited, kLimited) == 0);
}

// IBA 13.5.4: an answer goes to the GID that asked. An adapter drops packets to other GIDs.
TEST_CASE("management: the PMA answers a request with a GRH to the GID that asked") {
    TestFabric fabric(2);
    fabric.make_active();
    const ib::PortAttrs& port0 = fabric.sw.node().port0();
    const auto asker = ib::Gid::from(ib::kDefaultGidPrefix, fabric.hca(0).node.ports[0].guid());
    const auto own = ib::Gid::from(ib::kDefaultGidPrefix, port0.guid());
    auto headers = pma_headers();
    headers.lrh.lnh = ib::Lnh::kIbaGlobal;
    headers.grh = ib::Grh{.hop_lmt = 1, .sgid = asker, .dgid = own};
    const auto answer = ask_pma(fabric, 0, headers);
    REQUIRE(answer);
    CHECK(answer->mad.status() == 0);
    REQUIRE(answer->grh);
    CHECK(answer->grh->dgid == asker);
    CHECK(answer->grh->sgid == own);
}

TEST_CASE("management: a request without a unicast SLID, or an SMP with a GRH, gets no answer") {
    TestFabric fabric(2);
    fabric.make_active();
    for (const uint16_t slid : {0xC001, 0xFFFF, 0}) {
        auto headers = pma_headers();
        headers.lrh.slid = ib::Lid(slid);
        const auto sent = fabric.count(0, ib::Counter::kPortXmitPkts);
        CHECK_FALSE(ask_pma(fabric, 0, headers));
        CHECK(fabric.count(0, ib::Counter::kPortXmitPkts) == sent);
    }
    ib::Mad smp = make_smp(Method::kGet, ib::attr::kNodeInfo, 0);
    smp.bytes[7] = 1;
    initial_path(smp)[1] = 1;
    smp.set(ib::smp::kHopPointer, 1);
    const auto answers = [&](bool global) {
        ib::PacketHeaders headers =
            fabric::smp_headers(ib::kPermissiveLid, ib::kPermissiveLid, ib::Sl{}, ib::Psn(0));
        if (global) {
            headers.lrh.lnh = ib::Lnh::kIbaGlobal;
            headers.grh = ib::Grh{};
        }
        const fabric::MadPacket packet(headers, smp);
        const auto before = fabric.hca(0).answers.size();
        REQUIRE(fabric.hca(0).send_packet({packet.bytes().begin(), packet.bytes().end()}));
        fabric.settle();
        return fabric.hca(0).answers.size() - before;
    };
    CHECK(answers(false) == 1);
    CHECK(answers(true) == 0);
}

TEST_CASE("management: a wrong P_Key or Q_Key at port 0 is counted and reported to the SM") {
    fabric::TimerQueue timers;
    TestFabric fabric(2, TestFabric::default_config(), &timers);
    fabric.make_active();
    const ib::PortAttrs& port0 = fabric.sw.node().port0();
    auto headers = pma_headers();
    SECTION("P_Key") {
        headers.bth.pkey = ib::PKey(0x8123);
        CHECK_FALSE(ask_pma(fabric, 1, headers));
        CHECK(port0.get(ib::port_info::kPKeyViolations) == 1);
        fabric.advance(5'000'000'000);
        CHECK_FALSE(traps_of(fabric.hca(0), ib::trap::kBadPKey).empty());
    }
    SECTION("Q_Key") {
        headers.deth.qkey = ib::QKey(0x1234);
        CHECK_FALSE(ask_pma(fabric, 1, headers));
        CHECK(port0.get(ib::port_info::kQKeyViolations) == 1);
        CHECK(port0.get(ib::port_info::kPKeyViolations) == 0);
        fabric.advance(5'000'000'000);
        CHECK_FALSE(traps_of(fabric.hca(0), ib::trap::kBadQKey).empty());
    }
}

TEST_CASE("management: the PMA counts the time that packets have waited so far") {
    fabric::TimerQueue timers;
    TestFabric fabric(3, TestFabric::default_config(), &timers);
    fabric.make_active();
    auto info = fabric.query(Method::kGet, ib::attr::kSwitchInfo, 0).value();
    ib::set(info.smp_data(), ib::switch_info::kLifeTimeValue, 31);
    fabric.query(Method::kSet, ib::attr::kSwitchInfo, 0, info.smp_data());
    REQUIRE(fabric.set_port_info(2, {{ib::port_info::kHoqLife, 31}}) == 0);
    fabric.hca(1).hold = true;
    while (fabric.hca(0).send_packet(make_packet(0, TestFabric::lid_of(1), 4096))) {
        fabric.settle();
    }
    const auto waited = [&] {
        const auto answer = ask_pma(fabric, 2, pma_headers(3), 2);
        return answer ? ib::get(answer->mad.gmp_data(), ib::port_counters::kPortXmitWait) : 0;
    };
    const auto before = waited();
    constexpr uint64_t kTicks = 100'000;
    fabric.advance(kTicks * ib::kPmaTickNs);
    CHECK(waited() == before + kTicks);
}

}  // namespace pib::test
