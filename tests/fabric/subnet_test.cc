// SPDX-License-Identifier: GPL-2.0-or-later
// A subnet comes up by subnet management alone, and again after a lost guest or a reset.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "ib/wire/mad.h"
#include "mini_sm.h"

using namespace pib;
using namespace pib::test;

namespace {

bool is_active(Guest& guest) {
    return guest.query_port().state == static_cast<uint8_t>(ib::PortState::kActive);
}

}  // namespace

TEST_CASE("an SM in one guest brings all ports to Active") {
    Subnet subnet(3);
    for (unsigned i = 0; i < 3; ++i) {
        CHECK(subnet.guest(i).query_port().state == 2);
        CHECK(subnet.guest(i).take_port_events() == 0);
    }
    MiniSm sm(subnet, subnet.guest(0));
    sm.sweep();
    for (unsigned i = 0; i < 3; ++i) {
        const auto port = subnet.guest(i).query_port();
        CHECK(port.state == 4);
        CHECK(port.phys_state == 5);
        CHECK(port.lid == i + 1);
        CHECK(port.sm_lid == 1);
        CHECK(port.active_speed_ext == 8);
        CHECK(subnet.guest(i).take_port_events() ==
              (PIB_HCA_PORT_EVENT_ACTIVE | PIB_HCA_PORT_EVENT_LID_CHANGE |
               PIB_HCA_PORT_EVENT_SM_CHANGE));
    }
    // A second sweep changes nothing and raises no event.
    sm.sweep();
    for (unsigned i = 0; i < 3; ++i) {
        CHECK(subnet.guest(i).take_port_events() == 0);
        CHECK(subnet.guest(i).counter(PIB_HCA_COUNTER_RX_DROPPED) == 0);
    }
}

TEST_CASE("PMA queries over the subnet reach the device, and not its guest") {
    Subnet subnet(2);
    MiniSm sm(subnet, subnet.guest(0));
    sm.sweep();
    MadQp asker(subnet.guest(0), PIB_HCA_QP_GSI);
    MadQp bystander(subnet.guest(1), PIB_HCA_QP_GSI);
    ib::Mad mad;
    mad.set(ib::mad_header::kBaseVersion, 1);
    mad.set(ib::mad_header::kMgmtClass, static_cast<unsigned>(ib::MgmtClass::kPerf));
    mad.set(ib::mad_header::kClassVersion, 1);
    mad.set(ib::mad_header::kMethod, static_cast<unsigned>(ib::Method::kGet));
    mad.set(ib::mad_header::kAttributeId, ib::attr::kPortCounters);
    ib::set(mad.gmp_data(), ib::pma::kPortSelect, 1);
    for (const uint16_t lid : {sm.lid_of(1), MiniSm::kSwitchLid, sm.lid_of(0)}) {
        asker.send(mad, lid, 1);
        subnet.settle();
        const auto received = asker.receive();
        REQUIRE(received.size() == 1);
        CHECK(received[0].mad.method() == ib::Method::kGetResp);
        CHECK(received[0].mad.status() == 0);
        CHECK(received[0].cqe.slid == lid);
        CHECK(ib::get(received[0].mad.gmp_data(), ib::port_counters::kPortRcvPkts) != 0);
    }
    CHECK(asker.failed_sends == 0);
    CHECK(bystander.receive().empty());
}

TEST_CASE("a trap reaches the SM, and TrapRepress ends the trap") {
    Subnet subnet(2);
    MiniSm sm(subnet, subnet.guest(0));
    sm.sweep();
    sm.take_traps();
    pib_hca_modify_device in{};
    in.mask = PIB_HCA_MODIFY_DEVICE_NODE_DESC;
    in.node_description[0] = 'x';
    hca::test::MiniDriver& driver = subnet.guest(1).driver;
    driver.must(driver.command_in(PIB_HCA_CMD_MODIFY_DEVICE, 0, in), "MODIFY_DEVICE");
    subnet.advance(1'000'000);
    const auto traps = sm.take_traps();
    REQUIRE(traps.size() == 1);
    CHECK(ib::get(traps[0].smp_data(), ib::notice::kTrapNumber) == ib::trap::kLocalChanges);
    CHECK(ib::get(traps[0].smp_data(), ib::notice::kIssuerLid) == sm.lid_of(1));
    subnet.advance(100'000'000);
    CHECK(sm.take_traps().empty());
}

