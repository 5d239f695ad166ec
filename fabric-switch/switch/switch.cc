// SPDX-License-Identifier: GPL-2.0-or-later
// Admission, time and forwarding (IBA 18.2.4).
#include "switch/switch.h"

#include <algorithm>
#include <bit>

#include "ib/wire/field.h"

namespace pib::fabric {
namespace {

namespace si = ib::switch_info;
using ib::Counter;

constexpr std::uint64_t kNever = UINT64_MAX;
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

// The table of a port is that of the channel adapter behind it. What goes there has to match as at
// the adapter itself, where two limited members do not (10.9.3). What comes from there carries the
// P_Key that its sender has in its table, and the switch compares it with a copy of that table: the
// rule for two members would turn away every limited member at its own port, as it has 0x0001 on
// both sides, and let pass one that calls itself full, which all limited members would then accept.
// So a packet may come in with the membership of its sender or with a lesser one.
bool sent_by_member(std::span<const ib::PKey> table, ib::PKey pkey) {
    return std::ranges::any_of(table, [pkey](ib::PKey entry) {
        return entry.base() == pkey.base() && (entry.is_full_member() || !pkey.is_full_member());
    });
}

// Whether a port lets a packet in, or out.
bool of_partition(std::span<const std::uint8_t> head, const ib::Lrh& lrh, const ib::Port& at,
                  bool inbound) {
    const auto pkey = packet_pkey(head, lrh);
    return pkey && pkey->is_valid() &&
           (inbound ? sent_by_member(at.pkeys, *pkey) : at.find_pkey(*pkey) >= 0);
}

// External ports of a switch have no GUID of their own.
bool same_port(const ib::link::Hello& one, const ib::link::Hello& other) {
    const bool of_switch = one.role == ib::link::Role::kSwitch;
    return one.role == other.role && one.port_guid == other.port_guid &&
           (!of_switch || one.port_number == other.port_number);
}

}  // namespace

Switch::Switch(const SwitchConfig& config, Agenda* agenda)
    : config_(config),
      node_(config),
      counters_(config.num_ports + 1U),
      pool_(*this),
      neighbours_(config.num_ports),
      agenda_(agenda),
      clock_(agenda != nullptr ? agenda->clock() : own_clock_) {
    PortHost& host = *this;
    for (unsigned number = 1; number <= config.num_ports; ++number) {
        ports_.push_back(
            std::make_unique<SwitchPort>(host, pool_, node_.ports[number], counters_[number]));
        ports_.back()->set_packet_lifetime(lifetime_ns(node_.get(si::kLifeTimeValue)));
    }
}

Switch::~Switch() = default;

// ---- admission

const ib::link::Hello* Switch::neighbour(unsigned number) const {
    const auto& hello = neighbours_[number - 1];
    return hello.node_guid == ib::Guid{} ? nullptr : &hello;
}

void Switch::set_neighbour(unsigned number, const ib::link::Hello& hello) {
    neighbours_[number - 1] = hello;
}

link::LinkEndpoint::Buffers Switch::link_buffers() const {
    link::LinkEndpoint::Buffers buffers;
    for (unsigned vl = 0; vl < link::data_vls(config_.vl_cap); ++vl) {
        buffers.receive_blocks[vl] = config_.receive_blocks;
    }
    return buffers;
}

Admission::Place Switch::place(unsigned number) {
    return {.port = &port(number),
            .node_guid = config_.node_guid,
            .number = static_cast<std::uint8_t>(number),
            .name = "port " + std::to_string(number)};
}

std::expected<Admission::Place, ib::link::Refuse> Switch::admit(const ib::link::Hello& hello) {
    using enum ib::link::RefuseReason;
    if (hello.node_guid == config_.node_guid) {
        return std::unexpected(ib::link::Refuse{
            kDuplicatePortGuid, "this switch has the same GUID: give one another --guid"});
    }
    unsigned known = 0, unused = 0, vacant = 0;  // lowest port number of each kind, 0: none
    for (unsigned number = num_ports(); number >= 1; --number) {
        if ((reserved_ >> number & 1) != 0) {
            continue;
        }
        const auto* who = neighbour(number);
        if (who != nullptr && same_port(*who, hello)) {
            known = number;
        }
        vacant = port(number).attached() ? vacant : number;
        unused = who == nullptr ? number : unused;
    }
    if (known != 0 && port(known).attached()) {
        return std::unexpected(ib::link::Refuse{
            kDuplicatePortGuid, "port GUID is connected to port " + std::to_string(known) +
                                    " already: give each device its own GUID"});
    }
    const unsigned number = known != 0 ? known : unused != 0 ? unused : vacant;
    if (number == 0) {
        return std::unexpected(
            ib::link::Refuse{kNoFreePort, "all " + std::to_string(num_ports()) +
                                              " ports are taken: start pib-switch with --ports"});
    }
    set_neighbour(number, hello);
    return place(number);
}

// ---- time

void Switch::advance(std::uint64_t now_ns) {
    own_clock_.now_ns = std::max(own_clock_.now_ns, now_ns);
    time_has_come(own_clock_.now_ns);
}

// Due work at one port may send packets to another one, which becomes active; that port does its
// work in the next call.
void Switch::time_has_come(std::uint64_t now_ns) {
    for (PortMask left = active_; left != 0; left &= left - 1) {
        port(static_cast<unsigned>(std::countr_zero(left))).advance(now_ns);
    }
    ib::pma_advance(pma_node(), now_ns);
    send_traps();
}

std::uint64_t Switch::next_deadline() {
    std::uint64_t next = kNever;
    for (PortMask left = active_; left != 0; left &= left - 1) {
        const auto number = static_cast<unsigned>(std::countr_zero(left));
        if (port(number).at_rest()) {
            active_ &= ~(PortMask{1} << number);
        } else {
            next = std::min(next, port(number).next_deadline());
        }
    }
    const ib::Port& port0 = node_.ports[0];
    if (port0.sm_lid().is_unicast()) {
        next = std::min(next, port0.traps.deadline_ns().value_or(kNever));
    }
    const auto sampling_deadline = ib::pma_next_deadline_ns(sampling_);
    return std::min(next, sampling_deadline.value_or(kNever));
}

void Switch::port_touched(SwitchPort& port) {
    active_ |= PortMask{1} << port.number();
    if (agenda_ != nullptr) {
        agenda_->touch(*this);
    }
}

void Switch::release_origin(const Origin& origin) {
    if (origin.port != 0) {
        port(origin.port).release(origin);
    }
}

void Switch::link_state_changed(SwitchPort&) {
    node_.set(si::kPortStateChange, 1);
    node_.port0().traps.add(ib::link_state_notice(node_.port0().lid()), now_ns());
}

void Switch::link_error(SwitchPort& port, ib::LinkError error) {
    ib::tell_link_error(error, port.number(), node_.port0(), now_ns());
}

// ---- forwarding

bool Switch::packets_arrived(SwitchPort& port, Transit& packets) {
    if (tap_ != nullptr && port.captured()) {
        if (!packets.is_single()) {
            return false;
        }
        tap_->packet_seen(packets.settled(), now_ns());
    }
    if (packets.lrh().vl == ib::kVl15) {
        smp_arrived(port.number(), packets);
        return true;
    }
    return data_arrived(port, packets);
}

bool Switch::data_arrived(SwitchPort& port, Transit& packets) {
    if (port.limits().state < ib::PortState::kArmed) {
        return true;  // not linked for data (IBA 7.2.7): silently
    }
    if (packets.lrh().vl.value() >= port.limits().data_vls) {
        return refuse(port.number(), packets, Counter::kPortVlMappingErrors);
    }
    if (port.limits().enforce_pkey_in &&
        !pkey_admitted(packets, port, Counter::kPortRcvConstraintErrors)) {
        return packets.is_single();
    }
    return forward(port.number(), packets);
}

// No port has received a packet that the switch itself generated (IBA 16.1.3.5).
bool Switch::refuse(std::uint8_t ingress, const Transit& packets, Counter detail) {
    if (packets.is_single() && ingress != 0) {
        counters_[ingress].add(Counter::kPortRcvSwitchRelayErrors);
        counters_[ingress].add(detail);
    }
    return packets.is_single();
}

bool Switch::forward(std::uint8_t ingress, Transit& packets) {
    const ib::Lid dlid = packets.lrh().dlid;
    return dlid.is_multicast() ? forward_multicast(ingress, packets)
           : dlid.is_unicast() ? forward_unicast(ingress, packets)
                               : refuse(ingress, packets, Counter::kPortDlidMappingErrors);
}

bool Switch::forward_unicast(std::uint8_t ingress, Transit& packets) {
    const ib::Lid dlid = packets.lrh().dlid;
    if (node_.port0().owns_lid(dlid)) {
        if (packets.is_single()) {
            if (const auto view = ib::PacketView::parse(packets.bytes(), packets.lrh())) {
                gmp_arrived(*view);
            }
        }
        return packets.is_single();
    }
    const std::uint8_t egress = node_.lft.port(dlid);
    if (egress == 0 || egress > num_ports()) {
        return refuse(ingress, packets, Counter::kPortDlidMappingErrors);
    }
    if (egress == ingress) {
        return refuse(ingress, packets, Counter::kPortLoopingErrors);
    }
    return relay(ingress, egress, packets);
}

// A multicast LID that the table does not list goes by the default ports: everything to the primary
// one, and what came from there to the other (IBA 18.2.4.3.3). A packet never returns to where it
// came from.
bool Switch::forward_multicast(std::uint8_t ingress, Transit& packet) {
    if (!packet.is_single()) {
        return false;
    }
    PortMask ports = 0;
    if (const auto listed = node_.mft.ports(packet.lrh().dlid)) {
        ports = *listed;
    } else {
        const auto primary = node_.get(si::kDefaultMulticastPrimaryPort);
        const auto other = node_.get(si::kDefaultMulticastNotPrimaryPort);
        const auto chosen = ingress == primary ? other : primary;
        ports = chosen >= 1 && chosen <= num_ports() ? PortMask{1} << chosen : 0;
    }
    if (ports == 0) {
        return refuse(ingress, packet, Counter::kPortDlidMappingErrors);
    }
    ports &= ~(PortMask{1} << ingress) & ~PortMask{1};
    ports &= (PortMask{2} << num_ports()) - 1;
    for (; ports != 0; ports &= ports - 1) {
        (void)relay(ingress, static_cast<std::uint8_t>(std::countr_zero(ports)), packet);
    }
    return true;
}

// All packets of a burst have the same way: what is right for the first is right for all but their
// length.
bool Switch::relay(std::uint8_t ingress, std::uint8_t egress, Transit& packets) {
    SwitchPort& out = port(egress);
    if (packets.lrh().vl == ib::kVl15) {
        return out.send(packets, link::kVl15);
    }
    const unsigned vl = node_.ports[egress].sl_to_vl[ingress][packets.lrh().sl.value()];
    if (vl >= out.limits().data_vls) {
        return refuse(ingress, packets, Counter::kPortVlMappingErrors);
    }
    if ((packets.size().longest() + ib::kIcrcSize) / 4 > out.limits().max_pkt_len) {
        if (packets.is_single()) {
            out.counters().add(Counter::kPortXmitDiscards);
            out.counters().add(Counter::kPortNeighborMtuDiscards);
        }
        return packets.is_single();
    }
    if (out.limits().enforce_pkey_out &&
        !pkey_admitted(packets, out, Counter::kPortXmitConstraintErrors)) {
        return packets.is_single();
    }
    return out.send(packets, vl);
}

// ---- partitions (IBA 10.9.2, 18.2.4.2)

bool Switch::pkey_admitted(const Transit& packets, SwitchPort& at, Counter counter) {
    if (of_partition(packets.head(), packets.lrh(), at.attrs(),
                     counter == Counter::kPortRcvConstraintErrors)) {
        return true;
    }
    if (packets.is_single()) {
        at.counters().add(counter);
        report_pkey_violation(packets.bytes(), at.number());
    }
    return false;
}

void Switch::report_pkey_violation(const ib::PacketBytes& packet, std::uint8_t at) {
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
                            now_ns());
}

}  // namespace pib::fabric
