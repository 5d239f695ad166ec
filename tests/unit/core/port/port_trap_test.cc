// SPDX-License-Identifier: GPL-2.0-or-later
// Traps of the HCA: what causes them, that they repeat until repressed, and where they go.
#include <catch2/generators/catch_generators.hpp>

#include "port_bench.h"

using namespace pib;
using namespace pib::hca;
using namespace pib::hca::test;
using ib::Method;

namespace {

constexpr uint64_t kSecond = 1'000'000'000;

uint16_t trap_number(const ib::Mad& trap) {
    CHECK(trap.method() == Method::kTrap);
    CHECK(trap.mgmt_class() == ib::MgmtClass::kSubnLidRouted);
    CHECK(trap.attribute_id() == ib::attr::kNotice);
    return static_cast<uint16_t>(ib::get(trap.smp_data(), ib::notice::kTrapNumber));
}

// The traps that the port sends during the next `ns` nanoseconds.
std::vector<ib::Mad> traps_within(PortBench& bench, uint64_t ns) {
    bench.take_sent();
    bench.advance(ns);
    return bench.take_sent_mads();
}

void rename(PortBench& bench, const char* name) {
    pib_hca_modify_device in{};
    in.mask = PIB_HCA_MODIFY_DEVICE_NODE_DESC;
    std::strncpy(reinterpret_cast<char*>(in.node_description), name, 63);
    REQUIRE(modify_device(bench.ports, in, bench.host.clock_ns) == CmdStatus::kOk);
}

ib::Mad repress(const ib::Mad& trap) {
    ib::Mad mad = trap;
    mad.set(ib::mad_header::kMethod, static_cast<unsigned>(Method::kTrapRepress));
    return mad;
}

}  // namespace

TEST_CASE("trap 144 is sent to the SM until TrapRepress") {
    PortBench bench;
    bench.bring_up();
    rename(bench, "new name");
    bench.take_sent();
    bench.advance(0);
    const auto sent = bench.take_sent();
    REQUIRE(sent.size() == 1);
    const auto view = ib::PacketView::parse(sent[0], ib::Crcs::kElided);
    CHECK(view->lrh().dlid.value() == PortBench::kSmLid);
    CHECK(view->lrh().slid.value() == PortBench::kLid);
    CHECK(view->lrh().vl == ib::kVl15);
    CHECK(view->bth().dest_qp == ib::kQp0);
    const ib::Mad trap = mad_of(sent[0]);
    CHECK(trap_number(trap) == ib::trap::kLocalChanges);
    CHECK(ib::get(trap.smp_data(), ib::notice::kIssuerLid) == PortBench::kLid);
    CHECK(ib::get(trap.smp_data(), ib::notice_details::kChangeFlags) ==
          ib::LocalChanges::kNodeDescription);

    const auto again = traps_within(bench, 10 * kSecond);
    CHECK(again.size() >= 2);
    CHECK(again.size() <= 20);  // SubnetTimeOut is about a second
    CHECK(again[0] == trap);

    bench.inject({.dlid = PortBench::kLid, .slid = PortBench::kSmLid}, repress(trap));
    CHECK(bench.client.packets.empty());
    CHECK(traps_within(bench, 10 * kSecond).empty());
    CHECK(bench.ports.next_deadline() == kNever);
}

TEST_CASE("a trap is sent on the SL of the SM") {
    PortBench bench;
    bench.bring_up();
    REQUIRE(bench.set_port_info([](std::span<uint8_t> info) {
        ib::set(info, ib::port_info::kMasterSmSl, 3);
    }) == 0);
    rename(bench, "new name");
    bench.take_sent();
    bench.advance(0);
    const auto sent = bench.take_sent();
    REQUIRE(sent.size() == 1);
    CHECK(ib::PacketView::parse(sent[0], ib::Crcs::kElided)->lrh().sl == ib::Sl(3));
}

