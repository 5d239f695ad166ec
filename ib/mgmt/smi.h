// SPDX-License-Identifier: GPL-2.0-or-later
// Directed-route rules of the subnet management interface (IBA 14.2.2, C14-6 to C14-13): where a
// directed-route SMP goes next, decided from the SMP and the node alone.
#pragma once

#include <cstdint>

#include "ib/wire/mad.h"

namespace pib::ib {

enum class SmiAction : std::uint8_t {
    kDiscard,
    kLocal,  // give it to this node's SMA or SM
    kPort,   // send it out of `port`; LRH:SLID and LRH:DLID are both the permissive LID
    kLid,    // the directed part ended here: send it LID-routed to `dlid`, from this node's LID
};

struct SmiDecision {
    SmiAction action = SmiAction::kDiscard;
    std::uint8_t port = 0;
    Lid dlid{};

    bool operator==(const SmiDecision&) const = default;
};

struct SmiNode {
    NodeType type = NodeType::kChannelAdapter;
    std::uint8_t num_ports = 1;  // highest external port number
};

// A directed-route SMP that came in on `ingress_port` (on a switch also from port 0, when it was
// LID-routed to it). Updates hop pointer and return path in place, as the next receiver and the
// local SMA expect them. For any other MAD class the answer is kDiscard.
[[nodiscard]] SmiDecision smi_receive(Mad& smp, SmiNode node, std::uint8_t ingress_port);

// A directed-route SMP that this node itself sends: an SM's request or an SMA's response. `port`
// is the sending port of a channel adapter, whose first hop must name it; a switch sends out of
// any port and passes 0. `reply_lid` is LRH:SLID of the request that a response answers.
[[nodiscard]] SmiDecision smi_send(Mad& smp, SmiNode node, std::uint8_t port,
                                   Lid reply_lid = kPermissiveLid);

// Whether an SMP that is for this node belongs to its SMA; the others belong to an SM, if any:
// responses, traps, and SMInfo, which only an SM can answer (IBA 14.3.1, 14.4.1).
[[nodiscard]] bool smp_is_for_sma(const Mad& smp);

}  // namespace pib::ib
