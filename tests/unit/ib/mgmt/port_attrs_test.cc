// SPDX-License-Identifier: GPL-2.0-or-later
// A port's tables and its link state machine, and what Set(PortInfo) accepts.
#include "ib/mgmt/port_attrs.h"

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>

using namespace pib::ib;

namespace {

using Data = std::array<uint8_t, kSmpDataSize>;

PortAttrs ca_port() {
    return make_port({.kind = PortKind::kChannelAdapter,
                      .port_number = 1,
                      .guid = Guid(0x1122),
                      .link_speed_ext_supported = link_speed_ext::kFdr | link_speed_ext::kEdr,
                      .vl_cap = 4,
                      .capability_mask = port_cap::kIsClientReregistrationSupported});
}

PortAttrs switch_port(bool enforcement = true) {
    return make_port({.kind = PortKind::kSwitchExternal,
                      .port_number = 7,
                      .vl_cap = 4,
                      .sl2vl_inputs = 9,
                      .partition_enforcement = enforcement});
}

PortAttrs port0(PortKind kind) {
    return make_port({.kind = kind, .port_number = 0, .guid = Guid(9)});
}

// The data of a Set that changes nothing: the current values.
Data unchanged(const PortAttrs& port) {
    Data data = port.info;
    set(data, port_info::kPortState, 0);
    set(data, port_info::kPortPhysicalState, 0);
    if (port.lid().value() == 0) {
        set(data, port_info::kLid, 1);
        set(data, port_info::kMasterSmLid, 1);
    }
    return data;
}

SetResult set_field(PortAttrs& port, Field field, uint64_t value) {
    Data data = unchanged(port);
    set(data, field, value);
    return set_port_info(port, data);
}

SetResult command(PortAttrs& port, PortState state, PhysState phys = PhysState::kNoChange) {
    Data data = unchanged(port);
    set(data, port_info::kPortState, static_cast<unsigned>(state));
    set(data, port_info::kPortPhysicalState, static_cast<unsigned>(phys));
    return set_port_info(port, data);
}

void assign_lids(PortAttrs& port) {
    set_field(port, port_info::kLid, 5);
    set_field(port, port_info::kMasterSmLid, 6);
}

PortAttrs up_port() {
    PortAttrs port = ca_port();
    assign_lids(port);
    port_link_up(port, link_width::k4x, link_speed::kQdr, link_speed_ext::kEdr);
    return port;
}

void make_active(PortAttrs& port) {
    command(port, PortState::kArmed);
    command(port, PortState::kActive);
}

}  // namespace

TEST_CASE("a port after power-on has the values of the specification") {
    const PortAttrs port = ca_port();
    CHECK(port.state() == PortState::kDown);
    CHECK(port.phys_state() == PhysState::kPolling);
    CHECK(port.guid() == Guid(0x1122));
    CHECK(port.gid_prefix() == kDefaultGidPrefix);
    CHECK(port.pkeys.size() == 32);
    CHECK(port.pkeys[0] == kDefaultPKey);
    CHECK(port.data_vls() == 8);
    CHECK(port.sl_to_vl.size() == 1);
    CHECK(port.sl_to_vl[0][9] == 1);
    CHECK(port0(PortKind::kSwitchPort0).state() == PortState::kActive);
    CHECK(port == ca_port());
}

TEST_CASE("a port owns the LIDs of its path bits") {
    PortAttrs port = ca_port();
    set_field(port, port_info::kLid, 0x10);
    set_field(port, port_info::kLmc, 2);
    CHECK(port.owns_lid(Lid(0x10)));
    CHECK(port.owns_lid(Lid(0x13)));
    CHECK_FALSE(port.owns_lid(Lid(0x14)));
    CHECK_FALSE(port.owns_lid(Lid(0)));
    CHECK_FALSE(port.owns_lid(kPermissiveLid));
}

