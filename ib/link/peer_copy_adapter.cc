// SPDX-License-Identifier: GPL-2.0-or-later
#include "ib/link/peer_copy_adapter.h"

#include <algorithm>

#include "ib/link/peer_offer.h"

namespace pib::link {

PeerCopyAdapter::PeerCopyAdapter(const Parts& parts, uint8_t* control_memory,
                                 std::span<const uint64_t> blocks)
    : parts_(parts),
      blocks_(blocks.begin(), blocks.end()),
      room_(offer_room(control_memory)),
      control_(reinterpret_cast<PeerCopyControl*>(control_memory)) {}

LinkResult PeerCopyAdapter::receive_offer(const link::Frame& frame) {
    auto offer = parse_offer(frame);
    if (!offer) {
        return std::unexpected(std::move(offer.error()));
    }
    if (!offer->segments.empty() || offer->handle != last_handle_ + 1) {
        return failure(LinkError::kMalformedFrame, "offer out of order");
    }
    last_handle_ = offer->handle;
    auto burst = offered_burst(frame, *offer, room_, parts_.credits);
    if (!burst) {
        return std::unexpected(std::move(burst.error()));
    }
    awaited_ = Awaited{.offer = *offer, .burst = *burst, .epoch = parts_.training.epoch()};
    ask();
    return {};
}

size_t PeerCopyAdapter::frame_bytes() const {
    return kHeaderSize + ib::kBurstPayload + link::offer_bytes(0);
}

bool PeerCopyAdapter::is_answered() const {
    const uint64_t answer = control_->answer.load(std::memory_order_acquire);
    return awaited_->asked && answer >> 8 == sequence_;
}

bool PeerCopyAdapter::cancel() {
    if (!is_pulling()) {
        return false;
    }
    control_->cancel.store(sequence_, std::memory_order_release);
    return parts_.channel.publish();
}

void PeerCopyAdapter::proceed() {
    if (awaited_->asked) {
        if (!is_answered()) {
            return;
        }
        awaited_->asked = false;
        answered(static_cast<PullResult>(control_->answer & 0xFF));
    }
    if (awaited_) {
        ask();
    }
}

// Whether the link is up and has not been retrained since the offer arrived.
bool PeerCopyAdapter::holds() const {
    return parts_.training.is_up() && parts_.training.epoch() == awaited_->epoch;
}

void PeerCopyAdapter::answered(PullResult result) {
    Awaited& awaited = *awaited_;
    if (result == PullResult::kRefused) {
        parts_.events.link_copy_refused();
    }
    if (result == PullResult::kCancelled) {
        awaited.bounce = false;
        return;
    }
    if (result != PullResult::kDone || !holds()) {
        parts_.delivery.drop(awaited.burst);
    } else if (awaited.bounce) {
        parts_.delivery.deliver_parts(awaited.burst);
    } else {
        awaited.payload.form = ib::Placement::Form::kPulled;
        if (parts_.events.link_burst(awaited.burst, awaited.payload) == 0) {
            awaited.bounce = true;
            return;
        }
    }
    finish();
}

void PeerCopyAdapter::ask() {
    if (!holds()) {
        parts_.delivery.drop(awaited_->burst);
        finish();
    } else if (!parts_.delivery.fits(awaited_->burst)) {
        parts_.delivery.deliver_parts(awaited_->burst);  // counts faults, reads no payload
        finish();
    } else {
        locate();
        send_pull();
    }
}

// Chooses the target of the payload: its final place if that is known, else the bounce area.
void PeerCopyAdapter::locate() {
    Awaited& awaited = *awaited_;
    std::vector<BlockSegment>& where = awaited.payload.where;
    where.clear();
    if (!awaited.bounce) {
        awaited.payload.form = ib::Placement::Form::kOffered;
        const bool placed = parts_.events.link_burst(awaited.burst, awaited.payload) != 0;
        const auto own_memory = [&](const BlockSegment& segment) {
            return segment.length != 0 && segment_fits(segment, blocks_, false);
        };
        awaited.bounce = !placed || where.size() > link::kMaxSegments ||
                         link::segment_bytes(where) != awaited.offer.bytes ||
                         !std::ranges::all_of(where, own_memory);
    }
    if (awaited.bounce) {
        where = {{.offset = 0, .block = kBounceBlock, .length = awaited.offer.bytes}};
    }
}

void PeerCopyAdapter::send_pull() {
    Awaited& awaited = *awaited_;
    const uint32_t next = sequence_ + 1 == 0 ? 1 : sequence_ + 1;
    if (parts_.channel.send(link::Pull{.handle = awaited.offer.handle,
                                       .sequence = next,
                                       .offset = 0,
                                       .length = awaited.offer.bytes,
                                       .segments = awaited.payload.where})) {
        sequence_ = next;
        awaited.asked = true;
    }
}

void PeerCopyAdapter::finish() {
    control_->finished.store(awaited_->offer.handle, std::memory_order_release);
    awaited_.reset();
}

}  // namespace pib::link
