// SPDX-License-Identifier: GPL-2.0-or-later
#include "ib/link/burst_sender.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ib/link/link_limits.h"
#include "ib/link/packet_checksums.h"
#include "ib/link/peer_copy_control.h"

namespace pib::link {
namespace {

// Credit blocks of one packet; `bytes` as BurstRequest::longest.
uint32_t blocks_of(size_t bytes, SendCrc crc) {
    return crc == SendCrc::kGiven ? link::credit_blocks(bytes) : packet_blocks(bytes);
}

}  // namespace

bool BurstSender::can_send(unsigned vl, size_t bytes, SendCrc crc) const {
    const size_t on_wire = bytes + (crc == SendCrc::kComputed ? kCrcBytes : 0);
    if (!training_.is_up() || bytes < ib::Lrh::kSize || on_wire > link::kMaxBody) {
        return false;
    }
    if (vl == kVl15) {
        return channel_.finds_room(kHeaderSize + on_wire);
    }
    return credits(vl) >= blocks_of(bytes, crc) &&
           channel_.finds_room(kHeaderSize + on_wire + FrameChannel::kReservedOutput);
}

// Room for several packets excludes the output that is reserved for control frames and VL15, as
// room for one packet does.
uint32_t BurstSender::limit(const BurstRequest& request) const {
    if (request.packets > 1 && bursts_ && training_.is_up() && request.vl != kVl15) {
        constexpr size_t kBeside = kHeaderSize + ib::kBurstPayload + FrameChannel::kReservedOutput;
        const uint32_t most =
            std::min({request.packets, credits(request.vl) / packet_blocks(request.longest),
                      static_cast<uint32_t>(ib::kMaxBurstPayload / request.mtu)});
        const size_t wanted = ring_bytes(kBeside + size_t{most} * request.mtu);
        const size_t room = channel_.room_for(wanted);
        const uint32_t packets =
            room >= wanted ? most
                           : static_cast<uint32_t>((room - std::min(room, kBeside)) / request.mtu);
        if (packets > 1) {
            return packets;
        }
    }
    return can_send(request.vl, request.longest, request.crc) ? 1 : 0;
}

uint32_t BurstSender::offer_limit(const BurstRequest& request) const {
    constexpr size_t kLargest = kHeaderSize + ib::kBurstPayload +
                                link::offer_bytes(link::kMaxSegments) +
                                FrameChannel::kReservedOutput;
    if (!training_.is_up() || request.vl == kVl15 || !channel_.has_room(kLargest)) {
        return 0;
    }
    const uint32_t packets =
        std::min({request.packets, credits(request.vl) / packet_blocks(request.longest),
                  static_cast<uint32_t>(kMaxOfferBytes / request.mtu), ib::kMaxBurstPackets});
    return packets > 1 ? packets : 0;
}

BurstRoom BurstSender::begin(const BurstRequest& request) {
    const uint32_t packets = request.is_offer ? offer_limit(request) : limit(request);
    if (packets == 0) {
        return {};
    }
    const bool computed = request.crc == SendCrc::kComputed;
    const size_t bytes = request.is_offer
                             ? ib::kBurstPayload + link::offer_bytes(link::kMaxSegments)
                         : packets > 1 ? ib::kBurstPayload + size_t{packets} * request.mtu
                                       : request.longest + (computed ? kCrcBytes : 0);
    pending_ = {.frame = channel_.reserve(kHeaderSize + bytes),
                .vl = request.vl,
                .crc = request.crc,
                .is_offer = request.is_offer};
    const auto body = pending_.frame.subspan(kHeaderSize);
    return {body.first(request.is_offer ? ib::kBurstPayload
                       : packets > 1    ? bytes
                                        : request.longest),
            packets};
}

void BurstSender::commit(const ib::BurstSize& size, const OfferedPayload& offered) {
    if (pending_.frame.empty()) {
        return;
    }
    if (size.packets == 1) [[likely]] {
        commit_packet(size.first);
    } else {
        commit_burst(size, offered);
    }
    pending_.frame = {};
}

void BurstSender::commit_packet(size_t bytes) {
    const bool computed = pending_.crc == SendCrc::kComputed;
    const size_t body = bytes + (computed ? kCrcBytes : 0);
    if (computed) {
        append_crcs(pending_.frame.subspan(kHeaderSize, body));
    }
    commit_frame(link::packet_header(body, pending_.crc == SendCrc::kElided), body,
                 blocks_of(bytes, pending_.crc));
}

void BurstSender::commit_burst(const ib::BurstSize& size, const OfferedPayload& offered) {
    size_t body = size.body();
    if (pending_.is_offer) {
        body = ib::kBurstPayload + link::offer_bytes(offered.segments.size());
        link::write_offer(pending_.frame.subspan(kHeaderSize + ib::kBurstPayload), offered.handle,
                          static_cast<uint32_t>(size.payload), offered.segments);
    }
    commit_frame(link::burst_header(body, pending_.is_offer ? link::kFlagOffer : 0), body,
                 size.sum(0, size.packets, packet_blocks));
}

void BurstSender::commit_frame(const std::array<uint8_t, link::kHeaderSize>& header, size_t body,
                               uint32_t blocks) {
    std::memcpy(pending_.frame.data(), header.data(), kHeaderSize);
    channel_.commit(kHeaderSize + body);
    if (pending_.vl != kVl15) {
        credits_.spend(pending_.vl, blocks);
    }
}

}  // namespace pib::link
