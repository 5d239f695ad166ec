// SPDX-License-Identifier: GPL-2.0-or-later
// The port's tables and its link state machine; PortInfo's Set rules are in port_info_set.cc.
#include "ib/mgmt/port_attrs.h"

#include <algorithm>
#include <bit>

namespace pib::ib {
namespace {

// Data VLs by VLCap and OperationalVLs code (IBA table 146).
constexpr uint8_t kDataVls[] = {1, 1, 2, 4, 8, 15};

constexpr uint8_t data_vls_of(uint64_t code) {
    return kDataVls[std::min<uint64_t>(code, std::size(kDataVls) - 1)];
}

constexpr uint8_t kDefaultVlWeight = 64;

bool is_port0(PortKind kind) {
    return kind == PortKind::kSwitchPort0 || kind == PortKind::kSwitchEnhancedPort0;
}

uint64_t widest(uint8_t widths) {
    for (const uint8_t width :
         {link_width::k12x, link_width::k8x, link_width::k4x, link_width::k2x, link_width::k1x}) {
        if ((widths & width) != 0) {
            return width;
        }
    }
    return link_width::k1x;
}

void init_link_fields(PortAttrs& port, const PortConfig& config) {
    port.set(port_info::kLinkWidthSupported, config.link_width_supported);
    port.set(port_info::kLinkWidthEnabled, config.link_width_supported);
    port.set(port_info::kLinkWidthActive, widest(config.link_width_supported));
    port.set(port_info::kLinkSpeedSupported, config.link_speed_supported);
    port.set(port_info::kLinkSpeedEnabled, config.link_speed_supported);
    port.set(port_info::kLinkSpeedActive, link_speed::kSdr);
    port.set(port_info::kLinkSpeedExtSupported, config.link_speed_ext_supported);
    port.set(port_info::kLinkSpeedExtEnabled, config.link_speed_ext_supported);
    port.set(port_info::kLinkDownDefaultState, static_cast<unsigned>(PhysState::kPolling));
    const bool port0 = is_port0(config.kind);
    port.set(port_info::kPortState,
             static_cast<unsigned>(port0 ? PortState::kActive : PortState::kDown));
    port.set(port_info::kPortPhysicalState,
             static_cast<unsigned>(port0 ? PhysState::kLinkUp : PhysState::kPolling));
}

void init_vl_fields(PortAttrs& port, const PortConfig& config) {
    const uint8_t vls = data_vls_of(config.vl_cap);
    port.set(port_info::kMtuCap, static_cast<unsigned>(config.mtu_cap));
    port.set(port_info::kNeighborMtu, static_cast<unsigned>(config.mtu_cap));
    port.set(port_info::kVlCap, config.vl_cap);
    port.set(port_info::kOperationalVls, config.vl_cap);
    // Each table has an entry for each data VL, so that an SM can serve all of them.
    const auto high = std::clamp<uint8_t>(config.vl_arb_high_cap, vls, 64);
    const auto low = std::clamp<uint8_t>(config.vl_arb_low_cap, vls, 64);
    port.set(port_info::kVlArbitrationHighCap, high);
    port.set(port_info::kVlArbitrationLowCap, low);
    // Until a subnet manager sets it, the low table serves each VL equally.
    port.vl_arb_high.resize(high);
    port.vl_arb_low.resize(low);
    for (size_t i = 0; i < vls; ++i) {
        port.vl_arb_low[i] = {static_cast<uint8_t>(i), kDefaultVlWeight};
    }
    SlToVl map{};
    for (size_t sl = 0; sl < map.size(); ++sl) {
        map[sl] = static_cast<uint8_t>(sl % vls);
    }
    port.sl_to_vl = {std::max<size_t>(config.sl2vl_inputs, 1), map};
}

}  // namespace

uint8_t PortAttrs::data_vls() const {
    return data_vls_of(get(port_info::kOperationalVls));
}

int PortAttrs::find_pkey(PKey packet) const {
    const auto found =
        std::ranges::find_if(pkeys, [&](PKey entry) { return pkeys_match(packet, entry); });
    return found == pkeys.end() ? -1 : static_cast<int>(found - pkeys.begin());
}

PortAttrs make_port(const PortConfig& config) {
    PortAttrs port;
    port.kind = config.kind;
    port.number = config.port_number;
    port.partition_enforcement_cap = config.partition_enforcement;
    port.raw_filter_cap = config.raw_filter;
    init_link_fields(port, config);
    init_vl_fields(port, config);
    port.pkeys.resize(config.pkey_cap);
    if (!port.pkeys.empty()) {
        port.pkeys[0] = kDefaultPKey;
    }
    if (config.kind != PortKind::kSwitchExternal) {
        port.guids.resize(std::max<uint8_t>(config.guid_cap, 1));
        port.guids[0] = config.guid;
        port.set(port_info::kGuidCap, port.guids.size());
        port.set(port_info::kGidPrefix, kDefaultGidPrefix);
        port.set(port_info::kRespTimeValue, config.resp_time_value);
        port.set(port_info::kSubnetTimeOut, config.resp_time_value);
    }
    port.set(port_info::kCapabilityMask, config.capability_mask);
    port.set(port_info::kCapabilityMask2, config.capability_mask2);
    return port;
}

PortEvents port_link_up(PortAttrs& port, uint8_t width, uint8_t speed, uint8_t speed_ext) {
    if (is_port0(port.kind) || !port_wants_link(port) || port.link_is_up()) {
        return {};
    }
    port.set(port_info::kLinkWidthActive, width);
    // While an extended speed is active, LinkSpeedActive is the highest basic speed that both sides
    // enable, or SDR (IBA 14.2.5.6).
    port.set(port_info::kLinkSpeedActive, speed != 0 ? speed : link_speed::kSdr);
    port.set(port_info::kLinkSpeedExtActive, speed_ext);
    port.set(port_info::kPortPhysicalState, static_cast<unsigned>(PhysState::kLinkUp));
    port.set(port_info::kPortState, static_cast<unsigned>(PortState::kInitialize));
    return PortEvent::kStateChange;
}

PortEvents port_link_down(PortAttrs& port) {
    if (is_port0(port.kind) || !port.link_is_up()) {
        return {};
    }
    port.set(port_info::kPortState, static_cast<unsigned>(PortState::kDown));
    port.set(port_info::kPortPhysicalState, port.get(port_info::kLinkDownDefaultState));
    port.set(port_info::kLinkSpeedExtActive, 0);
    return PortEvent::kStateChange;
}

PortEvents port_data_arrived(PortAttrs& port) {
    if (port.state() != PortState::kArmed) {
        return {};
    }
    port.set(port_info::kPortState, static_cast<unsigned>(PortState::kActive));
    return PortEvent::kStateChange;
}

bool port_wants_link(const PortAttrs& port) {
    const PhysState phys = port.phys_state();
    return phys != PhysState::kDisabled && phys != PhysState::kSleep;
}

link::Link link_parameters(const PortAttrs& port) {
    const auto value = [&](Field field) { return static_cast<uint8_t>(port.get(field)); };
    const uint8_t ext = value(port_info::kLinkSpeedExtEnabled);
    return {.up = port_wants_link(port),
            .width_enabled = value(port_info::kLinkWidthEnabled),
            .speed_enabled = value(port_info::kLinkSpeedEnabled),
            .speed_ext_enabled = ext == link_speed_ext::kNoneEnabled ? uint8_t{0} : ext,
            .mtu_cap = value(port_info::kMtuCap),
            .vl_cap = value(port_info::kVlCap)};
}

void count_violation(PortAttrs& port, Field violations) {
    const uint64_t count = port.get(violations);
    port.set(violations, std::min(count + 1, violations.max()));
}

namespace {

constexpr size_t blocks_of(size_t entries, size_t per_block) {
    return (entries + per_block - 1) / per_block;
}

}  // namespace

uint16_t get_pkey_block(const PortAttrs& port, uint16_t block,
                        std::span<uint8_t, kSmpDataSize> data) {
    std::ranges::fill(data, uint8_t{0});
    if (block >= blocks_of(port.pkeys.size(), kPKeysPerBlock)) {
        return mad_status::kBadField;
    }
    const size_t first = block * kPKeysPerBlock;
    const size_t count = std::min(kPKeysPerBlock, port.pkeys.size() - first);
    for (size_t i = 0; i < count; ++i) {
        store_be(&data[2 * i], port.pkeys[first + i].value());
    }
    return mad_status::kOk;
}

SetResult set_pkey_block(PortAttrs& port, uint16_t block,
                         std::span<const uint8_t, kSmpDataSize> data) {
    SetResult result;
    if (block >= blocks_of(port.pkeys.size(), kPKeysPerBlock)) {
        result.status = mad_status::kBadField;
        return result;
    }
    const size_t first = block * kPKeysPerBlock;
    const size_t count = std::min(kPKeysPerBlock, port.pkeys.size() - first);
    for (size_t i = 0; i < count; ++i) {
        const PKey pkey(load_be<uint16_t>(&data[2 * i]));
        if (port.pkeys[first + i] != pkey) {
            port.pkeys[first + i] = pkey;
            result.events |= PortEvent::kPKeyChange;
        }
    }
    return result;
}

uint16_t get_guid_block(const PortAttrs& port, uint32_t block,
                        std::span<uint8_t, kSmpDataSize> data) {
    std::ranges::fill(data, uint8_t{0});
    if (block >= blocks_of(port.guids.size(), kGuidsPerBlock)) {
        return mad_status::kBadField;
    }
    const size_t first = block * kGuidsPerBlock;
    const size_t count = std::min(kGuidsPerBlock, port.guids.size() - first);
    for (size_t i = 0; i < count; ++i) {
        store_be(&data[8 * i], port.guids[first + i].value());
    }
    return mad_status::kOk;
}

SetResult set_guid_block(PortAttrs& port, uint32_t block,
                         std::span<const uint8_t, kSmpDataSize> data) {
    SetResult result;
    if (block >= blocks_of(port.guids.size(), kGuidsPerBlock)) {
        result.status = mad_status::kBadField;
        return result;
    }
    const size_t first = block * kGuidsPerBlock;
    const size_t count = std::min(kGuidsPerBlock, port.guids.size() - first);
    // Entry 0 of the table is the port GUID, which the manufacturer assigns (IBA 14.2.5.5).
    for (size_t i = first == 0 ? 1 : 0; i < count; ++i) {
        const Guid guid(load_be<uint64_t>(&data[8 * i]));
        if (port.guids[first + i] != guid) {
            port.guids[first + i] = guid;
            result.events |= PortEvent::kGidChange;
        }
    }
    return result;
}

uint16_t get_sl_to_vl(const PortAttrs& port, uint8_t input, std::span<uint8_t, kSmpDataSize> data) {
    std::ranges::fill(data, uint8_t{0});
    if (input >= port.sl_to_vl.size()) {
        return mad_status::kBadField;
    }
    const SlToVl& map = port.sl_to_vl[input];
    for (size_t sl = 0; sl < map.size(); sl += 2) {
        data[sl / 2] = static_cast<uint8_t>(map[sl] << 4 | map[sl + 1]);
    }
    return mad_status::kOk;
}

SetResult set_sl_to_vl(PortAttrs& port, uint8_t input,
                       std::span<const uint8_t, kSmpDataSize> data) {
    SetResult result;
    if (input >= port.sl_to_vl.size()) {
        result.status = mad_status::kBadField;
        return result;
    }
    // Any VL is valid. Packets whose SL maps to VL15 or to a VL that is not in operation are
    // discarded (IBA 7.6.6).
    SlToVl map{};
    for (size_t sl = 0; sl < map.size(); sl += 2) {
        map[sl] = data[sl / 2] >> 4;
        map[sl + 1] = data[sl / 2] & 0xF;
    }
    if (port.sl_to_vl[input] != map) {
        port.sl_to_vl.set(input, map);
        result.events |= PortEvent::kLinkAttribute;
    }
    return result;
}

namespace {

// The entries that a block of the VL arbitration attribute names; empty if there are none.
template <typename PortRef>
auto vl_arb_entries(PortRef& port, uint16_t block) {
    auto& table = block <= 2 ? port.vl_arb_low : port.vl_arb_high;
    std::span entries(table);
    const size_t first = block == 2 || block == 4 ? kVlArbEntriesPerBlock : 0;
    if (block < 1 || block > 4 || first >= entries.size()) {
        return entries.first(0);
    }
    return entries.subspan(first, std::min(kVlArbEntriesPerBlock, entries.size() - first));
}

}  // namespace

uint16_t get_vl_arb_block(const PortAttrs& port, uint16_t block,
                          std::span<uint8_t, kSmpDataSize> data) {
    std::ranges::fill(data, uint8_t{0});
    const auto entries = vl_arb_entries(port, block);
    for (size_t i = 0; i < entries.size(); ++i) {
        data[2 * i] = entries[i].vl;
        data[2 * i + 1] = entries[i].weight;
    }
    return entries.empty() ? mad_status::kBadField : mad_status::kOk;
}

SetResult set_vl_arb_block(PortAttrs& port, uint16_t block,
                           std::span<const uint8_t, kSmpDataSize> data) {
    SetResult result;
    const auto entries = vl_arb_entries(port, block);
    if (entries.empty()) {
        result.status = mad_status::kBadField;
    }
    for (size_t i = 0; i < entries.size(); ++i) {
        const VlArbEntry entry{static_cast<uint8_t>(data[2 * i] & 0xF), data[2 * i + 1]};
        if (entries[i] != entry) {
            entries[i] = entry;
            result.events |= PortEvent::kLinkAttribute;
        }
    }
    return result;
}

}  // namespace pib::ib
