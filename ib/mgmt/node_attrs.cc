// SPDX-License-Identifier: GPL-2.0-or-later
// The attributes of subnet management that channel adapters and switches have in common: the port
// that an attribute modifier names (IBA 14.2.5), and access to the port's tables.
#include <array>
#include <bit>

#include "ib/mgmt/mad_agent.h"

namespace pib::ib {
namespace {

using Data = std::span<uint8_t, kSmpDataSize>;

AttributeResult fail(uint16_t status = mad_status::kBadField) {
    return {.status = status, .events = {}, .port = 0};
}

AttributeResult done(uint16_t status) {
    return {.status = status, .events = {}, .port = 0};
}

AttributeResult done(const SetResult& result, const PortAttrs& port) {
    return {.status = result.status, .events = result.events, .port = port.number};
}

void clear(Data data) {
    std::ranges::fill(data, uint8_t{0});
}

// The answer to a failed Get has an attribute area of zeros.
AttributeResult fail_empty(Data data) {
    clear(data);
    return fail();
}

AttributeResult get_node_description(SmaNode& node, const SmpRequest&, Data data) {
    std::ranges::copy(node.description, data.begin());
    return {};
}

AttributeResult get_node_info(SmaNode& node, const SmpRequest& request, Data data) {
    const PortAttrs* port = node.managed_port(request.arrival.port);
    clear(data);
    set(data, node_info::kBaseVersion, kMadBaseVersion);
    set(data, node_info::kClassVersion, kSmpClassVersion);
    set(data, node_info::kNodeType, static_cast<unsigned>(node.type));
    set(data, node_info::kNumPorts, node.num_ports());
    set(data, node_info::kSystemImageGuid, node.system_image_guid.value());
    set(data, node_info::kNodeGuid, node.node_guid.value());
    set(data, node_info::kPortGuid, port->guid().value());
    set(data, node_info::kPartitionCap, port->pkeys.size());
    set(data, node_info::kDeviceId, node.device_id);
    set(data, node_info::kRevision, node.revision);
    set(data, node_info::kLocalPortNum, request.arrival.port);
    set(data, node_info::kVendorId, node.vendor_id);
    return {};
}

// The port that the attribute modifier names; at a channel adapter 0 is the ingress port of the
// SMP. Bit 31 means that the SM supports extended speeds, and has no effect.
PortAttrs* port_info_port(SmaNode& node, const SmpRequest& request) {
    const uint32_t number = request.modifier() & 0x7FFFFFFF;
    return number == 0 && !node.is_switch() ? node.port(request.arrival.port) : node.port(number);
}

AttributeResult get_port_info_attr(SmaNode& node, const SmpRequest& request, Data data) {
    const PortAttrs* port = port_info_port(node, request);
    if (port == nullptr) {
        return fail_empty(data);
    }
    const bool reregister = request.mad.method() == Method::kSet &&
                            get(request.mad.smp_data(), port_info::kClientReregister) != 0;
    const uint16_t status = get_port_info(*port, data);
    set(data, port_info::kLocalPortNum, request.arrival.port);
    if (!m_key_is_readable(*port, request.mad)) {
        set(data, port_info::kMKey, 0);
    }
    // The reply to a Set repeats the request for re-registration, a Get never shows it (o14-12).
    set(data, port_info::kClientReregister, reregister ? 1 : 0);
    return done(status);
}

AttributeResult set_port_info_attr(SmaNode& node, const SmpRequest& request, Data data) {
    PortAttrs* port = port_info_port(node, request);
    // At a channel adapter an SMP can set only the port at which it has arrived: other ports may be
    // in other subnets.
    if (port == nullptr || (!node.is_switch() && port->number != request.arrival.port)) {
        return fail();
    }
    return done(set_port_info(*port, data), *port);
}

AttributeResult get_guid_info(SmaNode& node, const SmpRequest& request, Data data) {
    const PortAttrs* port = node.managed_port(request.arrival.port);
    return done(get_guid_block(*port, request.modifier(), data));
}

AttributeResult set_guid_info(SmaNode& node, const SmpRequest& request, Data data) {
    PortAttrs* port = node.managed_port(request.arrival.port);
    return done(set_guid_block(*port, request.modifier(), data), *port);
}

// At a switch the upper half of the modifier names the port; a channel adapter has no such field.
PortAttrs* upper_half_port(SmaNode& node, const SmpRequest& request) {
    return node.is_switch() ? node.port(request.modifier() >> 16) : node.port(request.arrival.port);
}

AttributeResult get_pkey_table(SmaNode& node, const SmpRequest& request, Data data) {
    const PortAttrs* port = upper_half_port(node, request);
    if (port == nullptr) {
        return fail_empty(data);
    }
    return done(get_pkey_block(*port, static_cast<uint16_t>(request.modifier()), data));
}

AttributeResult set_pkey_table(SmaNode& node, const SmpRequest& request, Data data) {
    PortAttrs* port = upper_half_port(node, request);
    if (port == nullptr) {
        return fail();
    }
    return done(set_pkey_block(*port, static_cast<uint16_t>(request.modifier()), data), *port);
}

// SL to VL: at a switch the modifier names input port (bits 15-8) and output port (bits 7-0). The
// bits above request a write of many rows (OptimizedSLtoVLMappingProgramming), which is not
// supported.
struct Mapping {
    PortAttrs* port = nullptr;
    uint8_t input = 0;
};
Mapping sl_to_vl_mapping(SmaNode& node, const SmpRequest& request) {
    if (!node.is_switch()) {
        return {node.port(request.arrival.port), 0};
    }
    const uint32_t modifier = request.modifier();
    if ((modifier >> 16) != 0) {
        return {};
    }
    return {node.port(modifier & 0xFF), static_cast<uint8_t>(modifier >> 8)};
}

AttributeResult get_sl_to_vl_table(SmaNode& node, const SmpRequest& request, Data data) {
    const Mapping mapping = sl_to_vl_mapping(node, request);
    if (mapping.port == nullptr) {
        return fail_empty(data);
    }
    return done(get_sl_to_vl(*mapping.port, mapping.input, data));
}

AttributeResult set_sl_to_vl_table(SmaNode& node, const SmpRequest& request, Data data) {
    const Mapping mapping = sl_to_vl_mapping(node, request);
    if (mapping.port == nullptr) {
        return fail();
    }
    return done(set_sl_to_vl(*mapping.port, mapping.input, data), *mapping.port);
}

// VL arbitration: the upper half of the modifier is the block, the lower the port of a switch.
PortAttrs* lower_half_port(SmaNode& node, const SmpRequest& request) {
    return node.is_switch() ? node.port(request.modifier() & 0xFFFF)
                            : node.port(request.arrival.port);
}

AttributeResult get_vl_arbitration(SmaNode& node, const SmpRequest& request, Data data) {
    const PortAttrs* port = lower_half_port(node, request);
    if (port == nullptr) {
        return fail_empty(data);
    }
    return done(get_vl_arb_block(*port, static_cast<uint16_t>(request.modifier() >> 16), data));
}

AttributeResult set_vl_arbitration(SmaNode& node, const SmpRequest& request, Data data) {
    PortAttrs* port = lower_half_port(node, request);
    if (port == nullptr) {
        return fail();
    }
    const auto block = static_cast<uint16_t>(request.modifier() >> 16);
    return done(set_vl_arb_block(*port, block, data), *port);
}

PortAttrs* led_port(SmaNode& node, const SmpRequest& request) {
    return node.is_switch() ? node.port(request.modifier()) : node.port(request.arrival.port);
}

AttributeResult get_led_info(SmaNode& node, const SmpRequest& request, Data data) {
    clear(data);
    const PortAttrs* port = led_port(node, request);
    if (port == nullptr) {
        return fail();
    }
    set(data, led_info::kLedMask, port->led ? 1 : 0);
    return {};
}

AttributeResult set_led_info(SmaNode& node, const SmpRequest& request, Data data) {
    PortAttrs* port = led_port(node, request);
    if (port == nullptr) {
        return fail();
    }
    port->led = get(data, led_info::kLedMask) != 0;
    return {.status = mad_status::kOk, .events = {}, .port = port->number};
}

// DiagCode is the only diagnostic: the page of modifier 0 is zero and names no next page.
AttributeResult get_vendor_diag(SmaNode&, const SmpRequest& request, Data data) {
    clear(data);
    return request.modifier() == 0 ? AttributeResult{} : fail();
}

constexpr std::array<AttributeRow<SmaNode>, 9> kCommon = {{
    {attr::kNodeDescription, get_node_description, nullptr},
    {attr::kNodeInfo, get_node_info, nullptr},
    {attr::kGuidInfo, get_guid_info, set_guid_info},
    {attr::kPortInfo, get_port_info_attr, set_port_info_attr},
    {attr::kPKeyTable, get_pkey_table, set_pkey_table},
    {attr::kSlToVlMappingTable, get_sl_to_vl_table, set_sl_to_vl_table},
    {attr::kVlArbitrationTable, get_vl_arbitration, set_vl_arbitration},
    {attr::kLedInfo, get_led_info, set_led_info},
    {attr::kVendorDiag, get_vendor_diag, nullptr},
}};

}  // namespace

std::span<const AttributeRow<SmaNode>> common_attributes() {
    return kCommon;
}

}  // namespace pib::ib
