// SPDX-License-Identifier: GPL-2.0-or-later
#include "switch/switch_port_queues.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "ib/link/packet_checksums.h"
#include "ib/wire/headers.h"

namespace pib::fabric {
namespace {

using ib::Counter;

constexpr uint64_t kNever = UINT64_MAX;
constexpr size_t kCrcBytes = ib::kIcrcSize + ib::kVcrcSize;
// A stalled VL discards packets for this many head-of-queue lifetimes (IBA 18.2.5.4).
constexpr uint64_t kStallLifetimes = 8;

uint64_t add_saturated(uint64_t a, uint64_t b) {
    return b > kNever - a ? kNever : a + b;
}

}  // namespace

void count_discard(ib::PortCounters& counters, Counter detail, uint32_t packets) {
    counters.add(Counter::kPortXmitDiscards, packets);
    counters.add(detail, packets);
}

bool SwitchPortQueues::send(const Transit& packets, unsigned vl) {
    return size(vl) == 0 && transmit(packets, vl, std::nullopt);
}

// The link may have gone down while the fault stage delayed the packet.
void SwitchPortQueues::deliver(Transit& packet, unsigned vl, const Damage& damage) {
    if (port_.limits.state == ib::PortState::kDown) {
        count_discard(port_.counters, Counter::kPortInactiveDiscards);
    } else if (size(vl) != 0 || !transmit(packet, vl, damage)) {
        enqueue(packet, vl, damage);
    }
}

void SwitchPortQueues::enqueue(Transit& packet, unsigned vl, const Damage& damage) {
    if (vl == link::kVl15 && size(vl) >= kMaxVl15Packets) {
        port_.counters.add(Counter::kVl15Dropped);
        return;
    }
    push(packet, vl, damage);
}

// LRH:VL is the only field that a switch changes (IBA 7.8.1); the ICRC does not cover it.
bool SwitchPortQueues::transmit(const Transit& packets, unsigned vl, const Damage& damage) {
    if (is_stalled(vl)) {
        return false;
    }
    const ib::BurstSize& size = packets.size();
    const size_t crcs = damage ? kCrcBytes : 0;
    const auto room = port_.cable.neighbour()->begin(
        {.vl = vl,
         .longest = size.longest() + crcs,
         .packets = size.packets,
         .mtu = size.mtu,
         .crc = damage ? link::SendCrc::kGiven : link::SendCrc::kElided,
         .is_offer = packets.offer() != nullptr});
    if (room.packets < size.packets) {
        return false;
    }
    if (packets.offer() != nullptr) {
        std::ranges::copy(packets.bytes().head().first(ib::kBurstPayload), room.bytes().begin());
    } else {
        packets.bytes().copy_to(room.bytes());
    }
    ib::set_burst_vl(room.bytes(), size.packets, static_cast<uint8_t>(vl));
    if (damage) {
        link::append_crcs(room.bytes());
        room.bytes()[*damage / 8 % room.bytes().size()] ^= static_cast<uint8_t>(1U << *damage % 8);
    }
    port_.cable.neighbour()->commit(damage ? ib::BurstSize::of(room.bytes().size()) : size,
                                    packets.offer());
    port_.counters.count_sent(packets.lrh(), size.words(), size.packets);
    data_by_vl_.sent.add(vl, size.words());
    if (queues_) {
        queues_.make()[vl].discarded_in_a_row = 0;
    }
    return true;
}

void SwitchPortQueues::push(Transit& packet, unsigned vl, const Damage& damage) {
    VlQueue& queue = queues_.make()[vl];
    const uint64_t now = port_.host.now_ns();
    if (queue.entries.empty()) {
        queue.head_since_ns = now;
    }
    queue.entries.push({packet.hold(), now, damage});
    if (vl != link::kVl15) {
        waiting_ = static_cast<ib::VlMask>(waiting_ | 1U << vl);
    }
    xmit_wait_.note(waiting_, port_.host.now_ns());
}

void SwitchPortQueues::pop(unsigned vl) {
    VlQueue& queue = queues_.make()[vl];
    queue.entries.pop();
    queue.head_since_ns = port_.host.now_ns();
    if (queue.entries.empty()) {
        waiting_ = static_cast<ib::VlMask>(waiting_ & ~(1U << vl));
    }
}

// ---- sending of waiting packets

ib::VlMask SwitchPortQueues::sendable() const {
    ib::VlMask ready = 0;
    for (ib::VlMask left = waiting_; left != 0; left = static_cast<ib::VlMask>(left & (left - 1))) {
        const auto vl = static_cast<unsigned>(std::countr_zero(left));
        if (is_stalled(vl)) {
            continue;
        }
        const Entry& head = (*queues_)[vl].entries.front();
        const auto crc = head.damage ? link::SendCrc::kGiven : link::SendCrc::kElided;
        const size_t bytes = head.packet.bytes().size() + (head.damage ? kCrcBytes : 0);
        if (port_.cable.neighbour()->can_send(vl, bytes, crc)) {
            ready = static_cast<ib::VlMask>(ready | 1U << vl);
        }
    }
    return ready;
}

void SwitchPortQueues::drain_vl15() {
    const auto& entries = (*queues_)[link::kVl15].entries;
    while (!entries.empty() && transmit(Transit(port_.pool, entries.front().packet), link::kVl15,
                                        entries.front().damage)) {
        pop(link::kVl15);
    }
}

void SwitchPortQueues::drain_data() {
    while (const ib::VlMask ready = sendable()) {
        const unsigned vl = arbiter_.choose(ready);
        const Entry& head = (*queues_)[vl].entries.front();
        const size_t bytes = head.packet.bytes().size();
        if (!transmit(Transit(port_.pool, head.packet), vl, head.damage)) {
            break;
        }
        arbiter_.account(bytes);
        pop(vl);
    }
}

void SwitchPortQueues::pump() {
    drain_vl15();
    drain_data();
    xmit_wait_.note(waiting_, port_.host.now_ns());
}

// ---- lifetimes

bool SwitchPortQueues::is_stalled(unsigned vl) const {
    const uint64_t until = queues_ ? (*queues_)[vl].stalled_until_ns : 0;
    return until != 0 && port_.host.now_ns() < until;
}

uint64_t SwitchPortQueues::head_deadline(const VlQueue& queue) const {
    if (queue.entries.empty()) {
        return kNever;
    }
    if (queue.stalled_until_ns != 0) {
        return queue.head_since_ns;
    }
    return std::min(add_saturated(queue.head_since_ns, port_.limits.hoq_life_ns),
                    add_saturated(queue.entries.front().queued_ns, packet_lifetime_ns_));
}

// VLStallCount discarded packets in a row stall the VL: for kStallLifetimes, expire() discards all
// its packets at once, even if they have room now. Returns whether a stall has ended and packets
// still wait.
bool SwitchPortQueues::expire(unsigned vl, uint64_t now_ns) {
    VlQueue& queue = queues_.make()[vl];
    const bool stall_ended = queue.stalled_until_ns != 0 && now_ns >= queue.stalled_until_ns;
    if (stall_ended) {
        queue.stalled_until_ns = 0;
        queue.discarded_in_a_row = 0;
    }
    while (head_deadline(queue) <= now_ns) {
        const bool hoq = queue.stalled_until_ns != 0 ||
                         add_saturated(queue.head_since_ns, port_.limits.hoq_life_ns) <= now_ns;
        count_discard(port_.counters, hoq ? Counter::kPortSwHoqLifetimeLimitDiscards
                                          : Counter::kPortSwLifetimeLimitDiscards);
        pop(vl);
        ++queue.discarded_in_a_row;
        if (hoq && queue.stalled_until_ns == 0 && port_.limits.vl_stall_count != 0 &&
            queue.discarded_in_a_row >= port_.limits.vl_stall_count) {
            queue.stalled_until_ns =
                add_saturated(now_ns, kStallLifetimes * port_.limits.hoq_life_ns);
        }
    }
    return stall_ended && !queue.entries.empty();
}

void SwitchPortQueues::advance(uint64_t now_ns) {
    bool can_send = false;
    for (ib::VlMask left = waiting_; left != 0; left = static_cast<ib::VlMask>(left & (left - 1))) {
        can_send = expire(static_cast<unsigned>(std::countr_zero(left)), now_ns) || can_send;
    }
    if (can_send && port_.cable.attached()) {
        drain_data();
    }
    xmit_wait_.note(waiting_, port_.host.now_ns());
}

uint64_t SwitchPortQueues::next_deadline() const {
    uint64_t next = kNever;
    for (ib::VlMask left = waiting_; left != 0; left = static_cast<ib::VlMask>(left & (left - 1))) {
        next = std::min(next,
                        head_deadline((*queues_)[static_cast<unsigned>(std::countr_zero(left))]));
    }
    return next;
}

void SwitchPortQueues::clear() {
    for (unsigned vl = 0; queues_ && vl < kVls; ++vl) {
        VlQueue& queue = queues_.make()[vl];
        while (!queue.entries.empty()) {
            count_discard(port_.counters, Counter::kPortInactiveDiscards);
            pop(vl);
        }
        queue.discarded_in_a_row = 0;
        queue.stalled_until_ns = 0;
    }
    xmit_wait_.note(waiting_, port_.host.now_ns());
}

void SwitchPortQueues::count_wait() {
    xmit_wait_.note(waiting_, port_.host.now_ns());
}

size_t SwitchPortQueues::size() const {
    size_t count = 0;
    for (const VlQueue& queue : *queues_) {
        count += queue.entries.size();
    }
    return count;
}

}  // namespace pib::fabric