TEST_CASE("the switch reports a guest that vanishes, and the guest returns to its port") {
    Subnet subnet(3);
    MiniSm sm(subnet, subnet.guest(0));
    sm.sweep();
    sm.take_traps();
    const auto lid = sm.lid_of(2);
    subnet.guest(1).take_port_events();
    subnet.guest(2).take_port_events();

    subnet.guest(2).disconnect();
    subnet.advance(1'000'000);
    CHECK(subnet.guest(2).query_port().state == 1);
    CHECK(subnet.guest(2).take_port_events() == PIB_HCA_PORT_EVENT_ERROR);
    const auto traps = sm.take_traps();
    REQUIRE(traps.size() == 1);
    CHECK(ib::get(traps[0].smp_data(), ib::notice::kTrapNumber) == ib::trap::kLinkStateChange);

    subnet.connect(2);
    subnet.advance(100'000'000);
    CHECK(subnet.guest(2).query_port().state == 2);
    sm.sweep();
    CHECK(is_active(subnet.guest(2)));
    CHECK(subnet.guest(2).query_port().lid == lid);
    CHECK(subnet.guest(2).take_port_events() == PIB_HCA_PORT_EVENT_ACTIVE);
    CHECK(subnet.guest(1).take_port_events() == 0);
}

TEST_CASE("a function-level reset sends the port to Initialize and the SM brings it back") {
    Subnet subnet(2);
    MiniSm sm(subnet, subnet.guest(0));
    sm.sweep();
    sm.take_traps();
    Guest& guest = subnet.guest(1);
    guest.device->reset(false);
    subnet.settle();
    guest.start();
    CHECK(guest.query_port().state == 2);
    CHECK(guest.query_port().lid == sm.lid_of(1));
    subnet.advance(1'000'000);
    CHECK_FALSE(sm.take_traps().empty());
    sm.sweep();
    CHECK(is_active(guest));
    CHECK(guest.take_port_events() == PIB_HCA_PORT_EVENT_ACTIVE);
    CHECK(is_active(subnet.guest(0)));
}

TEST_CASE("faults lose SMPs at random, and none once they are cleared") {
    Subnet subnet(2);
    MiniSm sm(subnet, subnet.guest(0));
    sm.sweep();
    fabric::FaultSpec faults;
    faults.drop = 0.5;
    faults.vl15 = true;
    subnet.set_faults(faults);
    unsigned answered = 0;
    for (unsigned i = 0; i < 100; ++i) {
        answered += sm.ask(ib::Method::kGet, ib::attr::kNodeInfo, 0, {1, 2}).has_value();
    }
    CHECK(answered > 5);
    CHECK(answered < 95);
    subnet.set_faults({});
    CHECK(sm.ask(ib::Method::kGet, ib::attr::kNodeInfo, 0, {1, 2}).has_value());
    CHECK(is_active(subnet.guest(1)));
}

TEST_CASE("an SM that repeats lost SMPs brings all ports to Active, and a returned guest's again") {
    Subnet subnet(3);
    MiniSm sm(subnet, subnet.guest(0));
    sm.tries = 16;
    subnet.set_faults({.drop = 0.2, .vl15 = true});
    sm.sweep();
    for (unsigned i = 0; i < 3; ++i) {
        CHECK(is_active(subnet.guest(i)));
        CHECK(subnet.guest(i).query_port().lid == sm.lid_of(i));
    }
    CHECK(subnet.fault_counts().dropped > 0);
    subnet.guest(1).take_port_events();

    // Guest 1 gets its attributes again, maybe twice, which raises no event.
    subnet.guest(2).disconnect();
    subnet.advance(1'000'000);
    subnet.connect(2);
    subnet.advance(100'000'000);
    sm.sweep();
    CHECK(is_active(subnet.guest(2)));
    CHECK(subnet.guest(1).take_port_events() == 0);
}

TEST_CASE("a trap that is lost comes again, and so does one whose TrapRepress is lost") {
    Subnet subnet(2);
    MiniSm sm(subnet, subnet.guest(0));
    sm.sweep();
    sm.take_traps();
    subnet.set_faults({.drop = 1, .vl15 = true});
    pib_hca_modify_device in{};
    in.mask = PIB_HCA_MODIFY_DEVICE_NODE_DESC;
    in.node_description[0] = 'x';
    hca::test::MiniDriver& driver = subnet.guest(1).driver;
    driver.must(driver.command_in(PIB_HCA_CMD_MODIFY_DEVICE, 0, in), "MODIFY_DEVICE");
    // Only the guest's trap counts: a trap of the switch may still wait for its time.
    const auto trap_comes = [&] {
        return std::ranges::any_of(sm.take_traps(), [](ib::Mad& trap) {
            return ib::get(trap.smp_data(), ib::notice::kTrapNumber) == ib::trap::kLocalChanges;
        });
    };
    subnet.advance(1'000'000);
    CHECK_FALSE(trap_comes());

    // The trap passes now; the TrapRepress, which comes from the SM's guest, is lost.
    subnet.set_faults({});
    subnet.sw.port(1).ingress_faults().set({.drop = 1, .vl15 = true});
    CHECK(subnet.run_until(trap_comes));
    CHECK(subnet.run_until(trap_comes));
    subnet.set_faults({});
    CHECK(subnet.run_until(trap_comes));
    CHECK_FALSE(subnet.run_until(trap_comes, 10'000'000'000));
}
