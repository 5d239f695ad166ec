// SPDX-License-Identifier: GPL-2.0-or-later
#include "ib/link/peer_copy_switch.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ib/link/peer_offer.h"

namespace pib::link {

std::expected<std::unique_ptr<PeerCopySwitch>, LinkFailure> PeerCopySwitch::create(
    const ib::link::Frame& frame, const Link& link) {
    auto memory = ib::link::Memory::parse(frame.body);
    if (!memory) {
        return failure(LinkError::kMalformedFrame,
                       std::string("MEMORY: ") + to_string(memory.error()));
    }
    const auto room = link.events.link_memory(*memory);
    if (!room) {
        return failure(LinkError::kMalformedFrame, "MEMORY: " + room.error());
    }
    if (room->size() < kReferenceRoom) {
        return nullptr;
    }
    return std::make_unique<PeerCopySwitch>(link, std::move(memory->blocks), *room);
}

PeerCopySwitch::PeerCopySwitch(const Link& link, std::vector<std::uint64_t> blocks,
                               std::span<std::uint8_t> room)
    : link_(link), blocks_(std::move(blocks)), room_(room) {}

LinkResult PeerCopySwitch::receive_offer(const ib::link::Frame& frame) {
    const auto reference = offered_reference(frame);
    if (!reference) {
        return std::unexpected(reference.error());
    }
    const bool pieces_fit = std::ranges::all_of(reference->pieces, [&](const RamPiece& piece) {
        return piece_fits(piece, blocks_, false);
    });
    if (reference->pieces.empty() || !pieces_fit) {
        return failure(LinkError::kMalformedFrame, "reference to no memory");
    }
    auto burst = offered_burst(frame, *reference, room_, link_.credits);
    if (!burst) {
        return std::unexpected(std::move(burst.error()));
    }
    deliver(*burst, *reference);
    return {};
}

void PeerCopySwitch::deliver(ib::Burst& burst, const ib::link::Reference& reference) {
    if (!link_.training.is_up() || !link_.delivery.fits(burst)) {
        link_.delivery.deliver_parts(burst);  // counts faults, reads no payload
        return;
    }
    ib::Placement offered{.form = ib::Placement::Form::kOffered, .offer = &reference};
    if (link_.events.link_burst(burst, offered) != 0) {
        return;
    }
    const auto payload = room_.subspan(ib::kBurstPayload, reference.bytes);
    copied_ += payload.size();
    if (link_.events.link_dereference(reference, payload)) {
        link_.delivery.deliver_parts(burst);
    } else {
        link_.delivery.drop(burst);
    }
}

LinkResult PeerCopySwitch::receive_pull(const ib::link::Frame& frame) {
    const auto pull = ib::link::Pull::parse(frame.body);
    if (!pull) {
        return failure(LinkError::kMalformedFrame, std::string("PULL: ") + to_string(pull.error()));
    }
    const bool fit = std::ranges::all_of(
        pull->pieces, [this](const RamPiece& piece) { return piece_fits(piece, blocks_, true); });
    if (!fit) {
        return failure(LinkError::kMalformedFrame, "PULL to no memory");
    }
    if (const auto taken = link_.events.link_pull(*pull); !taken) {
        return failure(LinkError::kUnexpectedFrame, "PULL: " + taken.error());
    }
    return {};
}

}  // namespace pib::link
