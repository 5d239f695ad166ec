// SPDX-License-Identifier: GPL-2.0-or-later
// Directed-route rules of the subnet management interface (IBA 14.2.2, C14-6 to C14-13): the next
// step of a directed-route SMP, decided from the SMP and the node alone.
#pragma once

#include <cstdint>

#include "ib/wire/mad.h"

namespace pib::ib {

enum class SmiAction : uint8_t {
    kDiscard,
    kLocal,  // deliver it to this node's SMA or SM
    kPort,   // send it out of `port`; LRH:SLID and LRH:DLID are both the permissive LID
    kLid,    // the directed part ends here: send it LID-routed to `dlid`, from this node's LID
};

struct [[nodiscard]] SmiDecision {
    SmiAction action = SmiAction::kDiscard;
    uint8_t port = 0;
    Lid dlid{};

    bool operator==(const SmiDecision&) const = default;
};

struct SmiNode {
    NodeType type = NodeType::kChannelAdapter;
    uint8_t num_ports = 1;  // highest external port number
};

// A directed-route SMP that has arrived at `ingress_port` (0 at a switch: LID-routed to it).
// Updates hop pointer and return path in place, as the next receiver and the local SMA expect them.
// kDiscard for other MAD classes.
[[nodiscard]] SmiDecision smi_receive(Mad& smp, SmiNode node, uint8_t ingress_port);

// A directed-route SMP that this node itself sends: an SM's request or an SMA's response. `port` is
// the sending port of a channel adapter, which the first hop must name; a switch may send from any
// port and passes 0. `reply_lid` is LRH:SLID of the request that a response answers.
[[nodiscard]] SmiDecision smi_send(Mad& smp, SmiNode node, uint8_t port,
                                   Lid reply_lid = kPermissiveLid);

// Whether an SMP for this node belongs to its SMA. The others are for an SM, if there is one:
// responses, traps, and SMInfo, which only an SM can answer (IBA 14.3.1, 14.4.1).
[[nodiscard]] bool smp_is_for_sma(const Mad& smp);

}  // namespace pib::ib
