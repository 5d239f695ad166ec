// SPDX-License-Identifier: GPL-2.0-or-later
// Link side, counters and attributes of a switch port; its queues are in switch_port_queues.cc.
#include "switch/switch_port.h"

#include <algorithm>

namespace pib::fabric {
namespace {

namespace pi = ib::port_info;
using ib::Counter;
using ib::PortEvent;

constexpr std::uint64_t kNever = UINT64_MAX;
// Bytes of a packet besides its payload, ICRC included (IBA 7.7.8).
constexpr std::uint32_t kPacketOverhead = 124;

}  // namespace

std::uint64_t lifetime_ns(std::uint64_t value) {
    return value > 19 ? kNever : 4096ULL << value;
}

SwitchPort::SwitchPort(PortHost& host, PacketPool& pool, ib::Port& attrs,
                       ib::PortCounters& counters)
    : host_(host),
      pool_(pool),
      attrs_(attrs),
      counters_(counters),
      offers_(attrs),
      arbiter_(attrs),
      ingress_faults_(pool, *this),
      egress_faults_(pool, egress_sink_) {
    refresh_limits();
}

void SwitchPort::refresh_limits() {
    limits_.state = attrs_.state();
    limits_.data_vls = attrs_.data_vls();
    limits_.max_pkt_len = (ib::mtu_bytes(attrs_.neighbor_mtu()) + kPacketOverhead) / 4;
    limits_.hoq_life_ns = lifetime_ns(attrs_.get(pi::kHoqLife));
    limits_.vl_stall_count = static_cast<unsigned>(attrs_.get(pi::kVlStallCount));
    limits_.enforce_pkey_in = attrs_.get(pi::kPartitionEnforcementInbound) != 0;
    limits_.enforce_pkey_out = attrs_.get(pi::kPartitionEnforcementOutbound) != 0;
}

// ---- link

void SwitchPort::attach(PortLink& link) {
    ++link_serial_;
    offers_.attach(link);
}

void SwitchPort::detach() {
    link_down();
    offers_.detach();
}

void SwitchPort::link_up(const link::ActiveLink& active) {
    host_.port_touched(*this);
    errors_ = {};
    const auto events = ib::port_link_up(attrs_, active.width, active.speed, active.speed_ext);
    refresh_limits();
    if (events.has(PortEvent::kStateChange)) {
        host_.link_state_changed(*this);
    }
}

void SwitchPort::link_down() {
    host_.port_touched(*this);
    const auto events = ib::port_link_down(attrs_);
    refresh_limits();
    clear_queues();
    if (events.has(PortEvent::kStateChange)) {
        counters_.add(Counter::kLinkDowned);
        host_.link_state_changed(*this);
    }
}

void SwitchPort::attributes_changed(ib::PortEvents events) {
    refresh_limits();
    arbiter_.restart();
    if (events.has(PortEvent::kDownRequest)) {
        clear_queues();
    }
    offers_.attributes_changed(events);
    pump();
}

// ---- packets in

// Several packets go on together where nobody wants to see, change or hold single ones.
std::uint32_t SwitchPort::receive(const ib::Burst& burst, const RamReference* offer) {
    host_.port_touched(*this);
    const auto vl = burst.lrh().vl.value();
    Transit transit(pool_, host_, burst, offer,
                    {.port = number(),
                     .vl = vl,
                     .blocks = link::burst_blocks(burst),
                     .link_serial = link_serial_});
    if (!burst.is_single()) {
        if (ingress_faults_.in_use() || limits_.state != ib::PortState::kActive ||
            !host_.packets_arrived(*this, transit)) {
            transit.split();
            return 0;
        }
        errors_.good(burst.count());
    }
    counters_.count_received(burst.lrh(), burst.size().words(), burst.count());
    if (burst.is_single()) {
        if (ingress_faults_.in_use()) {
            ingress_faults_.pass(transit, vl, host_.now_ns());
        } else {
            deliver(transit, vl, std::nullopt);
        }
    }
    return burst.count();
}

// A packet damaged on its way in would fail its VCRC here.
void SwitchPort::deliver(Transit& packet, unsigned vl, Damage damage) {
    if (damage) {
        receive_fault(link::PacketFault::kVcrc);
        return;
    }
    errors_.good(1);
    if (vl != link::kVl15 && limits_.state == ib::PortState::kArmed) {
        ib::port_data_arrived(attrs_);
        refresh_limits();
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
    if (offers_.link() != nullptr && origin.link_serial == link_serial_) {
        offers_.link()->release(origin.vl, origin.blocks);
    }
}

}  // namespace pib::fabric
