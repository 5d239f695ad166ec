// SPDX-License-Identifier: GPL-2.0-or-later
// Link side, counters and attributes of a switch port; its queues are in switch_port_queues.cc.
#include "switch_port.h"

#include <algorithm>

namespace pib::fabric {
namespace {

namespace pi = ib::port_info;
using ib::Counter;
using ib::PortEvent;

constexpr std::uint64_t kNever = UINT64_MAX;
// What a packet carries besides its payload, ICRC included (IBA 7.7.8).
constexpr std::uint32_t kPacketOverhead = 124;

struct FaultCounter {
    Counter total;
    Counter detail;
};

// By PacketFault: what PortRcvErrorDetails calls it (IBA 16.1.4.1).
constexpr FaultCounter kFaultCounters[] = {
    {Counter::kPortRcvErrors, Counter::kPortMalformedPacketErrors},
    {Counter::kPortRcvErrors, Counter::kPortMalformedPacketErrors},
    {Counter::kPortRcvErrors, Counter::kPortLocalPhysicalErrors},
    {Counter::kPortRcvErrors, Counter::kPortLocalPhysicalErrors},
};

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

ib::link::Link SwitchPort::offer() const {
    const auto ext = static_cast<std::uint8_t>(attrs_.get(pi::kLinkSpeedExtEnabled));
    return {.up = cable_ && ib::port_wants_link(attrs_),
            .width_enabled = static_cast<std::uint8_t>(attrs_.get(pi::kLinkWidthEnabled)),
            .speed_enabled = static_cast<std::uint8_t>(attrs_.get(pi::kLinkSpeedEnabled)),
            .speed_ext_enabled = ext == ib::link_speed_ext::kNoneEnabled ? std::uint8_t{0} : ext,
            .mtu_cap = static_cast<std::uint8_t>(attrs_.get(pi::kMtuCap)),
            .vl_cap = static_cast<std::uint8_t>(attrs_.get(pi::kVlCap)),
            .epoch = 0};
}

// The link goes through Down when the offer differs from the last, or when that is asked for.
void SwitchPort::push_offer(bool retrain) {
    if (link_ == nullptr) {
        return;
    }
    const auto now = offer();
    if (now != offered_) {
        offered_ = now;
        link_->set_offer(now);
    } else if (retrain) {
        link_->retrain();
    }
}

void SwitchPort::attach(PortLink& link) {
    link_ = &link;
    ++link_serial_;
    offered_ = {};
    push_offer(false);
}

void SwitchPort::detach() {
    link_down();
    link_ = nullptr;
}

void SwitchPort::link_up(const link::ActiveLink& active) {
    host_.port_touched();
    const auto events = ib::port_link_up(attrs_, active.width, active.speed, active.speed_ext);
    refresh_limits();
    if (events.has(PortEvent::kStateChange)) {
        host_.link_state_changed(*this);
    }
}

void SwitchPort::link_down() {
    host_.port_touched();
    const auto events = ib::port_link_down(attrs_);
    refresh_limits();
    clear_queues();
    if (events.has(PortEvent::kStateChange)) {
        counters_.add(Counter::kLinkDowned);
        host_.link_state_changed(*this);
    }
}

void SwitchPort::set_cable(bool plugged) {
    cable_ = plugged;
    push_offer(false);
}

// New widths and speeds count from the next training on (IBA 14.2.5.6): now if the link is down,
// else when subnet management sends it down.
void SwitchPort::attributes_changed(ib::PortEvents events) {
    refresh_limits();
    arbiter_.restart();
    const bool down = events.has(PortEvent::kDownRequest);
    if (down) {
        clear_queues();
    }
    if (down || (events.has(PortEvent::kLinkOffer) && !attrs_.link_is_up())) {
        push_offer(down);
    }
    pump();
}

// ---- packets in

void SwitchPort::receive(const link::LinkPacket& packet) {
    host_.port_touched();
    const auto vl = packet.lrh.vl.value();
    counters_.count_received(packet.lrh.dlid, packet.lrh.pkt_len);
    Transit transit(
        pool_, host_, packet.bytes,
        {.port = number(), .vl = vl, .blocks = packet.blocks, .link_serial = link_serial_});
    if (ingress_faults_.in_use()) {
        ingress_faults_.pass(transit, vl, host_.now_ns());
    } else {
        deliver(transit, vl, std::nullopt);
    }
}

// A packet damaged on its way in would fail its VCRC here.
void SwitchPort::deliver(Transit& packet, unsigned vl, Damage damage) {
    if (damage) {
        receive_fault(link::PacketFault::kVcrc);
        return;
    }
    if (vl != link::kVl15 && limits_.state == ib::PortState::kArmed) {
        ib::port_data_arrived(attrs_);
        refresh_limits();
    }
    host_.packet_arrived(*this, packet);
}

void SwitchPort::receive_fault(link::PacketFault fault) {
    const FaultCounter& counter = kFaultCounters[static_cast<std::size_t>(fault)];
    counters_.add(counter.total);
    counters_.add(counter.detail);
}

void SwitchPort::release(const Origin& origin) {
    if (link_ != nullptr && origin.link_serial == link_serial_) {
        link_->release(origin.vl, origin.blocks);
    }
}

}  // namespace pib::fabric
