// SPDX-License-Identifier: GPL-2.0-or-later
#include "switch/packet_relay.h"

#include <bit>

#include "ib/wire/field.h"

namespace pib::fabric {
namespace {

namespace si = ib::switch_info;
using ib::Counter;
using Outcome = PacketRelay::Outcome;

constexpr std::size_t kPKeyOffset = 2;  // in the BTH

std::size_t bth_offset(const ib::Lrh& lrh) {
    return ib::Lrh::kSize + (lrh.lnh == ib::Lnh::kIbaGlobal ? ib::Grh::kSize : 0);
}

// The P_Key of a packet that may be too short to have one.
std::optional<ib::PKey> packet_pkey(std::span<const std::uint8_t> head, const ib::Lrh& lrh) {
    const std::size_t bth = bth_offset(lrh);
    if (head.size() < bth + ib::Bth::kSize) {
        return std::nullopt;
    }
    return ib::PKey(ib::load_be<std::uint16_t>(&head[bth + kPKeyOffset]));
}

// The table of a port is that of the channel adapter behind it. A packet to the adapter must match
// as at the adapter itself, where two limited members do not match (10.9.3). A packet from the
// adapter has a P_Key of the sender's table, and the switch compares it with its copy of that
// table. There the rule for two members would be wrong: it would reject every limited member at its
// own port, because 0x0001 is on both sides, and accept a packet with a forged full membership. So
// a packet from the adapter may have the membership of the table's entry, or a lesser one.
bool sent_by_member(std::span<const ib::PKey> table, ib::PKey pkey) {
    return std::ranges::any_of(table, [pkey](ib::PKey entry) {
        return entry.base() == pkey.base() && (entry.is_full_member() || !pkey.is_full_member());
    });
}

// Whether a port lets a packet in, or out.
bool partition_admits(std::span<const std::uint8_t> head, const ib::Lrh& lrh,
                      const ib::PortAttrs& at, bool inbound) {
    const auto pkey = packet_pkey(head, lrh);
    return pkey && pkey->is_valid() &&
           (inbound ? sent_by_member(at.pkeys, *pkey) : at.find_pkey(*pkey) >= 0);
}

// Drops a single packet. Refuses several, which the caller then delivers singly.
Outcome taken_if_single(const Transit& packets) {
    return packets.is_single() ? Outcome::kTaken : Outcome::kSingly;
}

// Drops an offer as a whole: single packets need their payload, which would be copied for nothing.
Outcome taken_if_unread(const Transit& packets) {
    return packets.offer() != nullptr ? Outcome::kTaken : taken_if_single(packets);
}

}  // namespace

Outcome PacketRelay::receive(SwitchPort& port, Transit& packets) {
    if (port.limits().state < ib::PortState::kArmed) {
        return Outcome::kTaken;  // not linked for data, so dropped without a count (IBA 7.2.7)
    }
    if (packets.lrh().vl.value() >= port.limits().data_vls) {
        return refuse(port.number(), packets, Counter::kPortVlMappingErrors);
    }
    if (port.limits().enforce_pkey_in &&
        !pkey_admitted(packets, port, Counter::kPortRcvConstraintErrors)) {
        return taken_if_single(packets);
    }
    return forward(port.number(), packets);
}

// Counts no packet that the switch itself has made, because no port has received it (IBA 16.1.3.5).
Outcome PacketRelay::refuse(std::uint8_t ingress, const Transit& packets, Counter detail) {
    const Outcome outcome = taken_if_unread(packets);
    if (outcome == Outcome::kTaken && ingress != 0) {
        counters_[ingress].add(Counter::kPortRcvSwitchRelayErrors, packets.size().packets);
        counters_[ingress].add(detail, packets.size().packets);
    }
    return outcome;
}

Outcome PacketRelay::forward(std::uint8_t ingress, Transit& packets) {
    const ib::Lid dlid = packets.lrh().dlid;
    return dlid.is_multicast() ? forward_multicast(ingress, packets)
           : dlid.is_unicast() ? forward_unicast(ingress, packets)
                               : refuse(ingress, packets, Counter::kPortDlidMappingErrors);
}

Outcome PacketRelay::forward_unicast(std::uint8_t ingress, Transit& packets) {
    const ib::Lid dlid = packets.lrh().dlid;
    if (node_.port0().owns_lid(dlid)) {
        return packets.is_single() ? Outcome::kLocal : Outcome::kSingly;
    }
    const std::uint8_t egress = node_.lft.port(dlid);
    if (egress == 0 || egress > ports_.size()) {
        return refuse(ingress, packets, Counter::kPortDlidMappingErrors);
    }
    if (egress == ingress) {
        return refuse(ingress, packets, Counter::kPortLoopingErrors);
    }
    return relay(ingress, egress, packets);
}

// A multicast LID that the table does not list is sent to the default ports: all packets to the
// primary one, packets that arrived at that port to the other one (IBA 18.2.4.3.3).
PortMask PacketRelay::multicast_ports(std::uint8_t ingress, ib::Lid dlid) const {
    if (const auto listed = node_.mft.ports(dlid)) {
        return *listed;
    }
    const auto primary = node_.get(si::kDefaultMulticastPrimaryPort);
    const auto other = node_.get(si::kDefaultMulticastNotPrimaryPort);
    const auto chosen = ingress == primary ? other : primary;
    return chosen >= 1 && chosen <= ports_.size() ? PortMask{1} << chosen : 0;
}

// A packet never returns to its ingress port.
Outcome PacketRelay::forward_multicast(std::uint8_t ingress, Transit& packet) {
    if (!packet.is_single()) {
        return Outcome::kSingly;
    }
    PortMask ports = multicast_ports(ingress, packet.lrh().dlid);
    if (ports == 0) {
        return refuse(ingress, packet, Counter::kPortDlidMappingErrors);
    }
    ports &= ~(PortMask{1} << ingress) & ~PortMask{1};
    ports &= (PortMask{2} << ports_.size()) - 1;
    for (; ports != 0; ports &= ports - 1) {
        (void)relay(ingress, static_cast<std::uint8_t>(std::countr_zero(ports)), packet);
    }
    return Outcome::kTaken;
}

// All packets of a burst have the same route; only their lengths differ from the first packet's.
Outcome PacketRelay::relay(std::uint8_t ingress, std::uint8_t egress, Transit& packets) {
    SwitchPort& out = port(egress);
    if (packets.lrh().vl == ib::kVl15) {
        return out.send(packets, link::kVl15) ? Outcome::kTaken : Outcome::kSingly;
    }
    const unsigned vl = node_.ports[egress].sl_to_vl[ingress][packets.lrh().sl.value()];
    if (vl >= out.limits().data_vls) {
        return refuse(ingress, packets, Counter::kPortVlMappingErrors);
    }
    if ((packets.size().longest() + ib::kIcrcSize) / 4 > out.limits().max_pkt_len) {
        const Outcome outcome = taken_if_unread(packets);
        if (outcome == Outcome::kTaken) {
            count_discard(counters_[out.number()], Counter::kPortNeighborMtuDiscards,
                          packets.size().packets);
        }
        return outcome;
    }
    if (out.limits().enforce_pkey_out &&
        !pkey_admitted(packets, out, Counter::kPortXmitConstraintErrors)) {
        return taken_if_single(packets);
    }
    return out.send(packets, vl) ? Outcome::kTaken : Outcome::kSingly;
}

// ---- partitions (IBA 10.9.2, 18.2.4.2)

bool PacketRelay::pkey_admitted(const Transit& packets, SwitchPort& at, Counter counter) {
    if (partition_admits(packets.head(), packets.lrh(), at.attrs(),
                         counter == Counter::kPortRcvConstraintErrors)) {
        return true;
    }
    if (packets.is_single()) {
        counters_[at.number()].add(counter);
        report_pkey_violation(packets.bytes(), at.number());
    }
    return false;
}

void PacketRelay::report_pkey_violation(const ib::PacketBytes& packet, std::uint8_t at) {
    const auto view = ib::PacketView::parse(packet, ib::Crcs::kElided);
    if (!view) {
        return;
    }
    ib::KeyViolation violation{.key = view->bth().pkey.value(),
                               .sl = view->lrh().sl,
                               .slid = view->lrh().slid,
                               .dlid = view->lrh().dlid,
                               .src_qp = {},
                               .dest_qp = view->bth().dest_qp,
                               .sgid = {},
                               .dgid = {}};
    if (const auto deth = view->deth()) {
        violation.src_qp = deth->src_qp;
    }
    if (view->grh()) {
        violation.sgid = view->grh()->sgid;
        violation.dgid = view->grh()->dgid;
    }
    node_.port0().traps.add(ib::bad_p_key_at_switch_notice(violation, node_.port0().lid(), at),
                            clock_.now_ns);
}

}  // namespace pib::fabric
