// SPDX-License-Identifier: GPL-2.0-or-later
#include "switch/switch_port.h"

#include <algorithm>

namespace pib::fabric {
namespace {

namespace pi = ib::port_info;
using ib::Counter;
using ib::PortEvent;

// Largest number of bytes of a packet besides its payload, ICRC included (IBA 7.7.8).
constexpr uint32_t kPacketOverhead = 124;

PortLimits limits_of(const ib::PortAttrs& attrs) {
    return {.state = attrs.state(),
            .data_vls = attrs.data_vls(),
            .max_pkt_len = (ib::mtu_bytes(attrs.neighbor_mtu()) + kPacketOverhead) / 4,
            .hoq_life_ns = lifetime_ns(attrs.get(pi::kHoqLife)),
            .vl_stall_count = static_cast<unsigned>(attrs.get(pi::kVlStallCount)),
            .enforce_pkey_in = attrs.get(pi::kPartitionEnforcementInbound) != 0,
            .enforce_pkey_out = attrs.get(pi::kPartitionEnforcementOutbound) != 0};
}

// Drops the packets that wait in a port's queues and fault stages.
void drop_packets(SwitchPortQueues& queues, FaultStage& ingress, FaultStage& egress) {
    queues.clear();
    ingress.clear();
    egress.clear();
}

}  // namespace

SwitchPort::SwitchPort(PortHost& host, PacketPool& pool, ib::PortAttrs& attrs,
                       ib::PortCounters& counters)
    : host_(host),
      pool_(pool),
      attrs_(attrs),
      counters_(counters),
      limits_(limits_of(attrs)),
      cable_(attrs),
      queues_({host, pool, attrs, counters, limits_, cable_}),
      ingress_faults_(pool, *this),
      egress_faults_(pool, queues_) {}

// ---- link

void SwitchPort::attach(Neighbour& link) {
    ++link_serial_;
    cable_.attach(link);
}

void SwitchPort::detach() {
    link_down();
    cable_.detach();
}

void SwitchPort::link_up(const link::ActiveLink& active) {
    host_.port_touched(*this);
    errors_ = {};
    const auto events = ib::port_link_up(attrs_, active.width, active.speed, active.speed_ext);
    limits_ = limits_of(attrs_);
    if (events.has(PortEvent::kStateChange)) {
        host_.link_state_changed(*this);
    }
}

void SwitchPort::link_down() {
    host_.port_touched(*this);
    const auto events = ib::port_link_down(attrs_);
    limits_ = limits_of(attrs_);
    drop_packets(queues_, ingress_faults_, egress_faults_);
    if (events.has(PortEvent::kStateChange)) {
        counters_.add(Counter::kLinkDowned);
        host_.link_state_changed(*this);
    }
}

void SwitchPort::attributes_changed(ib::PortEvents events) {
    limits_ = limits_of(attrs_);
    queues_.restart_arbiter();
    if (events.has(PortEvent::kDownRequest)) {
        drop_packets(queues_, ingress_faults_, egress_faults_);
    }
    cable_.attributes_changed(events);
    pump();
}

// ---- packets in

// Returns 0 for several packets if a capture, a fault stage or PortState needs single ones.
uint32_t SwitchPort::receive(const ib::Burst& burst, const OfferRecord* offer) {
    host_.port_touched(*this);
    const auto vl = burst.lrh().vl.value();
    Transit transit(pool_, host_, burst, offer,
                    {.port = number(),
                     .vl = vl,
                     .blocks = link::burst_blocks(burst),
                     .link_serial = link_serial_});
    if (!burst.is_single()) {
        const bool drops_offer = limits_.state < ib::PortState::kArmed && offer != nullptr;
        if (ingress_faults_.in_use() || (limits_.state != ib::PortState::kActive && !drops_offer) ||
            !host_.packets_arrived(*this, transit)) {
            transit.split();
            return 0;
        }
        errors_.good(burst.count());
    }
    counters_.count_received(burst.lrh(), burst.size().words(), burst.count());
    queues_.data_by_vl().count_received(burst.lrh(), burst.size().words());
    if (burst.is_single()) {
        if (ingress_faults_.in_use()) {
            ingress_faults_.pass(transit, vl, host_.now_ns());
        } else {
            deliver(transit, vl, std::nullopt);
        }
    }
    return burst.count();
}

// A packet damaged by the ingress faults would fail its VCRC check here.
void SwitchPort::deliver(Transit& packet, unsigned vl, const std::optional<uint32_t>& damage) {
    if (damage) {
        receive_fault(link::PacketFault::kVcrc);
        return;
    }
    errors_.good(1);
    if (vl != link::kVl15 && limits_.state == ib::PortState::kArmed) {
        ib::port_data_arrived(attrs_);
        limits_ = limits_of(attrs_);
    }
    (void)host_.packets_arrived(*this, packet);
}

void SwitchPort::receive_fault(link::PacketFault fault) {
    host_.port_touched(*this);
    if (const auto error = errors_.dropped(fault, attrs_, counters_, host_.now_ns())) {
        host_.link_error(*this, *error);
    }
}

void SwitchPort::raise(ib::LinkError error) {
    host_.port_touched(*this);
    ib::count_link_error(error, counters_);
    host_.link_error(*this, error);
}

void SwitchPort::release(const Origin& origin) {
    if (cable_.neighbour() != nullptr && origin.link_serial == link_serial_) {
        cable_.neighbour()->release(origin.vl, origin.blocks);
    }
}

// ---- packets out

// Faults apply to single packets, so several are not sent while there are egress faults.
bool SwitchPort::send(Transit& packets, unsigned vl) {
    const bool open = cable_.neighbour() != nullptr && limits_.state != ib::PortState::kDown &&
                      (vl == link::kVl15 || limits_.state == ib::PortState::kActive);
    if (!open && (packets.is_single() || packets.offer() != nullptr)) {
        count_discard(counters_, Counter::kPortInactiveDiscards, packets.size().packets);
        return true;
    }
    if (!packets.is_single()) {
        return open && !egress_faults_.in_use() && queues_.send(packets, vl);
    }
    if (egress_faults_.in_use()) {
        host_.port_touched(*this);
        egress_faults_.pass(packets, vl, host_.now_ns());
    } else if (!queues_.send(packets, vl)) {
        host_.port_touched(*this);
        queues_.enqueue(packets, vl, std::nullopt);
    }
    return true;
}

void SwitchPort::pump() {
    if (cable_.neighbour() != nullptr) {
        host_.port_touched(*this);
        queues_.pump();
    }
}

// ---- time

void SwitchPort::advance(uint64_t now_ns) {
    ingress_faults_.advance(now_ns);
    egress_faults_.advance(now_ns);
    queues_.advance(now_ns);
}

uint64_t SwitchPort::next_deadline() const {
    return std::min(
        {ingress_faults_.next_deadline(), egress_faults_.next_deadline(), queues_.next_deadline()});
}

}  // namespace pib::fabric
