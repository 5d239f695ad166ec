// SPDX-License-Identifier: GPL-2.0-or-later
#include "switch/switch.h"

#include <algorithm>
#include <bit>

namespace pib::fabric {
namespace {

namespace si = ib::switch_info;

// Names of link errors, in the order of ib::LinkError.
constexpr const char* kErrorNames[] = {"local link integrity, trap 129", "buffer overrun, trap 130",
                                       "flow control update, trap 131"};

Arrival arrival_at(SwitchPort& port, const Transit& packet, ib::Lid lid, uint64_t now_ns) {
    const auto* neighbour = port.cable().neighbour();
    const unsigned vl = packet.lrh().vl.value();
    Arrival arrival{
        .now_ns = now_ns, .lid = lid.value(), .port = port.number(), .credits = std::nullopt};
    if (neighbour != nullptr && vl < link::kDataVls) {
        arrival.credits = neighbour->granted(vl);
    }
    return arrival;
}

}  // namespace

Switch::Switch(const SwitchConfig& config, TimerQueue* timers)
    : config_(config),
      node_(config),
      counters_(config.num_ports + 1U),
      pool_(*this),
      admission_(config_, ports_),
      timers_(timers),
      clock_(timers != nullptr ? timers->clock() : own_clock_),
      relay_(node_, ports_, counters_, clock_),
      management_({node_, ports_, counters_, relay_, pool_, clock_}) {
    PortHost& host = *this;
    for (unsigned number = 1; number <= config.num_ports; ++number) {
        ports_.push_back(
            std::make_unique<SwitchPort>(host, pool_, node_.ports[number], counters_[number]));
        ports_.back()->queues().set_packet_lifetime(lifetime_ns(node_.get(si::kLifeTimeValue)));
    }
}

Switch::~Switch() = default;

// ---- time

void Switch::advance(uint64_t now_ns) {
    own_clock_.now_ns = std::max(own_clock_.now_ns, now_ns);
    on_deadline(own_clock_.now_ns);
}

// Work at one port may send packets to another port and add that one to active_. The next
// on_deadline() calls advance() of the added port.
void Switch::on_deadline(uint64_t now_ns) {
    for (PortMask left = active_; left != 0; left &= left - 1) {
        port(static_cast<unsigned>(std::countr_zero(left))).advance(now_ns);
    }
    management_.advance(now_ns);
}

uint64_t Switch::next_deadline() {
    uint64_t next = management_.next_deadline();
    for (PortMask left = active_; left != 0; left &= left - 1) {
        const auto number = static_cast<unsigned>(std::countr_zero(left));
        if (port(number).at_rest()) {
            active_ &= ~(PortMask{1} << number);
        } else {
            next = std::min(next, port(number).next_deadline());
        }
    }
    return next;
}

void Switch::port_touched(SwitchPort& port) {
    active_ |= PortMask{1} << port.number();
    if (timers_ != nullptr) {
        timers_->touch(*this);
    }
}

void Switch::release_origin(const Origin& origin) {
    if (origin.port != 0) {
        port(origin.port).release(origin);
    }
}

void Switch::link_state_changed(SwitchPort& port) {
    const auto* who = admission_.neighbour(port.number());
    journal_.add(now_ns(), port.number(),
                 port.attrs().link_is_up() ? LinkChange::kUp : LinkChange::kDown,
                 who != nullptr ? who->node_description : std::string{});
    management_.link_state_changed();
}

void Switch::link_error(SwitchPort& port, ib::LinkError error) {
    journal_.add(now_ns(), port.number(), LinkChange::kError,
                 kErrorNames[static_cast<size_t>(error)]);
    management_.link_error(error, port.number());
}

// ---- packets in

bool Switch::packets_arrived(SwitchPort& port, Transit& packets) {
    if (tap_ != nullptr && port.captured()) {
        if (!packets.is_single()) {
            return false;
        }
        tap_->packet_seen(packets.settled(),
                          arrival_at(port, packets, node_.port0().lid(), now_ns()));
    }
    if (packets.lrh().vl == ib::kVl15) {
        management_.receive_smp(port.number(), packets);
        return true;
    }
    const auto outcome = relay_.receive(port, packets);
    if (outcome == PacketRelay::Outcome::kLocal) {
        management_.receive_gmp(packets);
        if (timers_ != nullptr) {
            timers_->touch(*this);  // a packet with a wrong key causes a trap
        }
    }
    return outcome != PacketRelay::Outcome::kSingly;
}

}  // namespace pib::fabric
