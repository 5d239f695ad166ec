// SPDX-License-Identifier: GPL-2.0-or-later
// Get and Set of PortInfo (IBA 14.2.5.6): one row for each component that can be set, with the
// kinds of port that have it and the rule for its values. Components without a row are read-only.
#include <algorithm>
#include <bit>

#include "ib/mgmt/port_attrs.h"

namespace pib::ib {
namespace {

// Result of a rule for a requested value.
struct Verdict {
    enum Kind : uint8_t { kTake, kKeep, kBad } kind = kTake;
    uint64_t value = 0;
};
Verdict take(uint64_t value) {
    return {Verdict::kTake, value};
}
constexpr Verdict kKeepOld{Verdict::kKeep, 0};
constexpr Verdict kBadValue{Verdict::kBad, 0};
Verdict take_if(bool valid, uint64_t value) {
    return valid ? take(value) : kBadValue;
}

using Rule = Verdict (*)(const PortAttrs& port, uint64_t value);

Verdict any(const PortAttrs&, uint64_t value) {
    return take(value);
}

Verdict unicast_lid(const PortAttrs&, uint64_t value) {
    return take_if(Lid(static_cast<Lid::rep>(value)).is_unicast(), value);
}

// Violation counters can only be cleared; other values have no effect.
Verdict clear_only(const PortAttrs&, uint64_t value) {
    return value == 0 ? take(0) : kKeepOld;
}

// 0 keeps the value, `all` selects all supported bits, other values may have supported bits only.
Verdict subset(uint64_t supported, uint64_t all, uint64_t value) {
    if (value == 0) {
        return kKeepOld;
    }
    if (value == all) {
        return take(supported);
    }
    return take_if((value & ~supported) == 0, value);
}

Verdict width_enabled(const PortAttrs& port, uint64_t value) {
    return subset(port.get(port_info::kLinkWidthSupported), link_width::kSetToSupported, value);
}

Verdict speed_enabled(const PortAttrs& port, uint64_t value) {
    return subset(port.get(port_info::kLinkSpeedSupported), link_speed::kSetToSupported, value);
}

Verdict speed_ext_enabled(const PortAttrs& port, uint64_t value) {
    if (value == link_speed_ext::kNoneEnabled) {
        return take(value);
    }
    return subset(port.get(port_info::kLinkSpeedExtSupported), link_speed_ext::kSetToSupported,
                  value);
}

Verdict down_default_state(const PortAttrs&, uint64_t value) {
    if (value == 0) {
        return kKeepOld;
    }
    return take_if(value == static_cast<unsigned>(PhysState::kSleep) ||
                       value == static_cast<unsigned>(PhysState::kPolling),
                   value);
}

Verdict neighbor_mtu(const PortAttrs& port, uint64_t value) {
    return take_if(
        is_valid_mtu_code(static_cast<unsigned>(value)) && value <= port.get(port_info::kMtuCap),
        value);
}

Verdict operational_vls(const PortAttrs& port, uint64_t value) {
    return value == 0 ? kKeepOld : take_if(value <= port.get(port_info::kVlCap), value);
}

Verdict lmc(const PortAttrs& port, uint64_t value) {
    // A base switch port 0 has exactly one LID (IBA 18.2.4.1).
    return take_if(port.kind != PortKind::kSwitchPort0 || value == 0, value);
}

Verdict enforcement(const PortAttrs& port, uint64_t value) {
    return port.partition_enforcement_cap ? take(value) : kKeepOld;
}

Verdict raw_filter(const PortAttrs& port, uint64_t value) {
    return port.raw_filter_cap ? take(value) : kKeepOld;
}

// Kinds of port that have a component, as bits.
constexpr uint8_t bit(PortKind kind) {
    return static_cast<uint8_t>(1U << static_cast<unsigned>(kind));
}
constexpr uint8_t kCa = bit(PortKind::kChannelAdapter);
constexpr uint8_t kExternal = bit(PortKind::kSwitchExternal);
constexpr uint8_t kBase0 = bit(PortKind::kSwitchPort0);
constexpr uint8_t kEnhanced0 = bit(PortKind::kSwitchEnhancedPort0);
constexpr uint8_t kManaged = kCa | kBase0 | kEnhanced0;  // has a LID and an SMA
constexpr uint8_t kLinked = kCa | kExternal;             // has a physical link
constexpr uint8_t kVls = kLinked | kEnhanced0;           // has VLs of its own

struct Row {
    Field field;
    uint8_t kinds;
    Rule rule;
    PortEvents change;  // reported when the value changes
};

constexpr Row kRows[] = {
    {port_info::kMKey, kManaged, any, {}},
    {port_info::kGidPrefix, kManaged, any, PortEvent::kGidChange},
    {port_info::kLid, kManaged, unicast_lid, PortEvent::kLidChange},
    {port_info::kMasterSmLid, kManaged, unicast_lid, PortEvent::kSmChange},
    {port_info::kMKeyLeasePeriod, kManaged, any, {}},
    {port_info::kLinkWidthEnabled, kLinked, width_enabled, PortEvent::kLinkParameters},
    {port_info::kLinkDownDefaultState, kLinked, down_default_state, {}},
    {port_info::kMKeyProtectBits, kManaged, any, {}},
    {port_info::kLmc, kManaged, lmc, PortEvent::kLidChange},
    {port_info::kLinkSpeedEnabled, kLinked, speed_enabled, PortEvent::kLinkParameters},
    {port_info::kNeighborMtu, kVls, neighbor_mtu, PortEvent::kLinkAttribute},
    {port_info::kMasterSmSl, kManaged, any, PortEvent::kSmChange},
    {port_info::kVlHighLimit, kVls, any, PortEvent::kLinkAttribute},
    {port_info::kVlStallCount, kExternal, any, PortEvent::kLinkAttribute},
    {port_info::kHoqLife, kExternal, any, PortEvent::kLinkAttribute},
    {port_info::kOperationalVls, kVls, operational_vls, PortEvent::kLinkAttribute},
    {port_info::kPartitionEnforcementInbound, kExternal, enforcement, PortEvent::kLinkAttribute},
    {port_info::kPartitionEnforcementOutbound, kExternal, enforcement, PortEvent::kLinkAttribute},
    {port_info::kFilterRawInbound, kExternal, raw_filter, PortEvent::kLinkAttribute},
    {port_info::kFilterRawOutbound, kExternal, raw_filter, PortEvent::kLinkAttribute},
    {port_info::kMKeyViolations, kManaged, clear_only, {}},
    {port_info::kPKeyViolations, kManaged | kExternal, clear_only, {}},
    {port_info::kQKeyViolations, kManaged, clear_only, {}},
    {port_info::kSubnetTimeOut, kManaged, any, {}},
    {port_info::kLocalPhyErrors, kLinked, any, {}},
    {port_info::kOverrunErrors, kLinked, any, {}},
    {port_info::kLinkSpeedExtEnabled, kLinked, speed_ext_enabled, PortEvent::kLinkParameters},
};

using Data = std::span<const uint8_t, kSmpDataSize>;

void apply_row(PortAttrs& port, const Row& row, Data data, SetResult& result) {
    if ((row.kinds & bit(port.kind)) == 0) {
        return;
    }
    const Verdict verdict = row.rule(port, get(data, row.field));
    if (verdict.kind == Verdict::kBad) {
        result.status = mad_status::kBadField;
    } else if (verdict.kind == Verdict::kTake && verdict.value != port.get(row.field)) {
        port.set(row.field, verdict.value);
        result.events |= row.change;
    }
}

// Takes the link down, into the requested physical state.
void command_down(PortAttrs& port, PhysState phys, SetResult& result) {
    if (phys == PhysState::kNoChange) {
        if (!port.link_is_up()) {
            return;
        }
        phys = static_cast<PhysState>(port.get(port_info::kLinkDownDefaultState));
    }
    result.events |= port_link_down(port);
    if (port.phys_state() != phys || result.events.has(PortEvent::kStateChange)) {
        port.set(port_info::kPortPhysicalState, static_cast<unsigned>(phys));
        result.events |= PortEvent::kDownRequest;
    }
}

void command_state(PortAttrs& port, PortState from, PortState to, SetResult& result) {
    if (port.state() == from) {
        port.set(port_info::kPortState, static_cast<unsigned>(to));
        result.events |= PortEvent::kStateChange;
    } else if (port.state() != to) {
        result.status = mad_status::kBadField;
    }
}

// PortState and PortPhysicalState are commands, not values (IBA 7.2.7 and table 146): Armed from
// Initialize, Active from Armed, Down from anywhere; a physical state only with Down or NoChange.
void command_port(PortAttrs& port, Data data, SetResult& result) {
    const auto state = static_cast<PortState>(get(data, port_info::kPortState));
    const auto phys = static_cast<PhysState>(get(data, port_info::kPortPhysicalState));
    if (phys > PhysState::kDisabled) {
        result.status = mad_status::kBadField;
        return;
    }
    const bool may_move_phys = state == PortState::kNoChange || state == PortState::kDown;
    if (phys != PhysState::kNoChange && !may_move_phys) {
        result.status = mad_status::kBadField;
        return;
    }
    switch (state) {
        case PortState::kNoChange:
            if (phys != PhysState::kNoChange) {
                command_down(port, phys, result);
            }
            return;
        case PortState::kDown:
            return command_down(port, phys, result);
        case PortState::kArmed:
            return command_state(port, PortState::kInitialize, PortState::kArmed, result);
        case PortState::kActive:
            return command_state(port, PortState::kArmed, PortState::kActive, result);
        default:
            result.status = mad_status::kBadField;
    }
}

}  // namespace

uint16_t get_port_info(const PortAttrs& port, std::span<uint8_t, kSmpDataSize> data) {
    std::ranges::copy(port.info, data.begin());
    return mad_status::kOk;
}

SetResult set_port_info(PortAttrs& port, Data data) {
    SetResult result;
    for (const Row& row : kRows) {
        apply_row(port, row, data, result);
    }
    const bool linked = (kLinked & bit(port.kind)) != 0;
    if (linked) {
        // The port state changes last, so that the port is armed with the values of the same Set.
        command_port(port, data, result);
    }
    const bool reregister_offered =
        (port.get(port_info::kCapabilityMask) & port_cap::kIsClientReregistrationSupported) != 0;
    if (reregister_offered && get(data, port_info::kClientReregister) != 0) {
        result.events |= PortEvent::kClientReregister;
    }
    return result;
}

}  // namespace pib::ib
