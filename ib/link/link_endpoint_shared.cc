// SPDX-License-Identifier: GPL-2.0-or-later
// A link endpoint whose frames go through shared memory.
#include <cstring>

#include "ib/link/link_endpoint.h"

namespace pib::link {

using ib::link::Frame;
using ib::link::kHeaderSize;

// WELCOME has passed: from here on both sides speak through the rings, if both said so.
LinkEndpoint::Result LinkEndpoint::share(std::uint32_t features) {
    if ((features & ib::link::kFeatureSharedMemory) == 0) {
        return {};
    }
    const auto views = events_.link_rings();
    if (!views) {
        return fail(LinkError::kUnexpectedFrame, "WELCOME without the shared memory it promises");
    }
    rings_ = std::make_unique<Rings>(*views);
    return {};
}

std::expected<bool, LinkFailure> LinkEndpoint::receive(std::size_t bytes) {
    if (!rings_ || phase_ == Phase::kFailed) {
        return false;
    }
    Rings& rings = *rings_;
    rings.wants_room = false;
    send_unsent();
    std::size_t done = 0;
    while (done < bytes && rings.in.available() != 0) {
        const auto frame = receive_one(rings);
        if (!frame) {
            return std::unexpected(frame.error());
        }
        done += *frame;
        if (phase_ == Phase::kFailed) {
            return false;  // a handler has closed the link
        }
    }
    if (rings.in.broken() || rings.out.broken()) {
        close();
        return std::unexpected(
            LinkFailure{LinkError::kMalformedFrame, "impossible position in shared memory"});
    }
    return done >= bytes;
}

// Of a packet this much is copied before it is looked at: more than any headers, and all of a MAD.
constexpr std::size_t kCopiedHead = 128;
constexpr std::size_t kCopiedWhole = 512;
static_assert(kCopiedHead >= ib::kMaxHeaders);

// Handles one frame; its size. The peer can write to what it has published, so what is checked is
// copied before: the header and the body, of a long packet the bytes that can have headers. The
// rest stays where it is until the handler has copied it to where it goes.
std::expected<std::size_t, LinkFailure> LinkEndpoint::receive_one(Rings& rings) {
    std::array<std::uint8_t, kHeaderSize> raw;
    std::memcpy(raw.data(), rings.in.front(), raw.size());
    const auto header = ib::link::parse_frame_header(raw);
    const std::size_t size = kHeaderSize + (header ? header->length : 0);
    if (!header || size > rings.in.available()) {
        close();
        return std::unexpected(
            LinkFailure{LinkError::kMalformedFrame, header ? "a frame that is not there to its end"
                                                           : to_string(header.error())});
    }
    const std::span shared(rings.in.front() + kHeaderSize, header->length);
    const bool in_place = header->type == ib::link::FrameType::kPacket &&
                          (header->flags & ib::link::kFlagCrcElided) != 0 &&
                          header->length > kCopiedWhole;
    const auto copy = std::span(rings.frame).first(in_place ? kCopiedHead : header->length);
    std::memcpy(copy.data(), shared.data(), copy.size());
    const Frame frame{header->type, header->flags, copy,
                      in_place ? shared : std::span<const std::uint8_t>{}};
    if (auto handled = handle(frame); !handled) {
        return std::unexpected(handled.error());
    }
    // Only now: a handler that publishes gives back what was skipped.
    rings.in.skip(size);
    // A quarter at a time: our position is a cache line that has to travel to the peer.
    if (rings.in.unreturned() >= rings.in.size() / 4) {
        rings.in.give_back();
    }
    return size;
}

bool LinkEndpoint::publish() {
    if (!rings_) {
        return false;
    }
    rings_->in.give_back();
    rings_->out.publish();
    const bool data = rings_->out.must_kick();
    const bool room = rings_->in.must_kick();
    return data || room;
}

bool LinkEndpoint::room_is_back() {
    return rings_ && rings_->wants_room && !rings_->out.await_room();
}

bool LinkEndpoint::may_sleep() {
    if (!rings_) {
        return true;
    }
    const bool room = room_is_back();
    const bool data = !rings_->in.await_data();
    return !room && !data && !rings_->out.broken();
}

}  // namespace pib::link
