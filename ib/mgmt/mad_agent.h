// SPDX-License-Identifier: GPL-2.0-or-later
// Steps of every subnet management agent before and after the attribute of an SMP: version, M_Key,
// method and attribute checks, the reply (IBA 13.4.5, 14.2.4, 14.3). Attributes are rows of a
// table. common_attributes() has those of channel adapters and switches; a switch adds others.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ib/mgmt/port_attrs.h"
#include "ib/wire/mad.h"

namespace pib::ib {

// A node as seen by its SMA. Plain data.
struct SmaNode {
    NodeType type = NodeType::kChannelAdapter;
    Guid system_image_guid{};
    Guid node_guid{};
    uint16_t device_id = 0;
    uint32_t revision = 0;
    uint32_t vendor_id = 0;                           // 24 bits
    std::array<uint8_t, kSmpDataSize> description{};  // UTF-8, padded with zeros
    // In the order of port numbers from first_port() on: 1 at a channel adapter, 0 at a switch.
    std::vector<PortAttrs> ports;

    bool operator==(const SmaNode&) const = default;

    [[nodiscard]] bool is_switch() const { return type == NodeType::kSwitch; }
    [[nodiscard]] uint8_t first_port() const { return is_switch() ? 0 : 1; }
    // NodeInfo:NumPorts, which does not count port 0 of a switch.
    [[nodiscard]] uint8_t num_ports() const {
        return static_cast<uint8_t>(ports.size() - (is_switch() && !ports.empty() ? 1 : 0));
    }
    // nullptr: there is no such port.
    [[nodiscard]] PortAttrs* port(uint32_t number) {
        const uint32_t index = number - first_port();
        return index < ports.size() ? &ports[index] : nullptr;
    }
    [[nodiscard]] const PortAttrs* port(uint32_t number) const {
        return const_cast<SmaNode*>(this)->port(number);
    }
    // The port whose M_Key, LIDs and traps apply to an SMP that arrived at `ingress_port`.
    [[nodiscard]] PortAttrs* managed_port(uint8_t ingress_port) {
        return port(is_switch() ? 0 : ingress_port);
    }
    [[nodiscard]] const PortAttrs* managed_port(uint8_t ingress_port) const {
        return port(is_switch() ? 0 : ingress_port);
    }
    void set_description(std::string_view text);
};

// Port, source and time of an SMP's arrival.
struct SmpArrival {
    uint8_t port = 1;  // external ingress port; 0: the switch itself
    Lid slid{};        // LRH:SLID
    uint64_t now_ns = 0;
    bool ignore_m_key = false;  // the SMP is from privileged software of this node
};

// A Get or Set of an attribute, as its handlers receive it.
struct SmpRequest {
    const Mad& mad;
    const SmpArrival& arrival;
    [[nodiscard]] uint32_t modifier() const { return mad.attribute_modifier(); }
};

// Result of an attribute handler. The events happened at `port`.
struct [[nodiscard]] AttributeResult {
    uint16_t status = mad_status::kOk;
    PortEvents events{};
    uint8_t port = 0;
};

// `data` is the attribute area of the reply, at first a copy of the request's. A handler of Set
// applies it. The handler of Get, which also runs after a Set, overwrites it.
template <typename Node>
using AttributeHandler = AttributeResult (*)(Node& node, const SmpRequest& request,
                                             std::span<uint8_t, kSmpDataSize> data);

// The handlers of an attribute; nullptr: the attribute does not have the method.
template <typename Node>
struct AttributeRow {
    uint16_t attribute_id = 0;
    AttributeHandler<Node> get = nullptr;
    AttributeHandler<Node> set = nullptr;
};

enum class SmaDisposition : uint8_t {
    kReply,     // send SmaAnswer::reply back
    kConsumed,  // a TrapRepress: carried out, and no answer
    kDiscard,   // no answer: bad base version, wrong M_Key, not a request to this SMA
};

struct [[nodiscard]] SmaAnswer {
    SmaDisposition disposition = SmaDisposition::kDiscard;
    Mad reply{};
    PortEvents events{};  // changes by the request, to be reported after the reply
    uint8_t port = 0;     // port of the events
    bool m_key_violation = false;
    bool wants_attribute = false;  // a Get or Set that has passed its checks
};

// All checks before the attribute: versions, M_Key and its lease, violations and trap 256,
// TrapRepress, method. The answer is complete unless wants_attribute is set.
[[nodiscard]] SmaAnswer sma_begin(SmaNode& node, const Mad& request, const SmpArrival& arrival);

// The reply to `request`: method GetResp, D bit of a directed route, status, and unchanged data.
[[nodiscard]] Mad make_reply(const Mad& request, uint16_t status);

// Whether an answer to this request may contain the M_Key of `port` (C14-16 and table 142).
[[nodiscard]] bool m_key_is_readable(const PortAttrs& port, const Mad& request);

// The attributes that every node has (IBA table 140): NodeDescription, NodeInfo, PortInfo,
// GUIDInfo, P_KeyTable, SLtoVLMappingTable, VLArbitrationTable, LedInfo and VendorDiag.
[[nodiscard]] std::span<const AttributeRow<SmaNode>> common_attributes();

// The row of an attribute, or nullptr.
template <typename Node>
[[nodiscard]] const AttributeRow<Node>* find_attribute(std::span<const AttributeRow<Node>> rows,
                                                       uint16_t attribute_id) {
    const auto row = std::ranges::find(rows, attribute_id, &AttributeRow<Node>::attribute_id);
    return row == rows.end() ? nullptr : &*row;
}

// Runs the handlers of `row` (which may be nullptr) and completes `answer`.
template <typename Node>
void run_attribute(Node& node, const AttributeRow<Node>* row, const SmpRequest& request,
                   SmaAnswer& answer) {
    const bool set = request.mad.method() == Method::kSet;
    if (row == nullptr || (set ? row->set : row->get) == nullptr) {
        answer.reply.set_status(mad_status::kBadMethodAttribute);
        return;
    }
    AttributeResult result;
    if (set) {
        result = row->set(node, request, answer.reply.smp_data());
    }
    if (row->get != nullptr) {
        const AttributeResult got = row->get(node, request, answer.reply.smp_data());
        result.status = result.status != mad_status::kOk ? result.status : got.status;
    }
    answer.reply.set_status(result.status);
    answer.events = result.events;
    answer.port = result.port;
}

// Answers one SMP that is for this node's SMA (see smi.h). The node's own `rows` take precedence
// over the common attributes. The caller sends a directed-route reply as smi_send() decides,
// another reply to the LID of the requester.
template <std::derived_from<SmaNode> Node>
[[nodiscard]] SmaAnswer sma_answer(Node& node, std::span<const AttributeRow<Node>> rows,
                                   const Mad& request, const SmpArrival& arrival) {
    SmaAnswer answer = sma_begin(node, request, arrival);
    if (!answer.wants_attribute) {
        return answer;
    }
    const SmpRequest context{request, arrival};
    if (const auto* own = find_attribute(rows, request.attribute_id()); own != nullptr) {
        run_attribute(node, own, context, answer);
    } else {
        const auto* common = find_attribute(common_attributes(), request.attribute_id());
        run_attribute<SmaNode>(node, common, context, answer);
    }
    return answer;
}

// As above, for a node that has only the common attributes: a channel adapter.
[[nodiscard]] SmaAnswer sma_answer(SmaNode& node, const Mad& request, const SmpArrival& arrival);

// The next trap of a port (port 0 at a switch) that is due: see TrapQueue::next().
[[nodiscard]] std::optional<Mad> next_trap(const SmaNode& node, PortAttrs& port, uint64_t now_ns);
// Time in ns at which next_trap() may return a trap; nullopt: not before the port's state, its SM
// or its traps change.
[[nodiscard]] inline std::optional<uint64_t> next_trap_ns(const PortAttrs& port) {
    const bool can_leave = !port.traps.pending.empty() && port.state() == PortState::kActive &&
                           port.sm_lid().is_unicast();
    return can_leave ? port.traps.deadline_ns(port.sm_lid()) : std::nullopt;
}

}  // namespace pib::ib
