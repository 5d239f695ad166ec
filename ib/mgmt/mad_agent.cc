// SPDX-License-Identifier: GPL-2.0-or-later
// SMP checks that do not depend on the attribute; the common attributes are in node_attrs.cc.
#include "ib/mgmt/mad_agent.h"

#include "ib/mgmt/smi.h"
#include "ib/wire/utf8.h"

namespace pib::ib {
namespace {

constexpr uint64_t kNsPerSecond = 1'000'000'000;

// When the lease has run out, M_KeyProtectBits becomes 0, so that every requester can read the
// M_Key (IBA 14.2.4.2).
void expire_m_key_lease(PortAttrs& port, uint64_t now_ns) {
    if (port.m_key_lease_end_ns != 0 && now_ns >= port.m_key_lease_end_ns) {
        port.m_key_lease_end_ns = 0;
        port.set(port_info::kMKeyProtectBits, 0);
    }
}

bool m_key_matches(const PortAttrs& port, const Mad& request) {
    const uint64_t key = port.get(port_info::kMKey);
    return key == 0 || key == m_key(request);
}

// IBA table 142: a Set or TrapRepress always needs the key, a Get from protection level 2 on.
bool m_key_allows(const PortAttrs& port, const Mad& request) {
    const bool open_get =
        request.method() == Method::kGet && port.get(port_info::kMKeyProtectBits) < 2;
    return open_get || m_key_matches(port, request);
}

// C14-17 and following: a mismatch is counted, reported, and starts the lease; a match stops it.
bool pass_m_key(SmaNode& node, PortAttrs& port, const Mad& request, const SmpArrival& arrival) {
    expire_m_key_lease(port, arrival.now_ns);
    if (arrival.ignore_m_key) {
        return true;
    }
    if (m_key_matches(port, request)) {
        port.m_key_lease_end_ns = 0;
        return true;
    }
    if (m_key_allows(port, request)) {
        return true;
    }
    count_violation(port, port_info::kMKeyViolations);
    const uint64_t lease_s = port.get(port_info::kMKeyLeasePeriod);
    if (port.m_key_lease_end_ns == 0 && lease_s != 0) {
        port.m_key_lease_end_ns = arrival.now_ns + lease_s * kNsPerSecond;
    }
    PortAttrs* trap_port = node.managed_port(arrival.port);
    trap_port->traps.add(bad_m_key_notice(request, arrival.slid), arrival.now_ns);
    return false;
}

SmaAnswer refuse(const Mad& request, uint16_t status) {
    SmaAnswer answer;
    answer.disposition = SmaDisposition::kReply;
    answer.reply = make_reply(request, status);
    return answer;
}

}  // namespace

void SmaNode::set_description(std::string_view text) {
    description.fill(0);
    std::ranges::copy(utf8_prefix(text, description.size()), description.begin());
}

Mad make_reply(const Mad& request, uint16_t status) {
    Mad reply = request;
    reply.set(mad_header::kMethod, static_cast<unsigned>(Method::kGetResp));
    if (request.is_directed_route()) {
        reply.set(smp::kD, 1);
    }
    reply.set_status(status);
    return reply;
}

bool m_key_is_readable(const PortAttrs& port, const Mad& request) {
    // The requester of a Set knows the M_Key: it has passed the check of the key.
    return request.method() == Method::kSet || port.get(port_info::kMKeyProtectBits) == 0 ||
           m_key_matches(port, request);
}

SmaAnswer sma_begin(SmaNode& node, const Mad& request, const SmpArrival& arrival) {
    PortAttrs* port = node.managed_port(arrival.port);
    const bool other_base = request.base_version() != kMadBaseVersion;
    // A request must not be on the return path (C14-13).
    const bool returning = request.is_directed_route() && is_returning(request);
    if (port == nullptr || other_base || returning || !request.is_smp() ||
        !smp_is_for_sma(request)) {
        return {};
    }
    if (request.class_version() != kSmpClassVersion) {
        return refuse(request, mad_status::kBadVersion);
    }
    const Method method = request.method();
    const bool known =
        method == Method::kGet || method == Method::kSet || method == Method::kTrapRepress;
    if (!known) {
        return refuse(request, mad_status::kBadMethod);
    }
    SmaAnswer answer;
    if (!pass_m_key(node, *port, request, arrival)) {
        answer.m_key_violation = true;
        return answer;
    }
    if (method == Method::kTrapRepress) {
        port->traps.repress(request);
        answer.disposition = SmaDisposition::kConsumed;
        return answer;
    }
    answer = refuse(request, mad_status::kOk);
    answer.wants_attribute = true;
    return answer;
}

SmaAnswer sma_answer(SmaNode& node, const Mad& request, const SmpArrival& arrival) {
    return sma_answer<SmaNode>(node, std::span<const AttributeRow<SmaNode>>{}, request, arrival);
}

std::optional<Mad> next_trap(const SmaNode& node, PortAttrs& port, uint64_t now_ns) {
    const TrapSender sender{
        .producer = node.type,
        .lid = port.lid(),
        .sm_lid = port.sm_lid(),
        .active = port.state() == PortState::kActive,
        .subnet_timeout = static_cast<uint8_t>(port.get(port_info::kSubnetTimeOut))};
    return port.traps.next(sender, now_ns);
}

}  // namespace pib::ib