TEST_CASE("software's changes of capabilities and SystemImageGUID send trap 144") {
    PortBench bench;
    bench.bring_up();
    REQUIRE(announce_sm(bench) == CmdStatus::kOk);
    auto traps = traps_within(bench, 0);
    REQUIRE(traps.size() == 1);
    CHECK(trap_number(traps[0]) == ib::trap::kLocalChanges);
    CHECK((ib::get(traps[0].smp_data(), ib::notice_details::kCapabilityMask) &
           ib::port_cap::kIsSm) != 0);
    bench.inject({.dlid = PortBench::kLid, .slid = PortBench::kSmLid}, repress(traps[0]));
    // A call that changes no attribute causes no trap.
    REQUIRE(announce_sm(bench) == CmdStatus::kOk);
    CHECK(traps_within(bench, kSecond).empty());

    pib_hca_modify_device in{};
    in.mask = PIB_HCA_MODIFY_DEVICE_SYS_IMAGE_GUID;
    ib::store_be(in.sys_image_guid, uint64_t{0x77});
    REQUIRE(modify_device(bench.ports, in, bench.host.clock_ns) == CmdStatus::kOk);
    traps = traps_within(bench, kSecond / 2);
    REQUIRE(traps.size() == 1);
    CHECK(trap_number(traps[0]) == ib::trap::kSystemImageGuidChange);
    CHECK(ib::get(traps[0].smp_data(), ib::notice_details::kSystemImageGuid) == 0x77);
}

TEST_CASE("a wrong M_Key is counted and reported, and the SMP is not answered") {
    PortBench bench;
    bench.bring_up();
    CHECK(bench.set_port_info([](std::span<uint8_t> info) {
        ib::set(info, ib::port_info::kMKey, 0xfeed);
        ib::set(info, ib::port_info::kMKeyProtectBits, 2);
    }) == 0);
    bench.take_sent();
    bench.inject({.dlid = PortBench::kLid, .slid = 0x33},
                 make_mad(ib::MgmtClass::kSubnLidRouted, Method::kGet, ib::attr::kNodeInfo));
    CHECK(bench.take_sent().empty());
    CHECK(bench.attrs().get(ib::port_info::kMKeyViolations) == 1);
    const auto traps = traps_within(bench, 0);
    REQUIRE(traps.size() == 1);
    CHECK(trap_number(traps[0]) == ib::trap::kBadMKey);
    CHECK(ib::get(traps[0].smp_data(), ib::notice_details::kLid) == 0x33);
}

TEST_CASE("P_Key and Q_Key violations count to the maximum, and a flood sends one trap") {
    PortBench bench;
    bench.bring_up();
    const Bytes bytes = ::pib::test::make_packet(0, PortBench::kLid, 64);
    const auto packet = ib::PacketView::parse(bytes, ib::Crcs::kElided);
    for (unsigned i = 0; i < 70'000; ++i) {
        bench.port().pkey_violation(*packet);
    }
    CHECK(bench.attrs().get(ib::port_info::kPKeyViolations) == 0xffff);
    auto traps = traps_within(bench, 0);
    REQUIRE(traps.size() == 1);
    CHECK(trap_number(traps[0]) == ib::trap::kBadPKey);
    CHECK(ib::get(traps[0].smp_data(), ib::notice_details::kKey) == 0xffff);
    CHECK(ib::get(traps[0].smp_data(), ib::notice_details::kLid1) == 1);
    CHECK(ib::get(traps[0].smp_data(), ib::notice_details::kLid2) == PortBench::kLid);
    CHECK(ib::get(traps[0].smp_data(), ib::notice_details::kQp2) == 0x123);
    bench.inject({.dlid = PortBench::kLid, .slid = PortBench::kSmLid}, repress(traps[0]));

    bench.port().qkey_violation(*packet);
    CHECK(bench.attrs().get(ib::port_info::kQKeyViolations) == 1);
    traps = traps_within(bench, kSecond / 2);
    REQUIRE(traps.size() == 1);
    CHECK(trap_number(traps[0]) == ib::trap::kBadQKey);
}

