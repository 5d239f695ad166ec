// SPDX-License-Identifier: GPL-2.0-or-later
// The channel that carries a link's frames: a byte stream, or two rings in shared memory.
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
    // Bytes of output that packets of data VLs may not use, so that they leave room for LINK,
    // CREDIT and packets of VL15.
    static constexpr size_t kReservedOutput = 32 * 1024;

    // `output_bytes` bounds the output that waits for the stream; it is at least twice
    // kReservedOutput.
    explicit FrameChannel(size_t output_bytes);

    // Sends and receives frames through these rings from now on.
    void share(const LinkRings& rings) { rings_ = std::make_unique<Rings>(rings); }
    [[nodiscard]] bool is_shared() const { return rings_ != nullptr; }

    // ---- out

    [[nodiscard]] bool has_room(size_t bytes) const {
        return rings_ ? rings_->out.has_room(ring_bytes(bytes)) : output_.has_room(bytes);
    }
    // Like has_room(). If a ring is full, registers that the sender wants room: see room_is_back().
    [[nodiscard]] bool finds_room(size_t bytes) const {
        const bool found = has_room(bytes);
        if (!found && rings_) {
            rings_->wants_room = true;
        }
        return found;
    }
    // Rings only: bytes that fit. The peer's position is read again only if fewer than `wanted`
    // fit.
    [[nodiscard]] size_t room_for(size_t wanted) const { return rings_->out.room_for(wanted); }
    // Room for a frame, or an empty span; commit() sends it.
    [[nodiscard]] std::span<uint8_t> reserve(size_t bytes) {
        if (!rings_) {
            return output_.reserve(bytes);
        }
        const auto room = rings_->out.reserve(bytes);
        rings_->wants_room = rings_->wants_room || room.empty();
        return room;
    }
    void commit(size_t bytes) {
        if (rings_) {
            rings_->out.commit(bytes);
        } else {
            output_.commit(bytes);
        }
    }
    // Sends a control frame; false if there is no room.
    template <typename Control>
    [[nodiscard]] bool send(const Control& frame) {
        lay_out(frame);
        const auto room = reserve(scratch_.size());
        if (room.empty()) {
            return false;
        }
        std::memcpy(room.data(), scratch_.data(), scratch_.size());
        commit(scratch_.size());
        return true;
    }
    // Like send(), but on the stream, because only a socket carries file descriptors.
    template <typename Control>
    [[nodiscard]] bool send_on_stream(const Control& frame) {
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

    [[nodiscard]] std::span<const uint8_t> output() const { return output_.pending(); }
    void consume(size_t bytes) { output_.consume(bytes); }

    // ---- the rings

    // Begins a pass over the received frames: wants_room() and room_is_back() are false afterwards.
    void begin_reading() { rings_->wants_room = rings_->room_is_back = false; }
    [[nodiscard]] bool has_frame() { return rings_->in.available() != 0; }
    // The frame at the front of the ring; an error if it is malformed or incomplete. The peer can
    // still change published bytes, so everything that is checked is copied first: the frame header
    // and the body, but only the first bytes of a long packet or burst, which have all its headers.
    // The payload stays in the ring until a handler copies it to its target.
    [[nodiscard]] std::expected<link::Frame, LinkFailure> front();
    // Removes the frame at the front. `bytes` includes its header.
    void skip(size_t bytes) {
        rings_->in.skip(bytes);
        // Frees the ring by quarters: each update moves a cache line to the peer.
        if (rings_->in.unreturned() >= rings_->in.size() / 4) {
            rings_->in.give_back();
        }
    }
    // The peer has published an impossible position.
    [[nodiscard]] bool is_broken() const { return rings_->in.broken() || rings_->out.broken(); }

    // Publishes both positions to the peer; true: the peer sleeps and must be woken.
    [[nodiscard]] bool publish();
    // A sender calls this after publish(), because the thread that reads frames may sleep. If the
    // ring had no room, asks the peer for a wake-up. True if there already is room: the caller must
    // wake that thread. The result stays true until begin_reading().
    [[nodiscard]] bool room_is_back();
    // Asks the peer for a wake-up at the next frame; false if a frame is there, or the ring is
    // broken.
    [[nodiscard]] bool awaits_data() { return rings_->in.await_data(); }
    // Whether a sender has found a ring full since begin_reading().
    [[nodiscard]] bool wants_room() const { return rings_ && rings_->wants_room; }
    [[nodiscard]] size_t unpublished() const { return rings_ ? rings_->out.unpublished() : 0; }

  private:
    struct Rings {
        explicit Rings(const LinkRings& views) : out(views.out), in(views.in) {}
        RingProducer out;
        RingConsumer in;
        bool wants_room = false;    // a sender found the ring full since begin_reading()
        bool room_is_back = false;  // await_room() found room after that
        std::array<uint8_t, link::kMaxBody> frame{};  // the copy that front() returns
    };

    template <typename Control>
    void lay_out(const Control& frame) {
        scratch_.clear();
        append(scratch_, frame);
    }

    OutputBuffer output_;
    std::unique_ptr<Rings> rings_;  // nullptr: frames travel on the stream
    std::vector<uint8_t> scratch_;  // buffer for the layout of control frames
};

}  // namespace pib::link
