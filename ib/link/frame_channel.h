// SPDX-License-Identifier: GPL-2.0-or-later
// Where the frames of a link go: into a stream of bytes, or through two rings in shared memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <expected>
#include <memory>
#include <span>
#include <vector>

#include "ib/link/link_events.h"
#include "ib/link/output_buffer.h"
#include "ib/link/shared_ring.h"
#include "ib/wire/link_frame.h"

namespace pib::link {

class FrameChannel {
  public:
    // Output that data packets leave free: LINK, CREDIT and VL15 must not wait behind a full
    // buffer.
    static constexpr std::size_t kReservedOutput = 32 * 1024;

    // `output_bytes` bounds what waits for the stream.
    explicit FrameChannel(std::size_t output_bytes);

    // Frames go through these rings from here on.
    void share(const LinkRings& rings) { rings_ = std::make_unique<Rings>(rings); }
    [[nodiscard]] bool is_shared() const { return rings_ != nullptr; }

    // ---- out

    [[nodiscard]] bool has_room(std::size_t bytes) const {
        return rings_ ? rings_->out.has_room(ring_bytes(bytes)) : output_.has_room(bytes);
    }
    // The same; if a ring has none, the sender waits for room: see room_is_back().
    [[nodiscard]] bool finds_room(std::size_t bytes) const {
        const bool found = has_room(bytes);
        if (!found && rings_) {
            rings_->wants_room = true;
        }
        return found;
    }
    // Of a ring: the bytes that fit, looked up only when less than `wanted`.
    [[nodiscard]] std::size_t room_for(std::size_t wanted) const {
        return rings_->out.room_for(wanted);
    }
    // Room for a frame, or an empty span; commit() sends it.
    [[nodiscard]] std::span<std::uint8_t> reserve(std::size_t bytes) {
        if (!rings_) {
            return output_.reserve(bytes);
        }
        const auto room = rings_->out.reserve(bytes);
        rings_->wants_room = rings_->wants_room || room.empty();
        return room;
    }
    void commit(std::size_t bytes) {
        if (rings_) {
            rings_->out.commit(bytes);
        } else {
            output_.commit(bytes);
        }
    }
    // Sends a control frame; false: there is no room.
    template <typename Control>
    bool send(const Control& frame) {
        lay_out(frame);
        const auto room = reserve(scratch_.size());
        if (room.empty()) {
            return false;
        }
        std::memcpy(room.data(), scratch_.data(), scratch_.size());
        commit(scratch_.size());
        return true;
    }
    // The same, but through the stream, which alone carries descriptors.
    template <typename Control>
    bool send_on_stream(const Control& frame) {
        lay_out(frame);
        const auto room = output_.reserve(scratch_.size());
        if (room.empty()) {
            return false;
        }
        std::memcpy(room.data(), scratch_.data(), scratch_.size());
        output_.commit(scratch_.size());
        return true;
    }

    // ---- the stream

    [[nodiscard]] std::span<const std::uint8_t> output() const { return output_.pending(); }
    void consume(std::size_t bytes) { output_.consume(bytes); }

    // ---- the rings

    // Begins to read: no sender waits for room.
    void begin_reading() { rings_->wants_room = rings_->room_is_back = false; }
    [[nodiscard]] bool has_frame() { return rings_->in.available() != 0; }
    // The frame at the front, which is complete. The peer can write to what it has published, so
    // what is checked is copied before: the header and the body, of a long packet the bytes that
    // can have headers. The rest stays where it is until the handler has copied it to its place.
    [[nodiscard]] std::expected<ib::link::Frame, LinkFailure> front();
    // Passes the frame at the front, of this size with its header.
    void skip(std::size_t bytes) {
        rings_->in.skip(bytes);
        // A quarter at a time: our position is a cache line that has to travel to the peer.
        if (rings_->in.unreturned() >= rings_->in.size() / 4) {
            rings_->in.give_back();
        }
    }
    // The peer has published a position that cannot be.
    [[nodiscard]] bool is_broken() const { return rings_->in.broken() || rings_->out.broken(); }

    // Lets the peer see what was written and given back; true: it sleeps and has to be woken.
    [[nodiscard]] bool publish();
    // To be called after publish() by a sender while this side sleeps: if something was refused,
    // asks to be woken when there is room; true when there is already, until begin_reading().
    [[nodiscard]] bool room_is_back();
    // Asks the peer to wake this side; false when a frame is there, or the ring is broken.
    [[nodiscard]] bool awaits_data() { return rings_->in.await_data(); }
    // Whether something has been refused since begin_reading() because a ring is full.
    [[nodiscard]] bool wants_room() const { return rings_ && rings_->wants_room; }
    [[nodiscard]] std::size_t unpublished() const { return rings_ ? rings_->out.unpublished() : 0; }

  private:
    struct Rings {
        explicit Rings(const LinkRings& views) : out(views.out), in(views.in) {}
        RingProducer out;
        RingConsumer in;
        bool wants_room = false;    // something was refused since begin_reading()
        bool room_is_back = false;  // since then, too
        std::array<std::uint8_t, ib::link::kMaxBody> frame{};  // front() copies a frame to here
    };

    template <typename Control>
    void lay_out(const Control& frame) {
        scratch_.clear();
        append(scratch_, frame);
    }

    OutputBuffer output_;
    std::unique_ptr<Rings> rings_;       // nullptr: frames go through the stream
    std::vector<std::uint8_t> scratch_;  // control frames are laid out here
};

}  // namespace pib::link
