// SPDX-License-Identifier: GPL-2.0-or-later
#include "ib/link/frame_channel.h"

#include <algorithm>

#include "ib/wire/burst.h"
#include "ib/wire/packet.h"

namespace pib::link {
namespace {

// front() copies a packet of up to kCopiedWhole bytes, such as a MAD, or one with checksums, as a
// whole. It copies only the first kCopiedHead bytes of a longer packet, which have all headers.
constexpr size_t kCopiedHead = 128;
constexpr size_t kCopiedWhole = 512;
static_assert(kCopiedHead >= ib::kMaxHeaders);

// Bytes of a frame's body that are copied before they are checked.
size_t copied(const FrameHeader& header) {
    if (header.type == FrameType::kBurst && (header.flags & link::kFlagOffer) == 0) {
        return ib::kBurstPayload;
    }
    const bool in_place = header.type == FrameType::kPacket &&
                          (header.flags & link::kFlagCrcElided) != 0 &&
                          header.length > kCopiedWhole;
    return in_place ? kCopiedHead : header.length;
}

}  // namespace

FrameChannel::FrameChannel(size_t output_bytes)
    : output_(std::max(output_bytes, 2 * kReservedOutput)) {
    scratch_.reserve(kHeaderSize + link::Hello::kSize + link::Refuse::kMaxText);
}

std::expected<link::Frame, LinkFailure> FrameChannel::front() {
    const uint8_t* front = rings_->in.front();
    std::array<uint8_t, kHeaderSize> raw;
    std::memcpy(raw.data(), front, raw.size());
    RingTap* const tap = rings_->in.tap();
    if (tap != nullptr) [[unlikely]] {
        tap->copied(raw);
    }
    const auto header = link::parse_frame_header(raw);
    if (!header) {
        return failure(LinkError::kMalformedFrame, to_string(header.error()));
    }
    if (header->type == FrameType::kMemory) {
        return failure(LinkError::kUnexpectedFrame, "MEMORY in shared memory");
    }
    if (kHeaderSize + header->length > rings_->in.available()) {
        return failure(LinkError::kMalformedFrame, "an incomplete frame");
    }
    const std::span shared(front + kHeaderSize, header->length);
    const auto copy = std::span(rings_->frame).first(copied(*header));
    std::memcpy(copy.data(), shared.data(), copy.size());
    if (tap != nullptr) [[unlikely]] {
        tap->copied(copy);
        if (copy.size() < shared.size()) {
            tap->payload(shared);
        }
    }
    return link::Frame{header->type, header->flags, copy,
                       copy.size() < shared.size() ? shared : std::span<const uint8_t>{}};
}

bool FrameChannel::publish() {
    if (!rings_) {
        return false;
    }
    rings_->in.give_back();
    rings_->out.publish();
    const bool data = rings_->out.must_kick();
    const bool room = rings_->in.must_kick();
    return data || room;
}

bool FrameChannel::room_is_back() {
    if (!rings_ || !rings_->wants_room) {
        return false;
    }
    // await_room() registers a new request with the peer, so it is not called again after success.
    rings_->room_is_back = rings_->room_is_back || !rings_->out.await_room();
    return rings_->room_is_back;
}

}  // namespace pib::link
