// SPDX-License-Identifier: GPL-2.0-or-later
// Peer copy: the payload of an offered burst stays in the memory of its sender until the receiver
// says to where it is pulled (docs/fabric-protocol.md, "One copy").
#include <algorithm>
#include <cstring>

#include "ib/link/link_endpoint.h"

namespace pib::link {

using ib::link::Frame;
using ib::link::kHeaderSize;

std::expected<std::span<std::uint8_t>, std::string> LinkEvents::link_memory(
    const ib::link::Memory&) {
    return std::unexpected("this side takes no memory");
}

std::expected<void, std::string> LinkEvents::link_pull(const ib::link::Pull&) {
    return std::unexpected("this side copies nothing");
}

// ---- handing memory over

void LinkEndpoint::share_memory(std::uint8_t* control_memory,
                                std::span<const std::uint64_t> blocks) {
    if (!connecting_ || !one_copy_agreed_ || memory_passed_ || phase_ != Phase::kOpen) {
        return;
    }
    scratch_.clear();
    append(scratch_, ib::link::Memory{{blocks.begin(), blocks.end()}});
    const auto room = output_.reserve(scratch_.size());
    if (room.empty()) {
        return;
    }
    std::memcpy(room.data(), scratch_.data(), scratch_.size());
    output_.commit(scratch_.size());
    memory_passed_ = true;
    one_copy_ = std::make_unique<OneCopy>();
    one_copy_->blocks.assign(blocks.begin(), blocks.end());
    one_copy_->room = reference_room(control_memory);
    one_copy_->control = reinterpret_cast<OneCopyControl*>(control_memory);
}

bool LinkEndpoint::shares_memory() const {
    return one_copy_ && (one_copy_->control == nullptr ||
                         one_copy_->control->mapped.load(std::memory_order_acquire) == kMapped);
}

LinkEndpoint::Result LinkEndpoint::on_memory(const Frame& frame) {
    if (!one_copy_agreed_ || memory_passed_) {
        return fail(LinkError::kUnexpectedFrame,
                    memory_passed_ ? "a second MEMORY" : "MEMORY not agreed on");
    }
    memory_passed_ = true;
    auto memory = ib::link::Memory::parse(frame.body);
    if (!memory) {
        return fail(LinkError::kMalformedFrame,
                    std::string("MEMORY: ") + to_string(memory.error()));
    }
    const auto room = events_.link_memory(*memory);
    if (!room) {
        return fail(LinkError::kMalformedFrame, "MEMORY: " + room.error());
    }
    if (room->size() >= kReferenceRoom) {
        one_copy_ = std::make_unique<OneCopy>();
        one_copy_->blocks = std::move(memory->blocks);
        one_copy_->room = *room;
    }
    return {};
}

// ---- offers out

std::uint32_t LinkEndpoint::offer_limit(const BurstRequest& request) const {
    constexpr std::size_t kLargest = kHeaderSize + ib::kBurstPayload +
                                     ib::link::reference_bytes(ib::link::kMaxPieces) +
                                     kReservedOutput;
    if (!active_ || request.vl == kVl15 || !shares_memory() || !has_room(kLargest)) {
        return 0;
    }
    const std::uint32_t packets = std::min(
        {request.packets, credits(request.vl) / packet_blocks(request.longest),
         static_cast<std::uint32_t>(kMaxReferenceBytes / request.mtu), ib::kMaxBurstPackets});
    return packets > 1 ? packets : 0;
}

// ---- references in

// An adapter says where its payload is, a switch numbers what it sends.
LinkEndpoint::Result LinkEndpoint::check_reference(const ib::link::Reference& reference) {
    OneCopy& own = *one_copy_;
    const bool pieces_fit = std::ranges::all_of(reference.pieces, [&](const RamPiece& piece) {
        return piece_fits(piece, own.blocks, false);
    });
    const bool right = connecting_
                           ? reference.pieces.empty() && reference.handle == own.last_handle + 1
                           : !reference.pieces.empty() && pieces_fit;
    if (!right) {
        return fail(LinkError::kMalformedFrame,
                    connecting_ ? "reference out of order" : "reference to no memory");
    }
    own.last_handle = reference.handle;
    return {};
}

// On either side all that is said of the run is checked here, and its credit is taken.
LinkEndpoint::Result LinkEndpoint::on_reference(const Frame& frame) {
    if (!one_copy_) {
        return fail(LinkError::kUnexpectedFrame, "reference without MEMORY");
    }
    const auto reference = ib::link::Reference::parse(frame.body.subspan(ib::kBurstPayload));
    if (!reference) {
        return fail(LinkError::kMalformedFrame,
                    std::string("reference: ") + to_string(reference.error()));
    }
    if (auto checked = check_reference(*reference); !checked) {
        return checked;
    }
    auto burst = ib::Burst::parse(frame.body.first<ib::kBurstPayload>(),
                                  one_copy_->room.first(ib::kBurstPayload + reference->bytes),
                                  kMaxReferenceBytes);
    if (!burst || burst->lrh().vl == ib::kVl15 || !burst->is_middle()) {
        return fail(LinkError::kMalformedFrame, "RUN: no packets that a reference may stand for");
    }
    const unsigned vl = burst->lrh().vl.value();
    if (!take_credit(vl, burst_blocks(*burst))) {
        return fail(LinkError::kCreditExceeded, "VL " + std::to_string(vl));
    }
    take_reference(*burst, *reference);
    return {};
}

bool LinkEndpoint::fits(const ib::Burst& burst) const {
    return burst.size().longest() + ib::kIcrcSize <= max_packet_bytes(offer_.mtu_cap);
}

void LinkEndpoint::take_reference(ib::Burst& burst, const ib::link::Reference& reference) {
    if (connecting_) {
        one_copy_->awaited =
            Awaited{.reference = reference,
                    .burst = burst,
                    .frame_bytes = kHeaderSize + ib::kBurstPayload + ib::link::reference_bytes(0),
                    .epoch = offer_.epoch};
        await_answer();
        return;
    }
    if (!active_ || !fits(burst)) {
        hand_over_parts(burst);  // which finds and counts what is wrong, and looks at no payload
        return;
    }
    ib::Placement offered{.form = ib::Placement::Form::kOffered, .offer = &reference};
    if (events_.link_burst(burst, offered) != 0) {
        return;
    }
    const auto payload = one_copy_->room.subspan(ib::kBurstPayload, reference.bytes);
    if (events_.link_dereference(reference, payload)) {
        hand_over_parts(burst);
    } else {
        drop(burst);
    }
}

void LinkEndpoint::drop(const ib::Burst& burst) {
    release(burst.lrh().vl.value(), burst_blocks(burst));
}

// The payload is in the room: from here on these are bursts as others.
void LinkEndpoint::hand_over_parts(const ib::Burst& burst) {
    const auto step = static_cast<std::uint32_t>(ib::kMaxBurstPayload / burst.size().mtu);
    const auto epoch = offer_.epoch;
    for (std::uint32_t i = 0; i < burst.count(); i += step) {
        if (offer_.epoch != epoch) {  // a handler has retrained the link
            release(burst.lrh().vl.value(), burst_blocks(burst, i, burst.count() - i));
            return;
        }
        ib::BurstHead head;
        auto part = burst.part(i, std::min(step, burst.count() - i), head);
        if (part) {
            hand_over(*part);
        }
    }
}

// ---- the adapter: asking for a payload

bool LinkEndpoint::is_answered() const {
    const OneCopy& own = *one_copy_;
    const std::uint64_t answer = own.control->answer.load(std::memory_order_acquire);
    return own.awaited->asked && answer >> 8 == own.sequence;
}

bool LinkEndpoint::pulling() const {
    return one_copy_ && one_copy_->awaited && one_copy_->awaited->asked && !is_answered();
}

bool LinkEndpoint::cancel_pull() {
    if (!pulling()) {
        return false;
    }
    one_copy_->control->cancel.store(one_copy_->sequence, std::memory_order_release);
    return publish();
}

void LinkEndpoint::await_answer() {
    Awaited& awaited = *one_copy_->awaited;
    if (awaited.asked) {
        if (!is_answered()) {
            return;
        }
        awaited.asked = false;
        answered(static_cast<PullResult>(one_copy_->control->answer & 0xFF));
    }
    if (one_copy_->awaited) {
        ask();
    }
}

// Whether the link is still the one over which the run came.
bool LinkEndpoint::holds(const Awaited& awaited) const {
    return active_ && offer_.epoch == awaited.epoch;
}

void LinkEndpoint::answered(PullResult result) {
    Awaited& awaited = *one_copy_->awaited;
    if (result == PullResult::kRefused) {
        events_.link_copy_refused();
    }
    if (result == PullResult::kCancelled) {
        awaited.bounce = false;
        return;
    }
    if (result != PullResult::kDone || !holds(awaited)) {
        drop(awaited.burst);
    } else if (awaited.bounce) {
        hand_over_parts(awaited.burst);
    } else {
        awaited.payload.form = ib::Placement::Form::kPulled;
        if (events_.link_burst(awaited.burst, awaited.payload) == 0) {
            awaited.bounce = true;
            return;
        }
    }
    finish_awaited();
}

// Says where the payload goes: to its place if there is one, else to the bounce area.
void LinkEndpoint::ask() {
    OneCopy& own = *one_copy_;
    Awaited& awaited = *own.awaited;
    if (!holds(awaited) || !fits(awaited.burst)) {
        if (holds(awaited)) {
            hand_over_parts(awaited.burst);  // each too long: counted, and not looked at
        } else {
            drop(awaited.burst);
        }
        finish_awaited();
        return;
    }
    std::vector<RamPiece>& where = awaited.payload.where;
    where.clear();
    if (!awaited.bounce) {
        awaited.payload.form = ib::Placement::Form::kOffered;
        const bool placed = events_.link_burst(awaited.burst, awaited.payload) != 0;
        const auto own_memory = [&](const RamPiece& piece) {
            return piece.length != 0 && piece_fits(piece, own.blocks, false);
        };
        awaited.bounce = !placed || where.size() > ib::link::kMaxPieces ||
                         ib::link::pieces_bytes(where) != awaited.reference.bytes ||
                         !std::ranges::all_of(where, own_memory);
    }
    if (awaited.bounce) {
        where = {{.offset = 0, .block = kBounceBlock, .length = awaited.reference.bytes}};
    }
    const std::uint32_t next = own.sequence + 1 == 0 ? 1 : own.sequence + 1;
    if (send_control(ib::link::Pull{.handle = awaited.reference.handle,
                                    .sequence = next,
                                    .offset = 0,
                                    .length = awaited.reference.bytes,
                                    .pieces = where})) {
        own.sequence = next;
        awaited.asked = true;
    }
}

void LinkEndpoint::finish_awaited() {
    OneCopy& own = *one_copy_;
    own.control->finished.store(own.awaited->reference.handle, std::memory_order_release);
    own.awaited.reset();
}

// ---- the switch: being asked

LinkEndpoint::Result LinkEndpoint::on_pull(const Frame& frame) {
    if (!one_copy_) {
        return fail(LinkError::kUnexpectedFrame, "PULL without MEMORY");
    }
    const auto pull = ib::link::Pull::parse(frame.body);
    if (!pull) {
        return fail(LinkError::kMalformedFrame, std::string("PULL: ") + to_string(pull.error()));
    }
    const bool fit = std::ranges::all_of(pull->pieces, [this](const RamPiece& piece) {
        return piece_fits(piece, one_copy_->blocks, true);
    });
    if (!fit) {
        return fail(LinkError::kMalformedFrame, "PULL to no memory");
    }
    if (const auto taken = events_.link_pull(*pull); !taken) {
        return fail(LinkError::kUnexpectedFrame, "PULL: " + taken.error());
    }
    return {};
}

}  // namespace pib::link
