// SPDX-License-Identifier: GPL-2.0-or-later
#include "ib/link/peer_copy_switch.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ib/link/peer_offer.h"

namespace pib::link {

std::expected<std::unique_ptr<PeerCopySwitch>, LinkFailure> PeerCopySwitch::create(
    const link::Frame& frame, const Parts& parts) {
    auto memory = link::Memory::parse(frame.body);
    if (!memory) {
        return failure(LinkError::kMalformedFrame,
                       std::string("MEMORY: ") + to_string(memory.error()));
    }
    const auto room = parts.events.link_memory(*memory);
    if (!room) {
        return failure(LinkError::kMalformedFrame, "MEMORY: " + room.error());
    }
    if (room->size() < kOfferRoom) {
        return nullptr;
    }
    return std::make_unique<PeerCopySwitch>(parts, std::move(memory->blocks), *room);
}

PeerCopySwitch::PeerCopySwitch(const Parts& parts, std::vector<uint64_t> blocks,
                               std::span<uint8_t> room)
    : parts_(parts), blocks_(std::move(blocks)), room_(room) {}

LinkResult PeerCopySwitch::receive_offer(const link::Frame& frame) {
    const auto offer = parse_offer(frame);
    if (!offer) {
        return std::unexpected(offer.error());
    }
    const bool segments_fit = std::ranges::all_of(
        offer->segments,
        [&](const BlockSegment& segment) { return segment_fits(segment, blocks_, false); });
    if (offer->segments.empty() || !segments_fit) {
        return failure(LinkError::kMalformedFrame, "offer outside of the shared memory");
    }
    auto burst = offered_burst(frame, *offer, room_, parts_.credits);
    if (!burst) {
        return std::unexpected(std::move(burst.error()));
    }
    deliver(*burst, *offer);
    return {};
}

void PeerCopySwitch::deliver(ib::Burst& burst, const link::Offer& offer) {
    if (!parts_.training.is_up() || !parts_.delivery.fits(burst)) {
        parts_.delivery.deliver_parts(burst);  // counts faults, reads no payload
        return;
    }
    ib::Placement offered{.form = ib::Placement::Form::kOffered, .offer = &offer};
    if (parts_.events.link_burst(burst, offered) != 0) {
        return;
    }
    const auto payload = room_.subspan(ib::kBurstPayload, offer.bytes);
    copied_ += payload.size();
    if (parts_.events.link_copy_offer(offer, payload)) {
        parts_.delivery.deliver_parts(burst);
    } else {
        parts_.delivery.drop(burst);
    }
}

LinkResult PeerCopySwitch::receive_pull(const link::Frame& frame) {
    const auto pull = link::Pull::parse(frame.body);
    if (!pull) {
        return failure(LinkError::kMalformedFrame, std::string("PULL: ") + to_string(pull.error()));
    }
    const bool fit = std::ranges::all_of(pull->segments, [this](const BlockSegment& segment) {
        return segment_fits(segment, blocks_, true);
    });
    if (!fit) {
        return failure(LinkError::kMalformedFrame, "PULL outside of the shared memory");
    }
    if (const auto taken = parts_.events.link_pull(*pull); !taken) {
        return failure(LinkError::kUnexpectedFrame, "PULL: " + taken.error());
    }
    return {};
}

}  // namespace pib::link
