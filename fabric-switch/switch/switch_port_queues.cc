// SPDX-License-Identifier: GPL-2.0-or-later
// The egress side of a switch port: one queue per VL, VL15 first, the others as arbitration and
// credits admit, and the lifetime limits that keep a stuck neighbour from filling the switch.
#include <algorithm>
#include <bit>
#include <cstring>

#include "ib/link/packet_checksums.h"
#include "ib/wire/headers.h"
#include "switch/switch_port.h"

namespace pib::fabric {
namespace {

using ib::Counter;

constexpr std::uint64_t kNever = UINT64_MAX;
constexpr std::size_t kCrcBytes = ib::kIcrcSize + ib::kVcrcSize;
// A VL that has stalled discards for so many head-of-queue lifetimes (IBA 18.2.5.4).
constexpr std::uint64_t kStallLifetimes = 8;

std::uint64_t add_saturated(std::uint64_t a, std::uint64_t b) {
    return b > kNever - a ? kNever : a + b;
}

}  // namespace

// Waiting packets are sent first, and faults apply to single packets.
bool SwitchPort::send(Transit& packets, unsigned vl) {
    const bool vl15 = vl == link::kVl15;
    const bool open = offers_.link() != nullptr && limits_.state != ib::PortState::kDown &&
                      (vl15 || limits_.state == ib::PortState::kActive);
    if (!packets.is_single()) {
        return open && !egress_faults_.in_use() && queues_[vl].entries.empty() &&
               transmit(packets, vl, std::nullopt);
    }
    if (!open) {
        count_discard(Counter::kPortInactiveDiscards);
    } else if (egress_faults_.in_use()) {
        host_.port_touched(*this);
        egress_faults_.pass(packets, vl, host_.now_ns());
    } else {
        enqueue(packets, vl, std::nullopt);
    }
    return true;
}

void SwitchPort::count_discard(Counter detail) {
    counters_.add(Counter::kPortXmitDiscards);
    counters_.add(detail);
}

void SwitchPort::enqueue(Transit& packet, unsigned vl, Damage damage) {
    // The link went down while the fault stage delayed the packet.
    if (limits_.state == ib::PortState::kDown) {
        count_discard(Counter::kPortInactiveDiscards);
        return;
    }
    VlQueue& queue = queues_[vl];
    if (queue.entries.empty() && transmit(packet, vl, damage)) {
        return;
    }
    if (vl == link::kVl15 && queue.entries.size() >= kMaxVl15Packets) {
        counters_.add(Counter::kVl15Dropped);
        return;
    }
    push(packet, vl, damage);
}

// VL is the only part of a packet that a switch changes (IBA 7.8.1); the ICRC leaves it out.
bool SwitchPort::transmit(const Transit& packets, unsigned vl, Damage damage) {
    const ib::BurstSize& size = packets.size();
    const std::size_t crcs = damage ? kCrcBytes : 0;
    const auto room =
        offers_.link()->begin({.vl = vl,
                               .longest = size.longest() + crcs,
                               .packets = size.packets,
                               .mtu = size.mtu,
                               .crc = damage ? link::SendCrc::kGiven : link::SendCrc::kElided,
                               .is_offer = packets.offer() != nullptr});
    if (room.packets < size.packets) {
        return false;
    }
    if (packets.offer() != nullptr) {
        std::ranges::copy(packets.bytes().head().first(ib::kBurstPayload), room.bytes.begin());
    } else {
        packets.bytes().copy_to(room.bytes);
    }
    ib::set_burst_vl(room.bytes, size.packets, static_cast<std::uint8_t>(vl));
    if (damage) {
        link::append_crcs(room.bytes);
        room.bytes[*damage / 8 % room.bytes.size()] ^= static_cast<std::uint8_t>(1U << *damage % 8);
    }
    offers_.link()->commit(damage ? ib::BurstSize::of(room.bytes.size()) : size, packets.offer());
    counters_.count_sent(packets.lrh(), size.words(), size.packets);
    return true;
}

void SwitchPort::push(Transit& packet, unsigned vl, Damage damage) {
    host_.port_touched(*this);
    VlQueue& queue = queues_[vl];
    const std::uint64_t now = host_.now_ns();
    if (queue.entries.empty()) {
        queue.head_since_ns = now;
    }
    queue.entries.push({packet.hold(), now, damage});
    if (vl != link::kVl15) {
        waiting_ = static_cast<ib::VlMask>(waiting_ | 1U << vl);
    }
    note_waiting();
}

void SwitchPort::pop(unsigned vl) {
    VlQueue& queue = queues_[vl];
    queue.entries.pop();
    queue.head_since_ns = host_.now_ns();
    if (queue.entries.empty()) {
        waiting_ = static_cast<ib::VlMask>(waiting_ & ~(1U << vl));
    }
}

// ---- sending what waits

ib::VlMask SwitchPort::sendable() const {
    ib::VlMask ready = 0;
    for (ib::VlMask left = waiting_; left != 0; left = static_cast<ib::VlMask>(left & (left - 1))) {
        const auto vl = static_cast<unsigned>(std::countr_zero(left));
        const Entry& head = queues_[vl].entries.front();
        const auto crc = head.damage ? link::SendCrc::kGiven : link::SendCrc::kElided;
        const std::size_t bytes = head.packet.bytes().size() + (head.damage ? kCrcBytes : 0);
        if (offers_.link()->can_send(vl, bytes, crc)) {
            ready = static_cast<ib::VlMask>(ready | 1U << vl);
        }
    }
    return ready;
}

void SwitchPort::drain_vl15() {
    auto& entries = queues_[link::kVl15].entries;
    while (!entries.empty() &&
           transmit(Transit(pool_, entries.front().packet), link::kVl15, entries.front().damage)) {
        pop(link::kVl15);
    }
}

void SwitchPort::drain_data() {
    while (const auto vl = arbiter_.choose(sendable())) {
        const Entry& head = queues_[*vl].entries.front();
        const std::size_t bytes = head.packet.bytes().size();
        if (!transmit(Transit(pool_, head.packet), *vl, head.damage)) {
            break;
        }
        arbiter_.account(bytes);
        queues_[*vl].discarded_in_a_row = 0;
        pop(*vl);
    }
}

void SwitchPort::pump() {
    if (offers_.link() == nullptr) {
        return;
    }
    host_.port_touched(*this);
    drain_vl15();
    drain_data();
    note_waiting();
}

void SwitchPort::count_wait(Counter counter, std::uint64_t waited_ns, std::uint64_t& remainder_ns) {
    remainder_ns += waited_ns;
    counters_.add(counter, remainder_ns / ib::kPmaTickNs);
    remainder_ns %= ib::kPmaTickNs;
}

// PortXmitWait counts the time with waiting data and no transmission (IBA 16.1.3.5), PortVLXmitWait
// the same for a VL.
void SwitchPort::note_waiting() {
    if (waiting_ == 0 && noted_waiting_ == 0) {
        return;
    }
    const std::uint64_t now = host_.now_ns();
    const std::uint64_t waited = now - noted_ns_;
    if (noted_waiting_ != 0 && waited != 0) {
        count_wait(Counter::kPortXmitWait, waited, wait_remainder_ns_);
        for (unsigned left = noted_waiting_; left != 0; left &= left - 1) {
            const auto vl = static_cast<unsigned>(std::countr_zero(left));
            count_wait(ib::counter_of(Counter::kPortVlXmitWait, vl), waited,
                       vl_wait_remainder_ns_[vl]);
        }
    }
    noted_waiting_ = waiting_;
    noted_ns_ = now;
}

// ---- lifetimes

std::uint64_t SwitchPort::head_deadline(const VlQueue& queue) const {
    if (queue.entries.empty()) {
        return kNever;
    }
    if (queue.stalled_until_ns != 0) {
        return queue.head_since_ns;
    }
    return std::min(add_saturated(queue.head_since_ns, limits_.hoq_life_ns),
                    add_saturated(queue.entries.front().queued_ns, packet_lifetime_ns_));
}

// VLStallCount discarded packets in a row stall the VL: for some time all packets at its head are
// discarded, so that a dead neighbour costs one lifetime and not one for each packet.
void SwitchPort::expire(unsigned vl, std::uint64_t now_ns) {
    VlQueue& queue = queues_[vl];
    if (queue.stalled_until_ns != 0 && now_ns >= queue.stalled_until_ns) {
        queue.stalled_until_ns = 0;
        queue.discarded_in_a_row = 0;
    }
    while (head_deadline(queue) <= now_ns) {
        const bool hoq = queue.stalled_until_ns != 0 ||
                         add_saturated(queue.head_since_ns, limits_.hoq_life_ns) <= now_ns;
        count_discard(hoq ? Counter::kPortSwHoqLifetimeLimitDiscards
                          : Counter::kPortSwLifetimeLimitDiscards);
        pop(vl);
        ++queue.discarded_in_a_row;
        if (hoq && queue.stalled_until_ns == 0 && limits_.vl_stall_count != 0 &&
            queue.discarded_in_a_row >= limits_.vl_stall_count) {
            queue.stalled_until_ns = add_saturated(now_ns, kStallLifetimes * limits_.hoq_life_ns);
        }
    }
}

void SwitchPort::advance(std::uint64_t now_ns) {
    ingress_faults_.advance(now_ns);
    egress_faults_.advance(now_ns);
    for (ib::VlMask left = waiting_; left != 0; left = static_cast<ib::VlMask>(left & (left - 1))) {
        expire(static_cast<unsigned>(std::countr_zero(left)), now_ns);
    }
    note_waiting();
}

std::uint64_t SwitchPort::next_deadline() const {
    std::uint64_t next = std::min(ingress_faults_.next_deadline(), egress_faults_.next_deadline());
    for (ib::VlMask left = waiting_; left != 0; left = static_cast<ib::VlMask>(left & (left - 1))) {
        next =
            std::min(next, head_deadline(queues_[static_cast<unsigned>(std::countr_zero(left))]));
    }
    return next;
}

void SwitchPort::clear_queues() {
    for (unsigned vl = 0; vl < kVls; ++vl) {
        while (!queues_[vl].entries.empty()) {
            count_discard(Counter::kPortInactiveDiscards);
            pop(vl);
        }
        queues_[vl].discarded_in_a_row = 0;
        queues_[vl].stalled_until_ns = 0;
    }
    note_waiting();
    ingress_faults_.clear();
    egress_faults_.clear();
}

std::size_t SwitchPort::queued_packets() const {
    std::size_t count = 0;
    for (const VlQueue& queue : queues_) {
        count += queue.entries.size();
    }
    return count;
}

}  // namespace pib::fabric
