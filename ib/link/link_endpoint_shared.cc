// SPDX-License-Identifier: GPL-2.0-or-later
// A link endpoint whose frames go through shared memory.
#include <algorithm>
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
    runs_ = (features & ib::link::kFeatureRuns) != 0;
    one_copy_agreed_ = runs_ && (features & ib::link::kFeatureOneCopy) != 0;
    if (one_copy_agreed_) {
        const std::uint32_t least = connecting_ ? kAdapterCopyBlocks : kSwitchCopyBlocks;
        for (VlState& vl : vls_) {
            vl.capacity = vl.capacity == 0 ? 0 : std::max(vl.capacity, least);
        }
    }
    return {};
}

std::expected<bool, LinkFailure> LinkEndpoint::receive(std::size_t bytes) {
    if (!rings_ || phase_ == Phase::kFailed) {
        return false;
    }
    Rings& rings = *rings_;
    rings.wants_room = rings.room_is_back = false;
    send_unsent();
    std::size_t done = 0;
    while (done < bytes && rings.in.available() != 0) {
        const auto frame = receive_one(rings);
        if (!frame) {
            return std::unexpected(frame.error());
        }
        done += *frame;
        if (phase_ == Phase::kFailed || *frame == 0) {
            return false;  // a handler has closed the link, or an answer is awaited
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

// What is copied of a frame before it is looked at.
std::size_t copied(const ib::link::FrameHeader& header) {
    if (header.type == ib::link::FrameType::kRun &&
        (header.flags & ib::link::kFlagReference) == 0) {
        return ib::kBurstPayload;
    }
    const bool in_place = header.type == ib::link::FrameType::kPacket &&
                          (header.flags & ib::link::kFlagCrcElided) != 0 &&
                          header.length > kCopiedWhole;
    return in_place ? kCopiedHead : header.length;
}

// A frame that waits for an answer is not read again.
std::expected<std::size_t, LinkFailure> LinkEndpoint::receive_one(Rings& rings) {
    std::size_t size = 0;
    if (one_copy_ && one_copy_->awaited) {
        size = one_copy_->awaited->frame_bytes;
        await_answer();
    } else {
        const auto read = read_front(rings);
        if (!read) {
            return read;
        }
        size = *read;
    }
    if (one_copy_ && one_copy_->awaited) {
        return 0;
    }
    // Only now: a handler that publishes gives back what was skipped.
    rings.in.skip(size);
    // A quarter at a time: our position is a cache line that has to travel to the peer.
    if (rings.in.unreturned() >= rings.in.size() / 4) {
        rings.in.give_back();
    }
    return size;
}

// Handles one frame; its size. The peer can write to what it has published, so what is checked is
// copied before: the header and the body, of a long packet the bytes that can have headers. The
// rest stays where it is until the handler has copied it to where it goes.
std::expected<std::size_t, LinkFailure> LinkEndpoint::read_front(Rings& rings) {
    std::array<std::uint8_t, kHeaderSize> raw;
    std::memcpy(raw.data(), rings.in.front(), raw.size());
    const auto header = ib::link::parse_frame_header(raw);
    const std::size_t size = kHeaderSize + (header ? header->length : 0);
    if (header && header->type == ib::link::FrameType::kMemory) {
        close();
        return std::unexpected(LinkFailure{LinkError::kUnexpectedFrame, "MEMORY in shared memory"});
    }
    if (!header || size > rings.in.available()) {
        close();
        return std::unexpected(
            LinkFailure{LinkError::kMalformedFrame, header ? "a frame that is not there to its end"
                                                           : to_string(header.error())});
    }
    const std::span shared(rings.in.front() + kHeaderSize, header->length);
    const auto copy = std::span(rings.frame).first(copied(*header));
    std::memcpy(copy.data(), shared.data(), copy.size());
    const Frame frame{header->type, header->flags, copy,
                      copy.size() < shared.size() ? shared : std::span<const std::uint8_t>{}};
    if (auto handled = handle(frame); !handled) {
        return std::unexpected(handled.error());
    }
    return size;
}

// ---- bursts of several packets

// A burst that is none ends the connection: it is this protocol that it breaks, and not the link
// layer of the packets.
LinkEndpoint::Result LinkEndpoint::on_run(const Frame& frame) {
    if (!runs_ || !peer_) {
        return fail(LinkError::kUnexpectedFrame, runs_ ? "RUN before LINK" : "RUN not agreed on");
    }
    if ((frame.flags & ib::link::kFlagReference) != 0) {
        return on_reference(frame);
    }
    auto burst = ib::Burst::parse(frame.body.first<ib::kBurstPayload>(), frame.shared);
    if (!burst || burst->lrh().vl == ib::kVl15) {
        return fail(LinkError::kMalformedFrame,
                    std::string("RUN: ") + (burst ? "VL 15" : to_string(burst.error())));
    }
    const unsigned vl = burst->lrh().vl.value();
    if (!take_credit(vl, burst_blocks(*burst))) {
        overrun(vl, burst->count());
        return {};
    }
    hand_over(*burst);
    return {};
}

// Packets from `from` on as one burst; how many of them were taken.
std::uint32_t LinkEndpoint::hand_over_rest(ib::Burst& burst, std::uint32_t from) {
    ib::Placement here;
    if (from == 0) {
        return events_.link_burst(burst, here);
    }
    ib::BurstHead head;
    auto rest = burst.part(from, burst.count() - from, head);
    return rest ? events_.link_burst(*rest, here) : 0;
}

// A burst that is not taken whole comes as its first packet and the rest.
void LinkEndpoint::hand_over(ib::Burst& burst) {
    const unsigned vl = burst.lrh().vl.value();
    const auto epoch = offer_.epoch;
    const bool all_fit = fits(burst);
    ib::BurstHeaders room;
    for (std::uint32_t i = 0; i < burst.count();) {
        if (offer_.epoch != epoch) {  // a handler has retrained the link
            release(vl, burst_blocks(burst, i, burst.count() - i));
            return;
        }
        const bool several = burst.count() - i > 1;
        std::uint32_t taken = several && active_ && all_fit ? hand_over_rest(burst, i) : 0;
        if (taken == 0) {
            hand_over(burst.packet(i, room), false, vl, burst_blocks(burst, i, 1));
            taken = 1;
        }
        i += taken;
    }
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
    if (!rings_ || !rings_->wants_room) {
        return false;
    }
    // await_room() asks anew each time: who has been answered must not ask again.
    rings_->room_is_back = rings_->room_is_back || !rings_->out.await_room();
    return rings_->room_is_back;
}

bool LinkEndpoint::may_sleep() {
    if (!rings_) {
        return true;
    }
    const bool room = room_is_back();
    // An answer wakes whatever the event index says.
    const bool data = one_copy_ && one_copy_->awaited ? is_answered() : !rings_->in.await_data();
    return !room && !data && !rings_->out.broken();
}

}  // namespace pib::link
