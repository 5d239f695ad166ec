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
                   ? Outgoing{.route = way, .vl = link::kVl15}
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
    return {.route = way, .vl = vl};
}

std::span<uint8_t> HcaPort::begin(const TxRequest& request, const Outgoing& out) {
    switch (out.route) {
        case Route::kLink:
            return link_.begin_packet(out.vl, request.bytes);
        case Route::kLoopback:
            return loopback_.begin_packet(request.vl15, request.bytes);
        default:
            return std::span(discarded_).first(std::min<size_t>(request.bytes, discarded_.size()));
    }
}

std::span<uint8_t> HcaPort::begin_packet(const TxRequest& request) {
    out_ = route(request);
    if (!may_leave(request, out_)) [[unlikely]] {
        out_ = {};
        return {};
    }
    if (out_.route == Route::kLink && must_wait_for_others(out_.vl)) [[unlikely]] {
        wait_in(out_.vl, request.bytes);
        out_ = {};
        return {};
    }
    out_.packet = begin(request, out_);
    if (out_.packet.empty()) {
        if (out_.route == Route::kLink && !request.vl15 &&
            link_.has_credit(out_.vl, request.bytes)) {
            wants_room_ |= static_cast<ib::VlMask>(1u << out_.vl);
        }
        wait_in(out_.route == Route::kLoopback ? kLoopbackLane : out_.vl, request.bytes);
        out_ = {};
    }
    return out_.packet;
}

void HcaPort::commit_packet() {
    commit(std::exchange(out_, {}));
}

void HcaPort::commit(const Outgoing& out) {
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
    if (out.run.packets != 0) {
        return commit_run(out);
    }
    out.packet[0] = static_cast<uint8_t>(out.vl << 4 | (out.packet[0] & 0xf));
    if (Trace* trace = parts_.counters.trace; trace != nullptr) [[unlikely]] {
        trace->packet_out(parts_.host.now_ns(), number_, out.packet);
    }
    parts_.counters.add(PIB_HCA_COUNTER_TX_PACKETS, number_);
    parts_.counters.add(PIB_HCA_COUNTER_TX_BYTES, number_, out.packet.size());
    if (out.route == Route::kLoopback) {
        loopback_.commit_packet();
        parts_.host.wake();
        return;
    }
    const auto lrh = ib::Lrh::parse(std::span<const uint8_t>(out.packet).first<ib::Lrh::kSize>());
    pma().count_sent(lrh);
    charge(out, lrh.dlid.value());
    link_.commit_packet();
}

// To the VL that has its turn and to the path that is slower than the link, if they are any.
void HcaPort::charge(const Outgoing& out, uint16_t dlid) {
    const bool is_run = out.run.packets != 0;
    if (out.vl == granted_vl_) [[unlikely]] {
        for (uint32_t i = 0; i < std::max(out.run.packets, 1u); ++i) {
            arbiter_.account(is_run ? out.run.packet(i) : out.packet.size());
        }
    }
    if (out.paced_rate != 0) [[unlikely]] {
        pacer_.sent(dlid, is_run ? out.run.bytes() : out.packet.size(),
                    ib::data_mbps(out.paced_rate), parts_.host.now_ns());
    }
}

// ---- runs

// Over the link alone; and a trace is one of packets.
uint32_t HcaPort::run_limit(const TxRequest& request, uint32_t mtu) {
    const Outgoing out = route(request);
    return out.route == Route::kLink && parts_.counters.trace == nullptr &&
                   !must_wait_for_others(out.vl)
               ? link_.run_limit(out.vl, request.bytes, mtu)
               : 0;
}

// Many packets in one piece, for which begin(vl) makes room: on the link or not at all.
template <typename Begin>
std::span<uint8_t> HcaPort::begin_on_link(const TxRequest& request, const ib::RunSize& size,
                                          Begin&& begin) {
    Outgoing out = route(request);
    if (out.route == Route::kLink && may_leave(request, out)) {
        out.packet = begin(out.vl);
        out.run = size;
    }
    out_ = out.packet.empty() ? Outgoing{} : out;
    return out_.packet;
}

std::span<uint8_t> HcaPort::begin_run(const TxRequest& request, const ib::RunSize& size) {
    return begin_on_link(request, size, [&](unsigned vl) { return link_.begin_run(vl, size); });
}

uint32_t HcaPort::reference_limit(const TxRequest& request, uint32_t mtu) {
    const Outgoing out = route(request);
    const bool paced = is_slower_than_link(request);  // a reference would be a long burst
    return out.route == Route::kLink && !paced && parts_.counters.trace == nullptr &&
                   !must_wait_for_others(out.vl)
               ? link_.reference_limit(out.vl, request.bytes, mtu)
               : 0;
}

std::span<uint8_t> HcaPort::begin_reference(const TxRequest& request, const ib::RunSize& size,
                                            uint64_t handle,
                                            std::span<const link::RamPiece> pieces) {
    return begin_on_link(request, size, [&](unsigned vl) {
        return link_.begin_reference(vl, size, handle, pieces);
    });
}

void HcaPort::commit_run(const Outgoing& out) {
    ib::set_run_vl(out.packet, out.vl);
    const auto lrh = ib::Lrh::parse(
        std::span<const uint8_t>(out.packet).subspan<ib::kRunFirst, ib::Lrh::kSize>());
    parts_.counters.add(PIB_HCA_COUNTER_TX_PACKETS, number_, out.run.packets);
    parts_.counters.add(PIB_HCA_COUNTER_TX_BYTES, number_, out.run.bytes());
    pma().count_sent(lrh, out.run.words(), out.run.packets);
    charge(out, lrh.dlid.value());
    link_.commit_packet();
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
    out.packet = begin(mad.request, out);
    if (out.packet.empty()) {
        return false;
    }
    std::copy_n(mad.bytes.begin(), out.packet.size(), out.packet.begin());
    commit(out);
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
