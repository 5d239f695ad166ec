// SPDX-License-Identifier: GPL-2.0-or-later
// The attributes of one port: PortInfo, P_Key table, GUIDInfo, SL to VL mapping, VL arbitration and
// the link state machine (IBA 7.2, 14.2.5). One implementation for the ports of channel adapters
// and of switches; plain data, so it can be saved and compared.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "ib/mgmt/sl_to_vl_table.h"
#include "ib/mgmt/traps.h"
#include "ib/wire/link_frame.h"
#include "ib/wire/mad.h"
#include "ib/wire/types.h"

namespace pib::ib {

enum class PortKind : uint8_t {
    kChannelAdapter,
    kSwitchExternal,
    kSwitchPort0,          // base switch port 0
    kSwitchEnhancedPort0,  // enhanced switch port 0: has LMC and VL tables too
};

// Changes and requests by a Set of an attribute or by the link; bits of a PortEvents.
enum class PortEvent : uint16_t {
    kLidChange = 1U << 0,         // LID or LMC
    kSmChange = 1U << 1,          // MasterSMLID or MasterSMSL
    kClientReregister = 1U << 2,  // the SM requests reregistration of clients
    kPKeyChange = 1U << 3,
    kGidChange = 1U << 4,       // GidPrefix or GUIDInfo
    kStateChange = 1U << 5,     // PortState, by command or by link
    kLinkParameters = 1U << 6,  // a value that the link negotiates: enabled widths or speeds
    kDownRequest = 1U << 7,     // the link must go down, and train again unless disabled or asleep
    kLinkAttribute = 1U << 8,   // NeighborMTU, OperationalVLs, VL tables, HOQLife, enforcement
    kNodeDescription = 1U << 9,
};

class PortEvents {
  public:
    constexpr PortEvents() = default;
    // NOLINTNEXTLINE(google-explicit-constructor): one event is a set of events.
    constexpr PortEvents(PortEvent event) : bits_(static_cast<uint16_t>(event)) {}

    [[nodiscard]] constexpr bool has(PortEvent event) const {
        return (bits_ & static_cast<uint16_t>(event)) != 0;
    }
    [[nodiscard]] constexpr bool any() const { return bits_ != 0; }
    constexpr PortEvents& operator|=(PortEvents other) {
        bits_ = static_cast<uint16_t>(bits_ | other.bits_);
        return *this;
    }
    constexpr bool operator==(const PortEvents&) const = default;

  private:
    uint16_t bits_ = 0;
};

// Constants of a port. Codes are PortInfo's.
struct PortConfig {
    PortKind kind = PortKind::kChannelAdapter;
    uint8_t port_number = 1;
    Guid guid{};  // port GUID; 0 for external ports of a switch, which have none
    uint8_t link_width_supported = link_width::k1x | link_width::k4x;
    uint8_t link_speed_supported = link_speed::kSdr | link_speed::kDdr | link_speed::kQdr;
    uint8_t link_speed_ext_supported = 0;
    Mtu mtu_cap = Mtu::k4096;
    uint8_t vl_cap = 1;           // 1: VL0, 2: VL0-1, 3: VL0-3, 4: VL0-7, 5: VL0-14
    uint8_t vl_arb_high_cap = 8;  // entries, from the number of VLs to 64
    uint8_t vl_arb_low_cap = 8;
    uint16_t pkey_cap = 32;    // entries of the P_Key table
    uint8_t guid_cap = 8;      // entries of the GUID table
    uint8_t sl2vl_inputs = 1;  // rows of SL to VL: 1, or on a switch one per input port from 0
    uint32_t capability_mask = 0;
    uint16_t capability_mask2 = 0;
    uint8_t resp_time_value = 16;        // 4.096 us * 2^n
    bool partition_enforcement = false;  // switch external ports: In/Outbound can be set
    bool raw_filter = false;             // switch external ports: FilterRawIn/Outbound can be set
};

// One entry of a VL arbitration table. The weight is in units of 64 bytes; entries of weight 0 are
// skipped (IBA 7.6.9.2).
struct VlArbEntry {
    uint8_t vl = 0;
    uint8_t weight = 0;

    bool operator==(const VlArbEntry&) const = default;
};

struct PortAttrs {
    PortKind kind = PortKind::kChannelAdapter;
    bool partition_enforcement_cap = false;
    bool raw_filter_cap = false;
    uint8_t number = 1;
    // PortInfo in wire format, accessed by the port_info fields. The answer to an SMP sets
    // LocalPortNum, and hides the M_Key from requesters that may not read it.
    std::array<uint8_t, kSmpDataSize> info{};
    std::vector<PKey> pkeys;
    std::vector<Guid> guids;  // [0] is the port GUID and never changes
    SlToVlTable sl_to_vl;     // by input port; one row at a channel adapter
    std::vector<VlArbEntry> vl_arb_high;
    std::vector<VlArbEntry> vl_arb_low;
    // Time in ns at which the M_Key lease runs out; 0: no lease runs.
    uint64_t m_key_lease_end_ns = 0;
    bool led = false;  // LedInfo:LedMask
    TrapQueue traps;   // unused at external ports of a switch, whose traps port 0 sends

    bool operator==(const PortAttrs&) const = default;

    [[nodiscard]] uint64_t get(Field field) const { return ib::get(info, field); }
    void set(Field field, uint64_t value) { ib::set(info, field, value); }