TEST_CASE("a link comes up, and the port is armed, active and down again") {
    PortAttrs port = ca_port();
    assign_lids(port);
    CHECK(port_link_up(port, link_width::k4x, link_speed::kQdr, link_speed_ext::kEdr)
              .has(PortEvent::kStateChange));
    CHECK(port.state() == PortState::kInitialize);
    CHECK(port.phys_state() == PhysState::kLinkUp);
    CHECK(port.get(port_info::kLinkSpeedExtActive) == link_speed_ext::kEdr);
    CHECK_FALSE(port.may_receive_data());

    CHECK(command(port, PortState::kArmed).events.has(PortEvent::kStateChange));
    CHECK(port.may_receive_data());
    CHECK_FALSE(port.may_send_data());
    CHECK(command(port, PortState::kActive).events.has(PortEvent::kStateChange));
    CHECK(port.may_send_data());

    CHECK(port_link_down(port).has(PortEvent::kStateChange));
    CHECK(port.state() == PortState::kDown);
    CHECK(port.phys_state() == PhysState::kPolling);
    CHECK_FALSE(port_link_down(port).any());
    CHECK(port.lid() == Lid(5));
}

TEST_CASE("a data packet makes an armed port active") {
    PortAttrs port = up_port();
    CHECK_FALSE(port_data_arrived(port).any());
    command(port, PortState::kArmed);
    CHECK(port_data_arrived(port).has(PortEvent::kStateChange));
    CHECK(port.state() == PortState::kActive);
    CHECK_FALSE(port_data_arrived(port).any());
}

TEST_CASE("illegal state transitions are refused and change nothing") {
    const auto refused = [](PortAttrs port, PortState to, PhysState phys = PhysState::kNoChange) {
        const PortAttrs before = port;
        const SetResult result = command(port, to, phys);
        CHECK(result.status == mad_status::kBadField);
        CHECK_FALSE(result.events.any());
        CHECK(port == before);
    };
    PortAttrs down = ca_port();
    assign_lids(down);
    refused(down, PortState::kActive);
    refused(down, PortState::kArmed);
    refused(down, PortState::kInitialize);
    refused(up_port(), PortState::kActive);
    refused(up_port(), PortState::kInitialize);
    refused(up_port(), static_cast<PortState>(9));
    refused(up_port(), PortState::kDown, PhysState::kLinkUp);
    refused(up_port(), PortState::kNoChange, PhysState::kTraining);
    refused(up_port(), PortState::kArmed, PhysState::kDisabled);
    PortAttrs active = up_port();
    make_active(active);
    refused(active, PortState::kArmed);
}

TEST_CASE("a command of the current state changes nothing") {
    PortAttrs port = up_port();
    make_active(port);
    const SetResult result = command(port, PortState::kActive);
    CHECK(result.status == mad_status::kOk);
    CHECK_FALSE(result.events.any());
}

TEST_CASE("a port is disabled, and enabled again") {
    PortAttrs port = up_port();
    make_active(port);
    SetResult result = command(port, PortState::kDown, PhysState::kDisabled);
    CHECK(result.status == mad_status::kOk);
    CHECK(result.events.has(PortEvent::kDownRequest));
    CHECK(result.events.has(PortEvent::kStateChange));
    CHECK(port.phys_state() == PhysState::kDisabled);
    CHECK_FALSE(port_wants_link(port));
    CHECK_FALSE(port_link_up(port, 2, 1, 0).any());

    result = command(port, PortState::kDown, PhysState::kPolling);
    CHECK(result.events.has(PortEvent::kDownRequest));
    CHECK_FALSE(result.events.has(PortEvent::kStateChange));
    CHECK(port_wants_link(port));
    CHECK(port_link_up(port, 2, 1, 0).any());
    CHECK(port.state() == PortState::kInitialize);
}

TEST_CASE("Down without a physical state goes to LinkDownDefaultState") {
    PortAttrs port = up_port();
    set_field(port, port_info::kLinkDownDefaultState, static_cast<unsigned>(PhysState::kSleep));
    CHECK(command(port, PortState::kDown).events.has(PortEvent::kDownRequest));
    CHECK(port.phys_state() == PhysState::kSleep);
    CHECK_FALSE(command(port, PortState::kDown).events.any());
}

