// SPDX-License-Identifier: GPL-2.0-or-later
// Attributes of a switch's SMA beyond those of every node, and the construction of a SwitchNode.
#include <algorithm>

#include "switch/switch_node.h"

namespace pib::fabric {
namespace {

namespace si = ib::switch_info;
using ib::AttributeResult;
using ib::SmpRequest;
using Data = std::span<uint8_t, ib::kSmpDataSize>;

constexpr uint16_t kPKeys = 32;
// NodeInfo:VendorID if the configuration has none: QEMU's devices have this number for PCI.
constexpr uint32_t kVendorId = 0x001234;
constexpr uint16_t kDeviceId = 0x1b0d;

AttributeResult answer(bool ok) {
    return {
        .status = ok ? ib::mad_status::kOk : ib::mad_status::kBadField, .events = {}, .port = 0};
}

AttributeResult get_switch_info(SwitchNode& node, const SmpRequest&, Data data) {
    node.set(si::kLinearFdbTop, node.lft.top());
    node.set(si::kMulticastFdbTop, node.mft.top());
    std::ranges::copy(node.info, data.begin());
    return {};
}

bool valid_multicast_top(const SwitchNode& node, uint64_t top) {
    // 0xBFFF: no entry is valid; 0: the whole table is valid.
    return top == 0 || (top >= ib::Lid::kMulticastFirst - 1U &&
                        top < ib::Lid::kMulticastFirst + uint64_t{node.mft.cap()});
}

AttributeResult set_switch_info(SwitchNode& node, const SmpRequest&, Data data) {
    static constexpr ib::Field kWritable[] = {si::kDefaultPort, si::kDefaultMulticastPrimaryPort,
                                              si::kDefaultMulticastNotPrimaryPort,
                                              si::kLifeTimeValue};
    const uint64_t top = ib::get(data, si::kLinearFdbTop);
    const uint64_t multicast_top = ib::get(data, si::kMulticastFdbTop);
    const bool valid = top < node.lft.cap() && valid_multicast_top(node, multicast_top);
    if (top < node.lft.cap()) {
        node.lft.set_top(static_cast<uint16_t>(top));
    }
    if (valid_multicast_top(node, multicast_top)) {
        node.mft.set_top(static_cast<uint16_t>(multicast_top));
    }
    for (const ib::Field field : kWritable) {
        node.set(field, ib::get(data, field));
    }
    // Writing 1 clears PortStateChange; 0 has no effect.
    if (ib::get(data, si::kPortStateChange) != 0) {
        node.set(si::kPortStateChange, 0);
    }
    return answer(valid);
}

AttributeResult get_lft(SwitchNode& node, const SmpRequest& request, Data data) {
    std::ranges::fill(data, uint8_t{0});
    return answer(node.lft.read_block(request.modifier(), data));
}

AttributeResult set_lft(SwitchNode& node, const SmpRequest& request, Data data) {
    return answer(node.lft.write_block(request.modifier(), data));
}

// The attribute modifier (IBA 14.2.5.12) has, from its most significant bit on, 4 bits of position,
// 19 reserved bits and 9 bits of block. `block` includes the reserved bits, so that a block with
// one of them set is too large.
struct MftPart {
    uint32_t block;
    unsigned position;
};
MftPart mft_part(const SmpRequest& request) {
    return {request.modifier() & 0x0FFFFFFF, request.modifier() >> 28};
}

AttributeResult get_mft(SwitchNode& node, const SmpRequest& request, Data data) {
    const MftPart part = mft_part(request);
    std::ranges::fill(data, uint8_t{0});
    return answer(node.mft.read_block(part.block, part.position, data));
}

AttributeResult set_mft(SwitchNode& node, const SmpRequest& request, Data data) {
    const MftPart part = mft_part(request);
    return answer(node.mft.write_block(part.block, part.position, data));
}

constexpr ib::AttributeRow<SwitchNode> kRows[] = {
    {ib::attr::kSwitchInfo, get_switch_info, set_switch_info},
    {ib::attr::kLinearForwardingTable, get_lft, set_lft},
    {ib::attr::kMulticastForwardingTable, get_mft, set_mft},
};

uint32_t port0_capabilities(const SwitchConfig& config) {
    namespace cap = ib::port_cap;
    uint32_t mask = cap::kIsTrapSupported | cap::kIsSlMappingSupported | cap::kIsLedInfoSupported |
                    cap::kIsSystemImageGuidSupported | cap::kIsPKeySwitchExternalPortTrapSupported |
                    cap::kIsCapabilityMask2Supported | cap::kIsMulticastFdbTopSupported;
    return config.modes.speed_ext != 0 ? mask | cap::kIsExtendedSpeedsSupported : mask;
}

uint16_t capabilities2(const SwitchConfig& config) {
    namespace cap2 = ib::port_cap2;
    const auto has = [&](uint8_t speed) { return (config.modes.speed_ext & speed) != 0; };
    return static_cast<uint16_t>(
        (has(ib::link_speed_ext::kHdr) ? cap2::kIsLinkSpeedHdrSupported : 0) |
        (has(ib::link_speed_ext::kNdr) ? cap2::kIsLinkSpeedNdrSupported : 0) |
        ((config.modes.width & ib::link_width::k2x) != 0 ? cap2::kIsLinkWidth2xSupported : 0));
}

ib::PortConfig port_config(const SwitchConfig& config, uint8_t number) {
    const bool port0 = number == 0;
    const bool own = number >= 1 && number <= config.port_modes.size();
    const LinkModes modes =
        own ? config.port_modes[number - 1U].or_else(config.modes) : config.modes;
    return {.kind = port0 ? ib::PortKind::kSwitchPort0 : ib::PortKind::kSwitchExternal,
            .port_number = number,
            .guid = port0 ? config.node_guid : ib::Guid{},
            .link_width_supported = modes.width,
            .link_speed_supported = modes.speed,
            .link_speed_ext_supported = modes.speed_ext,
            .mtu_cap = config.mtu_cap,
            .vl_cap = config.vl_cap,
            .pkey_cap = kPKeys,
            .guid_cap = 1,
            .sl2vl_inputs = static_cast<uint8_t>(config.num_ports + 1),
            .capability_mask = port0 ? port0_capabilities(config) : 0,
            .capability_mask2 = port0 ? capabilities2(config) : uint16_t{0},
            .partition_enforcement = !port0};
}

}  // namespace

std::span<const ib::AttributeRow<SwitchNode>> switch_attributes() {
    return kRows;
}

SwitchNode::SwitchNode(const SwitchConfig& config) : lft(config.lft_cap), mft(config.mft_cap) {
    type = ib::NodeType::kSwitch;
    system_image_guid =
        config.system_image_guid != ib::Guid{} ? config.system_image_guid : config.node_guid;
    node_guid = config.node_guid;
    vendor_id = config.vendor_id != 0 ? config.vendor_id : kVendorId;
    device_id = config.device_id != 0 ? config.device_id : kDeviceId;
    set_description(config.description);
    for (unsigned number = 0; number <= config.num_ports; ++number) {
        ports.push_back(ib::make_port(port_config(config, static_cast<uint8_t>(number))));
    }
    set(si::kLinearFdbCap, config.lft_cap);
    set(si::kMulticastFdbCap, config.mft_cap);
    set(si::kDefaultPort, kNoPort);
    set(si::kDefaultMulticastPrimaryPort, kNoPort);
    set(si::kDefaultMulticastNotPrimaryPort, kNoPort);
    set(si::kLifeTimeValue, 18);
    set(si::kPartitionEnforcementCap, kPKeys);
    set(si::kInboundEnforcementCap, 1);
    set(si::kOutboundEnforcementCap, 1);
}

}  // namespace pib::fabric
