// SPDX-License-Identifier: GPL-2.0-or-later
// Directed-route SMP handling. The hop pointer counts the hops already begun; the path arrays are
// used from index 1 (IBA 14.2.2.2 for outgoing, 14.2.2.4 for returning SMPs).
#include "ib/mgmt/smi.h"

namespace pib::ib {
namespace {

constexpr SmiDecision kDiscarded{};

SmiDecision local() {
    return {.action = SmiAction::kLocal, .port = 0, .dlid = {}};
}
SmiDecision by_lid(Lid dlid) {
    return {.action = SmiAction::kLid, .port = 0, .dlid = dlid};
}

SmiDecision out_of(uint8_t port, SmiNode node) {
    if (port == 0 || port > node.num_ports) {
        return kDiscarded;
    }
    return {.action = SmiAction::kPort, .port = port, .dlid = {}};
}

void set_hop_pointer(Mad& smp, unsigned value) {
    smp.bytes[6] = static_cast<uint8_t>(value);
}

bool is_switch(SmiNode node) {
    return node.type == NodeType::kSwitch;
}

// The end of the outgoing directed part (C14-9, third and fourth rule): the SMP is for this node,
// or goes on by LID, which only a switch may begin.
SmiDecision outgoing_end(Mad& smp, SmiNode node) {
    set_hop_pointer(smp, hop_count(smp) + 1U);
    if (dr_dlid(smp).is_permissive()) {
        return local();
    }
    return is_switch(node) ? by_lid(dr_dlid(smp)) : kDiscarded;
}

// The end of the returning directed part (C14-13, third rule).
SmiDecision returning_end(Mad& smp, SmiNode node) {
    set_hop_pointer(smp, 0);
    if (dr_slid(smp).is_permissive()) {
        return local();
    }
    return is_switch(node) ? by_lid(dr_slid(smp)) : kDiscarded;
}

SmiDecision next_hop(Mad& smp, SmiNode node) {
    const unsigned hop = hop_pointer(smp) + 1U;
    set_hop_pointer(smp, hop);
    return out_of(initial_path(smp)[hop], node);
}

SmiDecision previous_hop(Mad& smp, SmiNode node) {
    const unsigned hop = hop_pointer(smp) - 1U;
    set_hop_pointer(smp, hop);
    return out_of(return_path(smp)[hop], node);
}

// C14-9 at a node that receives the SMP.
SmiDecision receive_outgoing(Mad& smp, SmiNode node, uint8_t ingress_port) {
    const unsigned pointer = hop_pointer(smp);
    const unsigned count = hop_count(smp);
    if (pointer == 0 && count != 0) {
        // The pointer is still 0 only after a LID-routed first part, which ends at a switch. If the
        // directed route starts at the sender, the pointer is at least 1.
        const bool starts_here = is_switch(node) && !dr_slid(smp).is_permissive();
        return starts_here ? next_hop(smp, node) : kDiscarded;
    }
    if (pointer < count) {
        if (!is_switch(node)) {
            return kDiscarded;
        }
        return_path(smp)[pointer] = ingress_port;
        return next_hop(smp, node);
    }
    if (pointer == count) {
        if (count != 0) {
            return_path(smp)[pointer] = ingress_port;
        }
        return outgoing_end(smp, node);
    }
    // The directed route has ended: its last switch has sent the SMP on by LID.
    return pointer == count + 1 ? local() : kDiscarded;
}

// C14-13 at a node that receives the SMP.
SmiDecision receive_returning(Mad& smp, SmiNode node) {
    const unsigned pointer = hop_pointer(smp);
    const unsigned count = hop_count(smp);
    if (count != 0 && pointer == count + 1) {
        // The LID-routed first part of the way back has ended at this switch.
        const bool starts_here = is_switch(node) && !dr_dlid(smp).is_permissive();
        return starts_here ? previous_hop(smp, node) : kDiscarded;
    }
    if (pointer >= 2 && pointer <= count) {
        return is_switch(node) ? previous_hop(smp, node) : kDiscarded;
    }
    if (pointer == 1) {
        return returning_end(smp, node);
    }
    return pointer == 0 ? local() : kDiscarded;
}

// A path has 63 usable entries; a larger count would index past it (C14-6).
bool counts_are_sane(const Mad& smp) {
    return smp.is_directed_route() && hop_count(smp) < kSmpPathSize &&
           hop_pointer(smp) <= hop_count(smp) + 1U;
}

}  // namespace

SmiDecision smi_receive(Mad& smp, SmiNode node, uint8_t ingress_port) {
    if (!counts_are_sane(smp)) {
        return kDiscarded;
    }
    return is_returning(smp) ? receive_returning(smp, node)
                             : receive_outgoing(smp, node, ingress_port);
}

SmiDecision smi_send(Mad& smp, SmiNode node, uint8_t port, Lid reply_lid) {
    if (!counts_are_sane(smp)) {
        return kDiscarded;
    }
    const unsigned pointer = hop_pointer(smp);
    const unsigned count = hop_count(smp);
    SmiDecision decision = kDiscarded;
    if (!is_returning(smp)) {
        if (pointer != 0) {
            return kDiscarded;
        }
        decision = count == 0 ? outgoing_end(smp, node) : next_hop(smp, node);
    } else if (pointer == count + 1) {
        if (!dr_dlid(smp).is_permissive()) {
            return by_lid(reply_lid);
        }
        decision = count == 0 ? returning_end(smp, node) : previous_hop(smp, node);
    }
    const bool other_port = decision.action == SmiAction::kPort && decision.port != port;
    return other_port && !is_switch(node) ? kDiscarded : decision;
}

bool smp_is_for_sma(const Mad& smp) {
    switch (smp.method()) {
        case Method::kGet:
        case Method::kSet:
            return smp.attribute_id() != attr::kSmInfo;
        case Method::kTrapRepress:
            return true;
        case Method::kTrap:
            return false;
        default:
            // The SMA answers an unknown method with a status. Responses are for an SM.
            return !smp.is_response();
    }
}

}  // namespace pib::ib