TEST_CASE("a physical state without a PortState takes the link down") {
    PortAttrs port = up_port();
    CHECK(command(port, PortState::kNoChange, PhysState::kPolling)
              .events.has(PortEvent::kDownRequest));
    CHECK(port.state() == PortState::kDown);
}

TEST_CASE("values outside their range are refused one by one") {
    struct {
        Field field;
        uint64_t value;
    } const bad[] = {
        {port_info::kLid, 0},
        {port_info::kLid, 0xC000},
        {port_info::kLid, 0xFFFF},
        {port_info::kMasterSmLid, 0},
        {port_info::kMasterSmLid, 0xC001},
        {port_info::kLinkWidthEnabled, link_width::k12x},
        {port_info::kLinkSpeedEnabled, 8},
        {port_info::kLinkSpeedExtEnabled, link_speed_ext::kHdr},
        {port_info::kLinkDownDefaultState, 3},
        {port_info::kNeighborMtu, 0},
        {port_info::kNeighborMtu, 6},
        {port_info::kOperationalVls, 5},
    };
    for (const auto& c : bad) {
        CAPTURE(c.field.offset_bits, c.value);
        PortAttrs port = up_port();
        const PortAttrs before = port;
        const SetResult result = set_field(port, c.field, c.value);
        CHECK(result.status == mad_status::kBadField);
        CHECK_FALSE(result.events.any());
        CHECK(port == before);
    }
}

TEST_CASE("a bad value does not stop the good ones of the same Set") {
    PortAttrs port = up_port();
    Data data = unchanged(port);
    set(data, port_info::kNeighborMtu, 7);
    set(data, port_info::kMasterSmSl, 3);
    const SetResult result = set_port_info(port, data);
    CHECK(result.status == mad_status::kBadField);
    CHECK(result.events.has(PortEvent::kSmChange));
    CHECK(port.neighbor_mtu() == Mtu::k4096);
    CHECK(port.sm_sl() == Sl(3));
}

TEST_CASE("events name only real changes") {
    PortAttrs port = up_port();
    CHECK_FALSE(set_port_info(port, unchanged(port)).events.any());
    CHECK(set_field(port, port_info::kLid, 77).events == PortEvents(PortEvent::kLidChange));
    CHECK(set_field(port, port_info::kLmc, 3).events == PortEvents(PortEvent::kLidChange));
    CHECK(set_field(port, port_info::kMasterSmLid, 8).events == PortEvents(PortEvent::kSmChange));
    CHECK(set_field(port, port_info::kGidPrefix, 8).events == PortEvents(PortEvent::kGidChange));
    CHECK(set_field(port, port_info::kNeighborMtu, 4).events ==
          PortEvents(PortEvent::kLinkAttribute));
    CHECK(set_field(port, port_info::kLinkWidthEnabled, 1).events ==
          PortEvents(PortEvent::kLinkParameters));
    CHECK(set_field(port, port_info::kClientReregister, 1).events ==
          PortEvents(PortEvent::kClientReregister));
}

TEST_CASE("the code for \"all supported\" enables all, and 0 changes nothing") {
    PortAttrs port = up_port();
    set_field(port, port_info::kLinkWidthEnabled, 1);
    set_field(port, port_info::kLinkWidthEnabled, 0);
    CHECK(port.get(port_info::kLinkWidthEnabled) == 1);
    set_field(port, port_info::kLinkWidthEnabled, 255);
    CHECK(port.get(port_info::kLinkWidthEnabled) == 3);
    set_field(port, port_info::kLinkSpeedEnabled, 1);
    set_field(port, port_info::kLinkSpeedEnabled, 15);
    CHECK(port.get(port_info::kLinkSpeedEnabled) == 7);
    set_field(port, port_info::kLinkSpeedExtEnabled, 30);
    CHECK(port.get(port_info::kLinkSpeedExtEnabled) == 30);
    set_field(port, port_info::kLinkSpeedExtEnabled, 31);
    CHECK(port.get(port_info::kLinkSpeedExtEnabled) == 3);
}

