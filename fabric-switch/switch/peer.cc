// SPDX-License-Identifier: GPL-2.0-or-later
#include "switch/peer.h"

#include <algorithm>

namespace pib::fabric {
namespace {

using link::Hello;
using link::Refuse;
using link::RefuseReason;

Refuse not_allowed(std::string text) {
    return {RefuseReason::kNotAllowed, std::move(text)};
}

std::string not_in(const std::string& peer, ib::Guid guid) {
    return "GUID " + to_text(guid) + " is not in " + peer +
           ": make a certificate with that --guid, or give the device a GUID of the certificate";
}

}  // namespace

std::string to_text(ib::Guid guid) {
    constexpr const char* kDigits = "0123456789abcdef";
    std::string text = "0x";
    for (int shift = 60; shift >= 0; shift -= 4) {
        text += kDigits[guid.value() >> shift & 0xF];
    }
    return text;
}

bool Grant::has(ib::Guid guid) const {
    return std::ranges::any_of(guids, [guid](const GuidRange& range) { return range.has(guid); });
}

bool Grant::has_node(std::string_view name) const {
    return std::ranges::find(nodes, name) != nodes.end();
}

std::optional<Refuse> Peer::objection(const Hello& hello) const {
    if (!grant) {
        return std::nullopt;
    }
    if (hello.role == link::Role::kSwitch && !grant->is_switch) {
        return not_allowed(name + " is not of a switch: make one with pib-switch cert switch");
    }
    for (const ib::Guid guid : {hello.node_guid, hello.port_guid}) {
        if (!grant->has(guid)) {
            return not_allowed(not_in(name, guid));
        }
    }
    return std::nullopt;
}

std::optional<std::string> Peer::objection(ib::Guid switch_guid) const {
    if (!grant) {
        return std::nullopt;
    }
    if (!grant->is_switch) {
        return name + " is not of a switch: make one with pib-switch cert switch";
    }
    return grant->has(switch_guid) ? std::nullopt : std::optional(not_in(name, switch_guid));
}

Refuse owned_by_another(const std::string& what, const std::string& owner) {
    return not_allowed(what + " belongs to " + owner +
                       ", the first to use it: give this device another GUID or name, or restart "
                       "pib-switch");
}

bool share_a_guid(const Hello& one, const Hello& other) {
    return one.node_guid == other.node_guid || one.port_guid == other.port_guid ||
           one.node_guid == other.port_guid || one.port_guid == other.node_guid;
}

}  // namespace pib::fabric
