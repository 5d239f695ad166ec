// SPDX-License-Identifier: GPL-2.0-or-later
// One end of a fabric link (docs/fabric-protocol.md), for either side: joins the parts of the link
// and decides which of them handles a frame. It has no socket and no clock: the caller passes
// received bytes to feed_input() and sends the bytes of output(); LinkEvents reports events. If
// both sides agree on shared memory, frames travel through rings after the handshake, and receive()
// and FrameChannel::publish() take the place of feed_input() and output().
//
// The port exchanges packets from LRH to the end of the padding with this class, which checks and
// removes the ICRC and VCRC of received packets and adds them to sent packets on request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>

#include "ib/link/burst_delivery.h"
#include "ib/link/burst_room.h"
#include "ib/link/burst_sender.h"
#include "ib/link/credit_ledger.h"
#include "ib/link/frame_channel.h"
#include "ib/link/handshake.h"
#include "ib/link/link_events.h"
#include "ib/link/link_limits.h"
#include "ib/link/link_training.h"
#include "ib/link/peer_copy_end.h"
#include "ib/wire/link_frame.h"

namespace pib::link {

class LinkEndpoint {
  public:
    struct Buffers {
        // Receive buffer of each data VL, in credit blocks of 64 bytes: 0, or at least
        // CreditLedger::kMinReceiveBlocks.
        CreditLedger::Capacity receive_blocks{};
        size_t output_bytes = 256 * 1024;  // bound of the pending output
        size_t input_bytes = 64 * 1024;    // bound of an incomplete frame
    };
    // Result of the handshake.
    struct Agreed {
        bool bursts = false;     // a frame may carry several packets
        bool peer_copy = false;  // an adapter may share its memory
    };

    // The connecting side. output() has HELLO.
    LinkEndpoint(const link::Hello& hello, const Buffers& buffers, LinkEvents& events);
    // The listening side. It waits for HELLO.
    LinkEndpoint(const Buffers& buffers, LinkEvents& events);
    LinkEndpoint(const LinkEndpoint&) = delete;
    LinkEndpoint& operator=(const LinkEndpoint&) = delete;

    // ---- frames in

    // Read from the connection into input_space(), at most its size, then pass the number of bytes
    // to feed_input(), which handles the frames that are complete, or those of a `turn`: a turn
    // ends after that many bytes, and a LINK counts as 16 KiB. Delivered packets are views into
    // that space. After an error close the connection once output() is written, or as soon as
    // writing fails; link_down() has been called if the link was up, and further bytes are ignored.
    [[nodiscard]] std::span<uint8_t> input_space() { return reader_.space(); }
    [[nodiscard]] LinkResult feed_input(size_t bytes, size_t turn = SIZE_MAX);
    // Whether a turn of feed_input() has left frames. Until receive() has handled them,
    // input_space() may be empty.
    [[nodiscard]] bool input_waits() const { return input_waits_; }
    // In shared memory: handles frames until there are none left, or until `bytes` have been read
    // or copied for offers; a LINK counts as 16 KiB. On a stream: a further turn of the frames that
    // feed_input() has left. True: there may be more. Errors as with feed_input().
    [[nodiscard]] std::expected<bool, LinkFailure> receive(size_t bytes);

    // ---- frames out

    // Bytes for the peer. consume_output() removes what was sent; then begin() may find room again,
    // and the link may come up.
    [[nodiscard]] std::span<const uint8_t> output() const { return channel_.output(); }
    void consume_output(size_t bytes);
    // In shared memory: asks the peer for a wake-up; false if there is work. On a stream: false
    // while input_waits().
    [[nodiscard]] bool may_sleep();
    // The stream or the rings, for publish() and for wake-ups.
    [[nodiscard]] FrameChannel& channel() { return channel_; }

    // ---- the link

    // The link's parameters and state. The caller closes it when the connection has ended;
    // afterwards every call fails.
    [[nodiscard]] LinkTraining& training() { return training_; }
    [[nodiscard]] bool is_up() const { return training_.is_up(); }
    [[nodiscard]] const Agreed& agreed() const { return agreed_; }
    // Peer copy on this link. While an adapter's pull is under way, receive() handles no frame.
    [[nodiscard]] PeerCopyEnd& peer_copy() { return peer_copy_; }
    [[nodiscard]] const PeerCopyEnd& peer_copy() const { return peer_copy_; }

    // ---- packets

    // Credits and room for packets.
    [[nodiscard]] const BurstSender& sender() const { return sender_; }
    // Finds room for as many packets as credits and output admit. The caller writes them and calls
    // commit(). Without commit() the call has no effect. No other function of the endpoint may be
    // called in between. An offer must consist of several MIDDLE packets that request neither an
    // ACK nor an event, else the peer ends the connection.
    [[nodiscard]] BurstRoom begin(const BurstRequest& request) {
        return request.is_offer && !peer_copy_.can_offer() ? BurstRoom{} : sender_.begin(request);
    }
    // Sends the written packets: as many as there was room for, or only the first.
    void commit(const ib::BurstSize& size, const OfferedPayload& offered = {}) {
        sender_.commit(size, offered);
    }
    // Frees the receive buffer of delivered packets, also of those from before a link_down(). The
    // endpoint sends CREDIT by itself.
    void release(unsigned vl, uint32_t blocks) { credits_.release(vl, blocks); }

  private:
    [[nodiscard]] LinkResult handle(const link::Frame& frame);
    [[nodiscard]] LinkResult agree(const Features& features);
    [[nodiscard]] LinkResult receive_burst(const link::Frame& frame);
    // Handles the frame at the front of the ring. Returns the bytes for which it counts in a turn,
    // or 0 while it waits for an answer.
    [[nodiscard]] std::expected<size_t, LinkFailure> receive_front();

    LinkEvents& events_;
    bool connecting_ = false;
    uint32_t asked_ = 0;  // features of HELLO, connecting side only
    Agreed agreed_;
    link::FrameReader reader_;
    bool input_waits_ = false;
    FrameChannel channel_;
    CreditLedger credits_;
    LinkTraining training_;
    BurstSender sender_;
    BurstDelivery delivery_;
    PeerCopyEnd peer_copy_;
};

// Copies bytes, which may be split at any place, to input_space() for feed_input().
[[nodiscard]] LinkResult feed(LinkEndpoint& endpoint, std::span<const uint8_t> bytes);

}  // namespace pib::link