TEST_CASE("read-only fields stay") {
    PortAttrs port = up_port();
    const PortAttrs before = port;
    Data data = unchanged(port);
    for (const Field field :
         {port_info::kCapabilityMask, port_info::kDiagCode, port_info::kLinkWidthSupported,
          port_info::kLinkWidthActive, port_info::kLinkSpeedSupported, port_info::kLinkSpeedActive,
          port_info::kVlCap, port_info::kVlArbitrationHighCap, port_info::kMtuCap,
          port_info::kGuidCap, port_info::kRespTimeValue, port_info::kCapabilityMask2,
          port_info::kLinkSpeedExtSupported, port_info::kPartitionEnforcementInbound,
          port_info::kHoqLife, port_info::kLinkRoundTripLatency}) {
        set(data, field, get(data, field) ^ field.max());
    }
    CHECK(set_port_info(port, data).status == mad_status::kOk);
    CHECK(port == before);
}

TEST_CASE("violation counters stick and can be cleared, not written") {
    PortAttrs port = up_port();
    port.set(port_info::kPKeyViolations, 0xFFFE);
    count_violation(port, port_info::kPKeyViolations);
    count_violation(port, port_info::kPKeyViolations);
    CHECK(port.get(port_info::kPKeyViolations) == 0xFFFF);
    set_field(port, port_info::kPKeyViolations, 5);
    CHECK(port.get(port_info::kPKeyViolations) == 0xFFFF);
    set_field(port, port_info::kPKeyViolations, 0);
    CHECK(port.get(port_info::kPKeyViolations) == 0);
}

TEST_CASE("external ports of a switch have no LID, port 0 has no link") {
    PortAttrs external = switch_port();
    CHECK(set_field(external, port_info::kLid, 0xFFFF).status == mad_status::kOk);
    CHECK(external.lid() == Lid(0));
    CHECK_FALSE(set_field(external, port_info::kClientReregister, 1)
                    .events.has(PortEvent::kClientReregister));
    set_field(external, port_info::kHoqLife, 9);
    CHECK(external.get(port_info::kHoqLife) == 9);
    set_field(external, port_info::kPartitionEnforcementInbound, 1);
    CHECK(external.get(port_info::kPartitionEnforcementInbound) == 1);
    PortAttrs without = switch_port(false);
    set_field(without, port_info::kPartitionEnforcementInbound, 1);
    CHECK(without.get(port_info::kPartitionEnforcementInbound) == 0);

    PortAttrs base = port0(PortKind::kSwitchPort0);
    CHECK(command(base, PortState::kDown, PhysState::kDisabled).status == mad_status::kOk);
    CHECK(base.state() == PortState::kActive);
    CHECK(set_field(base, port_info::kLmc, 1).status == mad_status::kBadField);
    PortAttrs enhanced = port0(PortKind::kSwitchEnhancedPort0);
    CHECK(set_field(enhanced, port_info::kLmc, 1).status == mad_status::kOk);
    CHECK_FALSE(port_link_down(base).any());
}

TEST_CASE("P_Key blocks are read and written") {
    PortAttrs port = make_port({.pkey_cap = 40});
    Data data{};
    CHECK(get_pkey_block(port, 0, data) == mad_status::kOk);
    CHECK(data[0] == 0xFF);
    CHECK(data[1] == 0xFF);
    CHECK(get_pkey_block(port, 2, data) == mad_status::kBadField);
    data.fill(0);
    store_be(&data[2 * 7], uint16_t{0x8123});
    store_be(&data[2 * 8], uint16_t{0x8456});  // beyond the table of 40
    SetResult result = set_pkey_block(port, 1, data);
    CHECK(result.status == mad_status::kOk);
    CHECK(result.events.has(PortEvent::kPKeyChange));
    CHECK(port.pkeys[39] == PKey(0x8123));
    CHECK_FALSE(set_pkey_block(port, 1, data).events.any());
    CHECK(get_pkey_block(port, 1, data) == mad_status::kOk);
    CHECK(load_be<uint16_t>(&data[2 * 8]) == 0);
    CHECK(port.find_pkey(PKey(0x0123)) == 39);
    CHECK(port.find_pkey(PKey(0x7FFF)) == 0);
    CHECK(port.find_pkey(PKey(0x8124)) == -1);
    CHECK(set_pkey_block(port, 2, data).status == mad_status::kBadField);
}