// Traps 257 and 258 name the sender as GIDADDR1 and the receiver as GIDADDR2 (IBA 14.2.5.1).
TEST_CASE("the trap of a violation has the GIDs of the packet's sender and its receiver") {
    const bool of_pkey = GENERATE(true, false);
    PortBench bench;
    bench.bring_up();
    MadPacket ends = gmp_to(PortBench::kLid);
    ends.grh = ib::Grh{.sgid = ib::Gid::from(0xfe80'0000'0000'0000, ib::Guid(0x1111)),
                       .dgid = ib::Gid::from(0xfe80'0000'0000'0000, ib::Guid(0x2222))};
    const Bytes bytes = make_packet(ends, ib::Mad{});
    const auto packet = ib::PacketView::parse(bytes, ib::Crcs::kElided);
    if (of_pkey) {
        bench.port().pkey_violation(*packet);
    } else {
        bench.port().qkey_violation(*packet);
    }
    const auto traps = traps_within(bench, 0);
    REQUIRE(traps.size() == 1);
    CHECK(trap_number(traps[0]) == (of_pkey ? ib::trap::kBadPKey : ib::trap::kBadQKey));
    const auto has_gid = [&](size_t offset, const ib::Gid& gid) {
        return std::ranges::equal(traps[0].smp_data().subspan(offset, sizeof gid.bytes), gid.bytes);
    };
    CHECK(has_gid(ib::notice_details::kGid1Offset, ends.grh->sgid));
    CHECK(has_gid(ib::notice_details::kGid2Offset, ends.grh->dgid));
}

TEST_CASE("damaged packets above the threshold send trap 129, overruns send trap 130") {
    PortBench bench;
    bench.bring_up();
    REQUIRE(bench.set_port_info([](std::span<uint8_t> info) {
        ib::set(info, ib::port_info::kLocalPhyErrors, 2);
        ib::set(info, ib::port_info::kOverrunErrors, 2);
    }) == 0);
    Bytes damaged = ::pib::test::make_packet(0, PortBench::kLid, 64);
    damaged.resize(damaged.size() + 6);
    for (unsigned i = 0; i < 3; ++i) {
        CHECK(traps_within(bench, 0).empty());
        REQUIRE(::pib::test::send(*bench.peer, damaged, link::SendCrc::kGiven));
        bench.pump();
    }
    CHECK(bench.counter(ib::Counter::kPortRcvErrors) == 3);
    CHECK(bench.counter(ib::Counter::kLocalLinkIntegrityErrors) == 1);
    auto traps = traps_within(bench, 0);
    REQUIRE(traps.size() == 1);
    CHECK(trap_number(traps[0]) == ib::trap::kLocalLinkIntegrity);
    CHECK(ib::get(traps[0].smp_data(), ib::notice_details::kLid) == PortBench::kLid);
    CHECK(ib::get(traps[0].smp_data(), ib::notice_details::kPortNumber) == 1);
    bench.inject({.dlid = PortBench::kLid, .slid = PortBench::kSmLid}, repress(traps[0]));

    // The port has no receive buffer for VL 14, and has granted no credits for it.
    const Bytes frame =
        ::pib::test::packet_frame(::pib::test::make_packet(14, PortBench::kLid, 64));
    for (unsigned period = 0; period < 2; ++period) {
        CHECK(traps_within(bench, ib::kFlowControlPeriodNs).empty());
        bench.port().link_rx(frame);
    }
    CHECK(bench.counter(ib::Counter::kExcessiveBufferOverrunErrors) == 1);
    traps = traps_within(bench, kSecond / 2);
    REQUIRE(traps.size() == 1);
    CHECK(trap_number(traps[0]) == ib::trap::kExcessiveBufferOverrun);
    CHECK(bench.state() == ib::PortState::kActive);
}

TEST_CASE("a trap to an SM in the same guest reaches its QP0") {
    PortBench bench;
    bench.bring_up();
    CHECK(bench.set_port_info([](std::span<uint8_t> info) {
        ib::set(info, ib::port_info::kMasterSmLid, PortBench::kLid);
    }) == 0);
    rename(bench, "sm here");
    CHECK(traps_within(bench, 0).empty());
    const auto delivered = bench.take_delivered();
    REQUIRE(delivered.size() == 1);
    CHECK(trap_number(mad_of(delivered[0])) == ib::trap::kLocalChanges);
}

TEST_CASE("no trap leaves a port that is not Active, and no timer runs for it") {
    PortBench bench;
    bench.bring_up();
    rename(bench, "gone");
    bench.disconnect();
    CHECK(bench.ports.next_deadline() == kNever);
    bench.connect();
    rename(bench, "again");
    CHECK(traps_within(bench, 10 * kSecond).empty());
}

TEST_CASE("a reset of the device discards the traps that wait") {
    PortBench bench;
    bench.bring_up();
    rename(bench, "before");
    REQUIRE(bench.attrs().traps.pending.size() == 1);
    bench.ports.reset(false);
    CHECK(bench.attrs().traps.pending.empty());
}