    [[nodiscard]] Guid guid() const { return guids.empty() ? Guid{} : guids[0]; }
    [[nodiscard]] Lid lid() const { return Lid(static_cast<Lid::rep>(get(port_info::kLid))); }
    [[nodiscard]] uint8_t lmc() const { return static_cast<uint8_t>(get(port_info::kLmc)); }
    // Whether a unicast DLID is one of this port's LIDs, path bits included (IBA 7.11.1).
    [[nodiscard]] bool owns_lid(Lid dlid) const {
        return dlid.is_unicast() && lid().value() != 0 &&
               (dlid.value() >> lmc()) == (lid().value() >> lmc());
    }
    [[nodiscard]] Lid sm_lid() const {
        return Lid(static_cast<Lid::rep>(get(port_info::kMasterSmLid)));
    }
    [[nodiscard]] Sl sm_sl() const { return Sl(static_cast<Sl::rep>(get(port_info::kMasterSmSl))); }
    [[nodiscard]] uint64_t gid_prefix() const { return get(port_info::kGidPrefix); }
    [[nodiscard]] PortState state() const {
        return static_cast<PortState>(get(port_info::kPortState));
    }
    [[nodiscard]] PhysState phys_state() const {
        return static_cast<PhysState>(get(port_info::kPortPhysicalState));
    }
    [[nodiscard]] Mtu neighbor_mtu() const {
        return static_cast<Mtu>(get(port_info::kNeighborMtu));
    }
    [[nodiscard]] uint8_t data_vls() const;  // VLs in operation, without VL15: 1, 2, 4, 8, 15

    // Packets that the link state admits (IBA 7.2.7): those of VL15 whenever the link is up,
    // received data packets in Armed and Active, sent data packets in Active only.
    [[nodiscard]] bool link_is_up() const { return state() >= PortState::kInitialize; }
    [[nodiscard]] bool may_receive_data() const { return state() >= PortState::kArmed; }
    [[nodiscard]] bool may_send_data() const { return state() == PortState::kActive; }

    // Index of the first P_Key table entry that matches, or -1 (IBA 10.9.3).
    [[nodiscard]] int find_pkey(PKey packet) const;
};

// A port as it is after power-on: Down and Polling (port 0 of a switch: Active), default P_Key
// 0xFFFF, default GID prefix, all supported widths and speeds enabled.
[[nodiscard]] PortAttrs make_port(const PortConfig& config);

// Reports the end of link training with these active values: LinkUp and Initialize. No effect on a
// port that wants no link or has one. Returns the changes.
PortEvents port_link_up(PortAttrs& port, uint8_t width, uint8_t speed, uint8_t speed_ext);
// The link is lost: Down, and the physical state that LinkDownDefaultState names.
PortEvents port_link_down(PortAttrs& port);
// A data packet arrived while Armed: the neighbour is Active, so this port becomes Active (7.2.7).
PortEvents port_data_arrived(PortAttrs& port);
// Whether the port wants a link: `up` of LINK frames.
[[nodiscard]] bool port_wants_link(const PortAttrs& port);
// The port's parameters for LINK frames; the link sets `epoch`.
[[nodiscard]] link::Link link_parameters(const PortAttrs& port);

// Adds one to PortInfo's counter of M_Key, P_Key or Q_Key violations, which stops at its maximum.
void count_violation(PortAttrs& port, Field violations);

// Result of a Set: a MAD status and events. With kBadField the valid fields are applied and the
// others are unchanged (IBA 14.2.5.6).
struct SetResult {
    uint16_t status = mad_status::kOk;
    PortEvents events{};
};

// Getters and setters of attributes. `data` is the attribute area of an SMP; block numbers are from
// the attribute modifier. Each getter fills the whole area and returns a MAD status.
[[nodiscard]] uint16_t get_port_info(const PortAttrs& port, std::span<uint8_t, kSmpDataSize> data);
[[nodiscard]] SetResult set_port_info(PortAttrs& port, std::span<const uint8_t, kSmpDataSize> data);

[[nodiscard]] uint16_t get_pkey_block(const PortAttrs& port, uint16_t block,
                                      std::span<uint8_t, kSmpDataSize> data);
[[nodiscard]] SetResult set_pkey_block(PortAttrs& port, uint16_t block,
                                       std::span<const uint8_t, kSmpDataSize> data);

[[nodiscard]] uint16_t get_guid_block(const PortAttrs& port, uint32_t block,
                                      std::span<uint8_t, kSmpDataSize> data);
[[nodiscard]] SetResult set_guid_block(PortAttrs& port, uint32_t block,
                                       std::span<const uint8_t, kSmpDataSize> data);

// `input` selects the row of the mapping: 0 at a channel adapter, the input port at a switch.
[[nodiscard]] uint16_t get_sl_to_vl(const PortAttrs& port, uint8_t input,
                                    std::span<uint8_t, kSmpDataSize> data);
[[nodiscard]] SetResult set_sl_to_vl(PortAttrs& port, uint8_t input,
                                     std::span<const uint8_t, kSmpDataSize> data);

// `block`: 1 and 2 are the halves of the low priority table, 3 and 4 those of the high one.
[[nodiscard]] uint16_t get_vl_arb_block(const PortAttrs& port, uint16_t block,
                                        std::span<uint8_t, kSmpDataSize> data);
[[nodiscard]] SetResult set_vl_arb_block(PortAttrs& port, uint16_t block,
                                         std::span<const uint8_t, kSmpDataSize> data);

}  // namespace pib::ib
