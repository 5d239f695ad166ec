// SPDX-License-Identifier: GPL-2.0-or-later
// The other end of a connection as the kernel or its certificate identifies it. A port is bound to
// the name of the peer that used it last, so that no other peer can take over the GUIDs there.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ib/wire/link_frame.h"

namespace pib::fabric {

struct GuidRange {
    ib::Guid first{};
    ib::Guid last{};

    [[nodiscard]] bool has(ib::Guid guid) const {
        return first.value() <= guid.value() && guid.value() <= last.value();
    }
};

// The permissions in a certificate.
struct Grant {
    bool is_switch = false;  // the peer may be a switch
    std::vector<GuidRange> guids;
    std::vector<std::string> nodes;  // nodes of a topology by name, whatever their GUID

    [[nodiscard]] bool has(ib::Guid guid) const;
    [[nodiscard]] bool has_node(std::string_view name) const;
};

struct Peer {
    std::string name;            // "user 1000", "certificate host1", "plain TCP"
    std::string origin;          // TCP: address of the host; else the same as `name`
    std::string network{};       // IPv6: /64 network of `origin`; else the same as `origin`
    std::optional<Grant> grant;  // none: no certificate limits the peer

    // Why the certificate forbids this HELLO; none: the certificate permits it.
    [[nodiscard]] std::optional<link::Refuse> objection(const link::Hello& hello) const;
    // Why the certificate forbids a switch with this GUID; none: it permits the switch.
    [[nodiscard]] std::optional<std::string> objection(ib::Guid switch_guid) const;
};

// The refusal of a peer that asks for a GUID or port of another peer. `what` names the GUID or
// port.
[[nodiscard]] link::Refuse owned_by_another(const std::string& what, const std::string& owner);

// Whether a node or port GUID of one HELLO is a node or port GUID of the other.
[[nodiscard]] bool share_a_guid(const link::Hello& one, const link::Hello& other);

// "0x" and 16 hexadecimal digits.
[[nodiscard]] std::string to_text(ib::Guid guid);

}  // namespace pib::fabric
