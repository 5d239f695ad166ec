// SPDX-License-Identifier: GPL-2.0-or-later
#include "port/egress.h"

#include <algorithm>
#include <utility>

#include "ib/mgmt/link_rate.h"

namespace pib::hca {

namespace {

// Largest number of bytes of a packet besides its payload, ICRC included (IBA 7.7.8).
constexpr uint32_t kPacketOverhead = 124;

// Records each packet of the burst in `body`, which the QP `qpn` sends.
void trace_packets(PortContext& port, uint32_t qpn, std::span<const uint8_t> body,
                   const ib::BurstSize& size) {
    Trace& trace = *port.counters.trace;
    const uint64_t now_ns = port.host.now_ns();
    if (size.packets == 1) {
        trace.packet_out(now_ns, port.number, qpn, body.first(size.first), size.first);
        return;
    }
    const auto whole = body.first(size.body());
    const auto burst = ib::Burst::parse(whole.first<ib::kBurstPayload>(), whole);
    for (uint32_t i = 0; burst && i < size.packets; ++i) {
        ib::BurstHeaders room;
        const ib::PacketBytes packet = burst->packet(i, room);
        trace.packet_out(now_ns, port.number, qpn, packet.head(), packet.size());
    }
}

}  // namespace

// Finds the route of a packet: IBA 7.2.7 for the link state, 7.6.6 for SL to VL, 7.7.8 for the
// length.
Egress::Outgoing Egress::route(const TxRequest& request) const {
    const auto discard = [](ib::Counter reason) {
        return Outgoing{.route = Route::kDiscard, .reason = reason};
    };
    const Route way = view().owns_lid(request.dlid) ? Route::kLoopback : Route::kLink;
    if (request.vl15) {
        // SMPs to this node work without a link.
        return way == Route::kLoopback || (view().link_up && link_.is_up())
                   ? Outgoing{.route = way,
                              .vl = link::kVl15,
                              .sl = request.sl,
                              .dlid = request.dlid,
                              .qpn = request.qpn}
                   : discard(ib::Counter::kPortInactiveDiscards);
    }
    if (!view().active) {
        return discard(ib::Counter::kPortInactiveDiscards);
    }
    if (request.bytes + ib::kIcrcSize > view().mtu_bytes + kPacketOverhead) {
        return discard(ib::Counter::kPortNeighborMtuDiscards);
    }
    const uint8_t vl = view().sl_to_vl[request.sl & 0xf];
    if (vl >= view().data_vls) {
        return discard(ib::Counter::kPortXmitDiscards);
    }
    return {.route = way, .vl = vl, .sl = request.sl, .dlid = request.dlid, .qpn = request.qpn};
}

// The link takes several packets at once, the port's loopback takes one. With a trace an offer gets
// room for one packet, so the caller sends the payload in packets, which the trace records.
link::BurstRoom Egress::room_for(const TxRequest& request, const Outgoing& out) {
    const bool single = request.is_offer && port_.counters.trace != nullptr;
    switch (out.route) {
        case Route::kLink:
            return link_.begin({.vl = out.vl,
                                .longest = request.bytes,
                                .packets = single ? 1 : request.packets,
                                .mtu = request.mtu,
                                .is_offer = request.is_offer});
        case Route::kLoopback: {
            const auto bytes = loopback_.begin(request.vl15, request.bytes);
            return {bytes, bytes.empty() ? 0u : 1u};
        }
        default:
            return {std::span(discarded_).first(std::min<size_t>(request.bytes, discarded_.size())),
                    1};
    }
}

// Marks the packet's lane as waiting, so that port_ready() follows. A refused offer does not wait:
// the caller sends its packets with their payload instead.
void Egress::refused(const TxRequest& request, const Outgoing& out) {
    if (request.is_offer) {
        return;
    }
    if (out.route == Route::kLink && !request.vl15 && link_.has_credit(out.vl, request.bytes) &&
        !must_wait_for_others(out.vl)) {
        wants_room_ |= static_cast<ib::VlMask>(1u << out.vl);
    }
    wait_in(out.route == Route::kLoopback ? kLoopbackLane : out.vl, request.bytes);
}

link::BurstRoom Egress::begin(const TxRequest& request) {
    out_ = {};
    Outgoing out = route(request);
    if (request.is_offer &&
        (out.route != Route::kLink || view().is_slower_than_link(request.static_rate))) {
        return {};  // only the link takes offers; on a slow path an offer would be a long burst
    }
    if (!may_leave(request, out)) [[unlikely]] {
        return {};
    }
    const bool must_wait = out.route == Route::kLink && must_wait_for_others(out.vl);
    const link::BurstRoom room = must_wait ? link::BurstRoom{} : room_for(request, out);
    if (room.packets == 0) [[unlikely]] {
        refused(request, out);
        return {};
    }
    out_ = out;
    out_.bytes = room.bytes();
    return room;
}

void Egress::send(const Outgoing& out, const ib::BurstSize& size,
                  const link::OfferedPayload& offered) {
    if (out.route == Route::kNone) {
        return;
    }
    if (out.route == Route::kDiscard) {
        port_.pma_counters().add(ib::Counter::kPortXmitDiscards);
        if (out.reason != ib::Counter::kPortXmitDiscards) {
            port_.pma_counters().add(out.reason);
        }
        return;
    }
    ib::set_burst_vl(out.bytes, size.packets, out.vl);
    if (port_.counters.trace != nullptr) [[unlikely]] {
        trace_packets(port_, out.qpn, out.bytes, size);
    }
    port_.count(HcaCounter::kTxPackets, size.packets);
    port_.count(HcaCounter::kTxBytes, size.bytes());
    if (out.route == Route::kLoopback) {
        loopback_.commit(size.first);
        port_.host.wake();
        return;
    }
    port_.pma_counters().count_sent({.sl = ib::Sl(out.sl), .dlid = ib::Lid(out.dlid)}, size.words(),
                                    size.packets);
    charge(out, size);
    link_.commit(size, offered);
}

// Charges the packets to the VL that has been granted its turn, and to a path slower than the link.
void Egress::charge(const Outgoing& out, const ib::BurstSize& size) {
    if (out.vl == granted_vl_) [[unlikely]] {
        for (uint32_t i = 0; i < size.packets; ++i) {
            attributes_.arbiter().account(size.packet(i));
        }
    }
    if (out.paced_rate != 0) [[unlikely]] {
        pacer_.sent(out.dlid, size.bytes(), ib::data_mbps(out.paced_rate), port_.host.now_ns());
    }
}

// ---- static rate

// Returns whether the packet may leave now. A packet for a path slower than the link has to wait
// until the path has carried the packets before it.
bool Egress::may_leave(const TxRequest& request, Outgoing& out) {
    if (!view().is_slower_than_link(request.static_rate) || out.route != Route::kLink ||
        request.vl15) [[likely]] {
        return true;
    }
    out.paced_rate = request.static_rate;
    const uint64_t until = pacer_.wait_until(request.dlid, port_.host.now_ns());
    if (until != 0) {
        paced_until_ns_ = std::min(paced_until_ns_, until);
    }
    return until == 0;
}

// ---- arbitration

unsigned Egress::lane(const TxRequest& request) const {
    const Outgoing out = route(request);
    return out.route == Route::kLink ? out.vl : kLoopbackLane;
}

VlGrant Egress::arbitrate(ib::VlMask ready) {
    granted_vl_ = attributes_.arbiter().choose(ready);
    return {.vl = static_cast<uint8_t>(granted_vl_), .bytes = attributes_.arbiter().allowance()};
}

// While a packet of one VL waits for room on the link, packets of other VLs wait as well: otherwise
// shorter packets could take the room again and again.
bool Egress::must_wait_for_others(unsigned vl) const {
    return wants_room_ != 0 && vl < link::kVl15 && (wants_room_ >> vl & 1) == 0;
}

// ---- waiting

void Egress::wait_in(unsigned lane, uint32_t bytes) {
    Waiting& state = waiting_[lane];
    if (!state.waiting && lane != kLoopbackLane && view().active) {
        waits_.note(static_cast<ib::VlMask>(waits_.waiting() | 1u << lane), port_.host.now_ns());
    }
    state.waiting = true;
    state.bytes = bytes;
}

bool Egress::may_go_on(unsigned lane) const {
    const Waiting& state = waiting_[lane];
    if (lane == kLoopbackLane) {
        return loopback_.can_send(false, state.bytes);
    }
    const bool discards = !link_.is_up() || (lane != link::kVl15 && !view().active);
    return discards || (!must_wait_for_others(lane) && link_.can_send(lane, state.bytes));
}

// Ends the wait of a lane. Its time counts even if the port has left Active meanwhile.
void Egress::stop_waiting(unsigned lane) {
    if (lane != kLoopbackLane) {
        waits_.note(static_cast<ib::VlMask>(waits_.waiting() & ~(1u << lane)), port_.host.now_ns());
    }
    waiting_[lane].waiting = false;
    wants_room_ &= static_cast<ib::VlMask>(~(lane < link::kVl15 ? 1u << lane : 0u));
}

// If other packets of a VL have used the credits of its waiting packet, the waiting packet needs
// credits again and no longer delays other VLs.
void Egress::wait_for_credit_alone() {
    for (unsigned vl = 0; vl < link::kVl15; ++vl) {
        if ((wants_room_ >> vl & 1) != 0 && !link_.has_credit(vl, waiting_[vl].bytes)) {
            wants_room_ &= static_cast<ib::VlMask>(~(1u << vl));
        }
    }
}

bool Egress::resume() {
    // Lanes that delay others resume first.
    const unsigned rounds = wants_room_ != 0 ? 2 : 1;
    if (rounds != 1) [[unlikely]] {
        wait_for_credit_alone();
    }
    bool any = false;
    for (unsigned i = 0; i < rounds; ++i) {
        for (unsigned lane = 0; lane < waiting_.size(); ++lane) {
            if (waiting_[lane].waiting && may_go_on(lane)) {
                stop_waiting(lane);
                any = true;
            }
        }
    }
    return any;
}

bool Egress::timer(uint64_t now_ns) {
    const bool due = paced_until_ns_ <= now_ns;
    paced_until_ns_ = due ? kNever : paced_until_ns_;
    return due;
}

void Egress::link_gone() {
    // A completion may close the link between begin() and commit().
    if (out_.route == Route::kLink) {
        out_ = {};
    }
}

void Egress::reset() {
    loopback_.clear();
    waiting_ = {};
    wants_room_ = 0;
    pacer_.clear();
    paced_until_ns_ = kNever;
    out_ = {};
}

// ---- the port's own packets

bool Egress::send_own(const TxRequest& request, std::span<const uint8_t> packet, bool loopback) {
    Outgoing out =
        loopback ? Outgoing{.route = Route::kLoopback, .vl = link::kVl15} : route(request);
    const link::BurstRoom room = room_for(request, out);
    if (room.packets == 0) {
        return false;
    }
    out.bytes = room.bytes();
    std::ranges::copy(packet, out.bytes.begin());
    send(out, ib::BurstSize::of(packet.size()), {});
    return true;
}

}  // namespace pib::hca
