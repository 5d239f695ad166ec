// SPDX-License-Identifier: GPL-2.0-or-later
// Packets on their way out: where they go, what they wait for, and the MADs that the port itself
// sends.
#include <algorithm>
#include <cstring>
#include <utility>

#include "ib/mgmt/link_rate.h"
#include "port/hca_port.h"

namespace pib::hca {

namespace {

constexpr size_t kMaxQueuedMads = 64;
// What a packet may be longer than its MTU, with the ICRC (IBA 7.7.8).
constexpr uint32_t kPacketOverhead = 124;

}  // namespace

// IBA 7.2.7 for what the link state lets out, 7.6.6 for SL to VL, 7.7.8 for the length.
HcaPort::Outgoing HcaPort::route(const TxRequest& request) const {
    const auto discard = [](ib::Counter reason) {
        return Outgoing{.route = Route::kDiscard, .reason = reason};
    };
    const Route way = owns_lid(request.dlid) ? Route::kLoopback : Route::kLink;
    if (request.vl15) {
        // The node's own management works without a link.
        return way == Route::kLoopback || (view_.link_up && link_.is_up())
                   ? Outgoing{.route = way,
                              .vl = link::kVl15,
                              .sl = request.sl,
                              .dlid = request.dlid}
                   : discard(ib::Counter::kPortInactiveDiscards);
    }
    if (!view_.active) {
        return discard(ib::Counter::kPortInactiveDiscards);
    }
    if (request.bytes + ib::kIcrcSize > view_.mtu_bytes + kPacketOverhead) {
        return discard(ib::Counter::kPortNeighborMtuDiscards);
    }
    const uint8_t vl = view_.sl_to_vl[request.sl & 0xf];
    if (vl >= view_.data_vls) {
        return discard(ib::Counter::kPortXmitDiscards);
    }
    return {.route = way, .vl = vl, .sl = request.sl, .dlid = request.dlid};
}

// Several packets go together over the link alone; and a trace is one of packets.
link::BurstRoom HcaPort::begin(const TxRequest& request, const Outgoing& out) {
    switch (out.route) {
        case Route::kLink:
            return link_.begin({.vl = out.vl,
                                .longest = request.bytes,
                                .packets = parts_.counters.trace == nullptr ? request.packets : 1,
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

// What is refused waits, but for an offer, which can go with its payload.
void HcaPort::refused(const TxRequest& request, const Outgoing& out) {
    if (request.is_offer) {
        return;
    }
    if (out.route == Route::kLink && !request.vl15 && link_.has_credit(out.vl, request.bytes) &&
        !must_wait_for_others(out.vl)) {
        wants_room_ |= static_cast<ib::VlMask>(1u << out.vl);
    }
    wait_in(out.route == Route::kLoopback ? kLoopbackLane : out.vl, request.bytes);
}

link::BurstRoom HcaPort::begin(const TxRequest& request) {
    out_ = {};
    Outgoing out = route(request);
    if (request.is_offer && (out.route != Route::kLink || is_slower_than_link(request))) {
        return {};  // an offer would be a long burst on a slow path
    }
    if (!may_leave(request, out)) [[unlikely]] {
        return {};
    }
    const bool must_wait = out.route == Route::kLink && must_wait_for_others(out.vl);
    const link::BurstRoom room = must_wait ? link::BurstRoom{} : begin(request, out);
    if (room.packets == 0) [[unlikely]] {
        refused(request, out);
        return {};
    }
    out_ = out;
    out_.bytes = room.bytes();
    return room;
}

void HcaPort::commit(const ib::BurstSize& size, const link::OfferedPayload& offered) {
    commit(std::exchange(out_, {}), size, offered);
}

void HcaPort::commit(const Outgoing& out, const ib::BurstSize& size,
                     const link::OfferedPayload& offered) {
    if (out.route == Route::kNone) {
        return;
    }
    if (out.route == Route::kDiscard) {
        pma().add(ib::Counter::kPortXmitDiscards);
        if (out.reason != ib::Counter::kPortXmitDiscards) {
            pma().add(out.reason);
        }
        return;
    }
    ib::set_burst_vl(out.bytes, size.packets, out.vl);
    if (Trace* trace = parts_.counters.trace; trace != nullptr) [[unlikely]] {
        trace->packet_out(parts_.host.now_ns(), number_, out.bytes.first(size.first));
    }
    parts_.counters.add(PIB_HCA_COUNTER_TX_PACKETS, number_, size.packets);
    parts_.counters.add(PIB_HCA_COUNTER_TX_BYTES, number_, size.bytes());
    if (out.route == Route::kLoopback) {
        loopback_.commit(size.first);
        parts_.host.wake();
        return;
    }
    pma().count_sent({.sl = ib::Sl(out.sl), .dlid = ib::Lid(out.dlid)}, size.words(), size.packets);
    charge(out, size);
    link_.commit(size, offered);
}

// To the VL that has its turn and to the path that is slower than the link, if they are any.
void HcaPort::charge(const Outgoing& out, const ib::BurstSize& size) {
    if (out.vl == granted_vl_) [[unlikely]] {
        for (uint32_t i = 0; i < size.packets; ++i) {
            arbiter_.account(size.packet(i));
        }
    }
    if (out.paced_rate != 0) [[unlikely]] {
        pacer_.sent(out.dlid, size.bytes(), ib::data_mbps(out.paced_rate), parts_.host.now_ns());
    }
}

// ---- static rate

// Marks what is paced, and refuses it as long as its path has not taken what went before.
bool HcaPort::may_leave(const TxRequest& request, Outgoing& out) {
    if (!is_slower_than_link(request) || out.route != Route::kLink || request.vl15) [[likely]] {
        return true;
    }
    out.paced_rate = request.static_rate;
    const uint64_t until = pacer_.wait_until(request.dlid, parts_.host.now_ns());
    if (until != 0) {
        paced_until_ns_ = std::min(paced_until_ns_, until);
    }
    return until == 0;
}

// ---- arbitration

unsigned HcaPort::lane(const TxRequest& request) const {
    const Outgoing out = route(request);
    return out.route == Route::kLink ? out.vl : kFreeLane;
}

VlGrant HcaPort::arbitrate(ib::VlMask ready) {
    granted_vl_ = arbiter_.choose(ready).value_or(0);
    return {.vl = static_cast<uint8_t>(granted_vl_), .bytes = arbiter_.allowance()};
}

// A link without room for one VL's packet takes no shorter one of another before: that would have
// all the room there ever is.
bool HcaPort::must_wait_for_others(unsigned vl) const {
    return wants_room_ != 0 && vl < link::kVl15 && (wants_room_ >> vl & 1) == 0;
}

// ---- waiting

void HcaPort::wait_in(unsigned lane, uint32_t bytes) {
    Waiting& state = waiting_[lane];
    if (!state.waiting) {
        state.since_ns = parts_.host.now_ns();
    }
    state.waiting = true;
    state.bytes = bytes;
}

bool HcaPort::may_go_on(unsigned lane) const {
    const Waiting& state = waiting_[lane];
    if (lane == kLoopbackLane) {
        return loopback_.can_send(false, state.bytes);
    }
    const bool discards = !link_.is_up() || (lane != link::kVl15 && !view_.active);
    return discards || (!must_wait_for_others(lane) && link_.can_send(lane, state.bytes));
}

// PortXmitWait: ticks in which there was data to send and no credit for it (IBA 16.1.3.5).
void HcaPort::stop_waiting(unsigned lane) {
    Waiting& state = waiting_[lane];
    if (lane != kLoopbackLane && view_.active) {
        const uint64_t waited_ns = parts_.host.now_ns() - state.since_ns;
        pma().add(ib::Counter::kPortXmitWait, waited_ns / ib::kPmaTickNs);
        pma().add(ib::counter_of(ib::Counter::kPortVlXmitWait, lane), waited_ns / ib::kPmaTickNs);
    }
    state.waiting = false;
    wants_room_ &= static_cast<ib::VlMask>(~(lane < link::kVl15 ? 1u << lane : 0u));
}

bool HcaPort::stop_waiting() {
    bool any = false;
    for (unsigned lane = 0; lane < waiting_.size(); ++lane) {
        if (waiting_[lane].waiting && may_go_on(lane)) {
            stop_waiting(lane);
            any = true;
        }
    }
    return any;
}

// What has lost its credit to others of its VL meanwhile waits for that, and no other VL for it.
void HcaPort::wait_for_credit_alone() {
    for (unsigned vl = 0; vl < link::kVl15; ++vl) {
        if ((wants_room_ >> vl & 1) != 0 && !link_.has_credit(vl, waiting_[vl].bytes)) {
            wants_room_ &= static_cast<ib::VlMask>(~(1u << vl));
        }
    }
}

void HcaPort::resume() {
    while (!queued_mads_.empty() && try_send(queued_mads_.front())) {
        queued_mads_.pop_front();
    }
    // Those for which others had to wait first.
    const bool twice = wants_room_ != 0;
    if (twice) [[unlikely]] {
        wait_for_credit_alone();
    }
    bool ready = stop_waiting();
    ready |= twice && stop_waiting();
    if (ready && client_ != nullptr) {
        client_->port_ready(number_);
    }
}

// ---- the port's own MADs

bool HcaPort::try_send(const OwnMad& mad) {
    Outgoing out =
        mad.loopback ? Outgoing{.route = Route::kLoopback, .vl = link::kVl15} : route(mad.request);
    const link::BurstRoom room = begin(mad.request, out);
    if (room.packets == 0) {
        return false;
    }
    out.bytes = room.bytes();
    std::copy_n(mad.bytes.begin(), mad.request.bytes, out.bytes.begin());
    commit(out, ib::BurstSize::of(mad.request.bytes), {});
    return true;
}

// `headers` names the ends; what is the same for every MAD is filled in here.
void HcaPort::send_mad(const ib::PacketHeaders& headers, const ib::Mad& mad, bool loopback) {
    ib::PacketHeaders full = headers;
    full.bth.opcode = ib::opcode::kUdSendOnly;
    full.bth.psn = mad_psn_;
    ++mad_psn_;
    if (!full.bth.pkey.is_valid()) {
        full.bth.pkey = ib::kDefaultPKey;  // QP0: nobody looks at it (C9-41)
    }
    OwnMad own;
    auto builder = ib::PacketBuilder::begin(own.bytes, full, mad.bytes.size(), ib::Crcs::kElided);
    if (!builder) {
        return;
    }
    std::ranges::copy(mad.bytes, builder->payload().begin());
    const bool vl15 = full.lrh.vl == ib::kVl15;
    own.request = {.dlid = full.lrh.dlid.value(),
                   .sl = full.lrh.sl.value(),
                   .vl15 = vl15,
                   .bytes = static_cast<uint32_t>(builder->finish().size())};
    own.loopback = loopback;
    if (queued_mads_.empty() && try_send(own)) {
        return;
    }
    if (queued_mads_.size() < kMaxQueuedMads) {
        queued_mads_.push_back(own);
    } else {
        mad_dropped(vl15);
    }
}

}  // namespace pib::hca