TEST_CASE("GUID blocks keep the port GUID") {
    PortAttrs port = make_port({.guid = Guid(1), .guid_cap = 10});
    Data data{};
    store_be(&data[0], uint64_t{99});
    store_be(&data[8], uint64_t{2});
    CHECK(set_guid_block(port, 0, data).events.has(PortEvent::kGidChange));
    CHECK(port.guids[0] == Guid(1));
    CHECK(port.guids[1] == Guid(2));
    CHECK(set_guid_block(port, 1, data).status == mad_status::kOk);
    CHECK(port.guids[8] == Guid(99));
    CHECK(set_guid_block(port, 2, data).status == mad_status::kBadField);
    CHECK(get_guid_block(port, 0x10000, data) == mad_status::kBadField);
    CHECK(get_guid_block(switch_port(), 0, data) == mad_status::kBadField);
}

TEST_CASE("SLtoVL tables are read and written by input port") {
    PortAttrs port = switch_port();
    Data data{};
    data[0] = 0x12;
    data[7] = 0x3F;
    CHECK(set_sl_to_vl(port, 8, data).events.has(PortEvent::kLinkAttribute));
    CHECK(port.sl_to_vl[8][0] == 1);
    CHECK(port.sl_to_vl[8][1] == 2);
    CHECK(port.sl_to_vl[8][15] == 15);
    CHECK(port.sl_to_vl[0][1] == 1);
    Data back{};
    CHECK(get_sl_to_vl(port, 8, back) == mad_status::kOk);
    CHECK(back == data);
    CHECK(get_sl_to_vl(port, 9, back) == mad_status::kBadField);
    CHECK(set_sl_to_vl(port, 200, data).status == mad_status::kBadField);
}

TEST_CASE("VL arbitration tables have an entry for each data VL") {
    const PortAttrs port = make_port({.vl_cap = 5, .vl_arb_high_cap = 8, .vl_arb_low_cap = 8});
    CHECK(port.get(port_info::kVlArbitrationHighCap) == 15);
    CHECK(port.get(port_info::kVlArbitrationLowCap) == 15);
    REQUIRE(port.vl_arb_low.size() == 15);
    CHECK(port.vl_arb_low[14].vl == 14);
    CHECK(port.vl_arb_low[14].weight != 0);
}

TEST_CASE("VL arbitration blocks are read and written") {
    PortAttrs port = make_port({.vl_arb_high_cap = 40, .vl_arb_low_cap = 8});
    Data data{};
    data[0] = 0xF3;  // the upper half is reserved
    data[1] = 200;
    CHECK(set_vl_arb_block(port, 1, data).events.has(PortEvent::kLinkAttribute));
    CHECK(port.vl_arb_low[0] == VlArbEntry{3, 200});
    CHECK(set_vl_arb_block(port, 2, data).status == mad_status::kBadField);
    CHECK(set_vl_arb_block(port, 4, data).status == mad_status::kOk);
    CHECK(port.vl_arb_high[32] == VlArbEntry{3, 200});
    CHECK(get_vl_arb_block(port, 4, data) == mad_status::kOk);
    CHECK(data[0] == 3);
    for (const uint16_t block : {0, 5, 0xFFFF}) {
        CHECK(get_vl_arb_block(port, block, data) == mad_status::kBadField);
        CHECK(set_vl_arb_block(port, block, data).status == mad_status::kBadField);
    }
}
