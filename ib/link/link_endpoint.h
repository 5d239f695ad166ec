// SPDX-License-Identifier: GPL-2.0-or-later
// One end of a fabric link (docs/fabric-protocol.md) on either side: joins its parts and says which
// frame each of them takes when. Pure: bytes go in by feed(), come out by output(), what happens is
// told to LinkEvents. No socket, no clock. When both sides can share memory, frames go through
// rings after the handshake: receive() and FrameChannel::publish() then take the place of feed()
// and output().
//
// Packets above this class run from LRH to the end of the padding; the ICRC and VCRC that a peer
// sends are checked and taken off here, and are added here when asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
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
#include "ib/link/peer_copy_adapter.h"
#include "ib/link/peer_copy_switch.h"
#include "ib/wire/link_frame.h"

namespace pib::link {

class LinkEndpoint {
  public:
    struct Buffers {
        // Receive buffer per data VL, in blocks of 64 bytes; at least
        // CreditLedger::kMinReceiveBlocks where not 0.
        CreditLedger::Capacity receive_blocks{};
        std::size_t output_bytes = 256 * 1024;  // bounded: packets are refused when it is full
        std::size_t input_bytes = 64 * 1024;    // frames that wait for their last byte
    };
    // What both sides have agreed on in the handshake.
    struct Agreed {
        bool bursts = false;     // several packets in a frame
        bool peer_copy = false;  // then an adapter may hand over its memory
    };
    // With peer copy, the least receive buffer of VLs that have any. A switch may have to copy two
    // of the longest offers itself. An adapter keeps none of them, and takes as many as are sent
    // before they are finished: an offer without credits costs a copy more.
    static constexpr std::uint32_t kSwitchCopyBlocks = 2 * kMaxReferenceBytes / 64;
    static constexpr std::uint32_t kAdapterCopyBlocks = 256 * kMaxReferenceBytes / 64;

    // The connecting side; HELLO is ready in output().
    LinkEndpoint(const ib::link::Hello& hello, const Buffers& buffers, LinkEvents& events);
    // The listening side; waits for HELLO.
    LinkEndpoint(const Buffers& buffers, LinkEvents& events);
    LinkEndpoint(const LinkEndpoint&) = delete;
    LinkEndpoint& operator=(const LinkEndpoint&) = delete;

    // ---- frames in

    // Takes what the peer sent, in whatever pieces. On failure the connection has to be closed once
    // output() is written or cannot be written; link_down() has been called if the link was up, and
    // further bytes are ignored.
    [[nodiscard]] LinkResult feed(std::span<const std::uint8_t> bytes);
    // The same without a copy: read from the connection into input_space(), then say how much.
    // The packets that come up are views into that space.
    [[nodiscard]] std::span<std::uint8_t> input_space() { return reader_.space(); }
    [[nodiscard]] LinkResult feed_input(std::size_t bytes);
    // In shared memory: handles frames until there are none or `bytes` have been read or copied for
    // offers; true when more may be there. Fails as feed() does.
    [[nodiscard]] std::expected<bool, LinkFailure> receive(std::size_t bytes);

    // ---- frames out

    // Bytes for the peer, contiguous; consume what was written. Then begin() may succeed
    // again, and the link may come up.
    [[nodiscard]] std::span<const std::uint8_t> output() const { return channel_.output(); }
    void consume_output(std::size_t bytes);
    // Asks the peer to wake this side; false when there is something to do already.
    [[nodiscard]] bool may_sleep();
    // The stream or the rings: publish() and what else is asked of them.
    [[nodiscard]] FrameChannel& channel() { return channel_; }

    // ---- the link

    // What is offered and what is active.
    [[nodiscard]] LinkTraining& training() { return training_; }
    [[nodiscard]] bool is_up() const { return training_.is_up(); }
    [[nodiscard]] const Agreed& agreed() const { return agreed_; }
    // The connection is gone: link_down() if the link was up; nothing works afterwards.
    void close() { training_.close(); }

    // ---- packets

    // Room and credits for packets.
    [[nodiscard]] const BurstSender& sender() const { return sender_; }
    // Room for as many packets as credits and the output admit. The caller writes them, and then
    // calls commit(); or nothing, and it is as if it had not asked. Nothing else may be called on
    // the endpoint in between. An offer is of several MIDDLE packets that want no ACK, or there is
    // no room for it.
    [[nodiscard]] BurstRoom begin(const BurstRequest& request) {
        return request.is_offer && !shares_memory() ? BurstRoom{} : sender_.begin(request);
    }
    // Sends what was written: as many packets as there was room for, or one.
    void commit(const ib::BurstSize& size, const OfferedPayload& offered = {}) {
        sender_.commit(size, offered);
    }
    // Gives back the receive buffer of packets, of this or an earlier link_up(); CREDIT follows by
    // itself.
    void release(unsigned vl, std::uint32_t blocks) { credits_.release(vl, blocks); }

    // ---- peer copy

    // The adapter: MEMORY is in output() then, and the descriptors go with its first byte.
    // `control_memory` has one_copy_bytes(blocks) bytes and outlives the endpoint.
    // Only once.
    void share_memory(std::uint8_t* control_memory, std::span<const std::uint64_t> blocks);
    // Whether offers may be sent.
    [[nodiscard]] bool shares_memory() const {
        return adapter_ ? adapter_->is_mapped() : switch_ != nullptr;
    }
    // The adapter: whether the switch may be writing to where link_burst() said, also after
    // close(). Meanwhile receive() does nothing, and the switch wakes this side when it has ended.
    [[nodiscard]] bool pulling() const { return adapter_ && adapter_->is_pulling(); }
    // Asks for that to end soon; pulling() says when it has. Afterwards receive() asks again where
    // the burst goes. True: the peer sleeps and has to be woken, as of publish().
    [[nodiscard]] bool cancel_pull() { return adapter_ && adapter_->cancel(); }

  private:
    LinkEndpoint(const Buffers& buffers, LinkEvents& events, bool connecting);

    LinkResult handle(const ib::link::Frame& frame);
    LinkResult agree(const Features& features);
    LinkResult receive_run(const ib::link::Frame& frame);
    LinkResult receive_memory(const ib::link::Frame& frame);
    // Bytes of the frame at the front of the ring; 0: it stays, and waits for an answer.
    std::expected<std::size_t, LinkFailure> receive_front();

    LinkEvents& events_;
    const bool connecting_;
    std::uint32_t asked_ = 0;  // HELLO's features, of the connecting side
    Agreed agreed_;
    bool memory_passed_ = false;  // MEMORY has
    ib::link::FrameReader reader_;
    FrameChannel channel_;
    CreditLedger credits_;
    LinkTraining training_;
    BurstSender sender_;
    BurstDelivery delivery_;
    std::unique_ptr<PeerCopyAdapter> adapter_;  // one of these from MEMORY on
    std::unique_ptr<PeerCopySwitch> switch_;
};

}  // namespace pib::link
