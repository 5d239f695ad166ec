// SPDX-License-Identifier: GPL-2.0-or-later
#include "switch/packet_relay.h"

#include <bit>

#include "ib/wire/field.h"

namespace pib::fabric {
namespace {

namespace si = ib::switch_info;
using ib::Counter;
using Outcome = PacketRelay::Outcome;

constexpr size_t kPKeyOffset = 2;  // in the BTH

size_t bth_offset(const ib::Lrh& lrh) {
    return ib::Lrh::kSize + (lrh.lnh == ib::Lnh::kIbaGlobal ? ib::Grh::kSize : 0);
}

// The P_Key of a packet that may be too short to have one.
std::optional<ib::PKey> packet_pkey(std::span<const uint8_t> head, const ib::Lrh& lrh) {
    const size_t bth = bth_offset(lrh);
    if (head.size() < bth + ib::Bth::kSize) {
        return std::nullopt;
    }
    return ib::PKey(ib::load_be<uint16_t>(&head[bth + kPKeyOffset]));
}

// Compares a packet from an adapter with the P_Key table of the adapter's switch port. For packets
// to an adapter, the rule of IBA 10.9.3 applies: two limited members do not match. It would be
// wrong here, because the packet's P_Key comes from the adapter's own table, of which the port's
// table is a copy: all packets of limited members would be dropped, and packets of a limited member
// that claim full membership would pass. So the packet must have the membership of the entry, or
// limited membership.
bool sent_by_member(std::span<const ib::PKey> table, ib::PKey pkey) {
    return std::ranges::any_of(table, [pkey](ib::PKey entry) {
        return entry.base() == pkey.base() && (entry.is_full_member() || !pkey.is_full_member());
    });
}

// Whether the port `at` lets a packet in (`inbound`) or out.
bool partition_admits(std::span<const uint8_t> head, const ib::Lrh& lrh, const ib::PortAttrs& at,
                      bool inbound) {
    const auto pkey = packet_pkey(head, lrh);
    return pkey && pkey->is_valid() &&
           (inbound ? sent_by_member(at.pkeys, *pkey) : at.find_pkey(*pkey) >= 0);
}

// The result for packets to drop: single packets are taken, several are first delivered singly.
Outcome taken_if_single(const Transit& packets) {
    return packets.is_single() ? Outcome::kTaken : Outcome::kSingly;
}

// The same, but an offer is dropped as a whole: to deliver its packets singly, their payload would
// have to be copied.
Outcome taken_if_unread(const Transit& packets) {
    return packets.offer() != nullptr ? Outcome::kTaken : taken_if_single(packets);
}

// The P_Key violation by an offer. Its packets are MIDDLE packets, which do not name the QP that
// sends them. PeerCopySwitch has checked their headers.
ib::KeyViolation offered_violation(const Transit& offer) {
    const auto head = offer.head();
    const ib::Lrh& lrh = offer.lrh();
    const auto bth = ib::Bth::parse(head.subspan(bth_offset(lrh)).first<ib::Bth::kSize>());
    ib::KeyViolation violation{.key = bth.pkey.value(),
                               .sl = lrh.sl,
                               .slid = lrh.slid,
                               .dlid = lrh.dlid,
                               .src_qp = {},
                               .dest_qp = bth.dest_qp,
                               .sgid = {},
                               .dgid = {}};
    if (lrh.lnh == ib::Lnh::kIbaGlobal) {
        const auto grh = ib::Grh::parse(head.subspan(ib::Lrh::kSize).first<ib::Grh::kSize>());
        violation.sgid = grh.sgid;
        violation.dgid = grh.dgid;
    }
    return violation;
}

}  // namespace

Outcome PacketRelay::receive(SwitchPort& port, Transit& packets) {
    if (port.limits().state < ib::PortState::kArmed) {
        return Outcome::kTaken;  // dropped without a count (IBA 7.2.7)
    }
    if (packets.lrh().vl.value() >= port.limits().data_vls) {
        return refuse(port.number(), packets, Counter::kPortVlMappingErrors);
    }
    if (port.limits().enforce_pkey_in &&
        !pkey_admitted(packets, port, Counter::kPortRcvConstraintErrors)) {
        return taken_if_unread(packets);
    }
    return forward(port.number(), packets);
}

// Counts no packet that the switch itself has made: its PortRcv counters are for received packets
// (IBA 16.1.3.5).
Outcome PacketRelay::refuse(uint8_t ingress, const Transit& packets, Counter detail) {
    const Outcome outcome = taken_if_unread(packets);
    if (outcome == Outcome::kTaken && ingress != 0) {
        counters_[ingress].add(Counter::kPortRcvSwitchRelayErrors, packets.size().packets);
        counters_[ingress].add(detail, packets.size().packets);
    }
    return outcome;
}

Outcome PacketRelay::forward(uint8_t ingress, Transit& packets) {
    const ib::Lid dlid = packets.lrh().dlid;
    return dlid.is_multicast() ? forward_multicast(ingress, packets)
           : dlid.is_unicast() ? forward_unicast(ingress, packets)
                               : refuse(ingress, packets, Counter::kPortDlidMappingErrors);
}

Outcome PacketRelay::forward_unicast(uint8_t ingress, Transit& packets) {
    const ib::Lid dlid = packets.lrh().dlid;
    if (node_.port0().owns_lid(dlid)) {
        if (packets.offer() != nullptr) {  // port 0 has no QP for such packets
            counters_[0].count_received(packets.lrh(), packets.size().words(),
                                        packets.size().packets);
            return Outcome::kTaken;
        }
        return packets.is_single() ? Outcome::kLocal : Outcome::kSingly;
    }
    const uint8_t egress = node_.lft.port(dlid);
    if (egress == 0 || egress > ports_.size()) {
        return refuse(ingress, packets, Counter::kPortDlidMappingErrors);
    }
    if (egress == ingress) {
        return refuse(ingress, packets, Counter::kPortLoopingErrors);
    }
    return relay(ingress, egress, packets);
}

// A packet to a multicast LID without ports in the table goes to the primary default port, or, if
// it arrived at that port, to the not-primary default port (IBA 18.2.4.3.3).
PortMask PacketRelay::multicast_ports(uint8_t ingress, ib::Lid dlid) const {
    if (const auto listed = node_.mft.ports(dlid)) {
        return *listed;
    }
    const auto primary = node_.get(si::kDefaultMulticastPrimaryPort);
    const auto other = node_.get(si::kDefaultMulticastNotPrimaryPort);
    const auto chosen = ingress == primary ? other : primary;
    return chosen >= 1 && chosen <= ports_.size() ? PortMask{1} << chosen : 0;
}

// A packet never returns to its ingress port. Offers are dropped, because they are packets of
// connections, and only datagrams have groups as destinations (IBA 10.5.2).
Outcome PacketRelay::forward_multicast(uint8_t ingress, Transit& packet) {
    if (packet.offer() != nullptr) {
        return refuse(ingress, packet, Counter::kPortDlidMappingErrors);
    }
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
        (void)relay(ingress, static_cast<uint8_t>(std::countr_zero(ports)), packet);
    }
    return Outcome::kTaken;
}

// All packets of a burst have the same route: their LRHs differ in PktLen only.
Outcome PacketRelay::relay(uint8_t ingress, uint8_t egress, Transit& packets) {
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
        return taken_if_unread(packets);
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
    } else if (packets.offer() != nullptr) {
        counters_[at.number()].add(counter, packets.size().packets);
        report(offered_violation(packets), at.number());
    }
    return false;
}

void PacketRelay::report_pkey_violation(const ib::PacketBytes& packet, uint8_t at) {
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
    report(violation, at);
}

void PacketRelay::report(const ib::KeyViolation& violation, uint8_t at) {
    node_.port0().traps.add(ib::bad_p_key_at_switch_notice(violation, node_.port0().lid(), at),
                            clock_.now_ns);
}

}  // namespace pib::fabric
