// SPDX-License-Identifier: GPL-2.0-or-later
// Peer copy at one end of a link, after the handshake has agreed on it. The end that sends MEMORY
// is the adapter, which shares its memory; the other end is the switch, which uses that memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "ib/link/credit_ledger.h"
#include "ib/link/link_limits.h"
#include "ib/link/peer_copy_adapter.h"
#include "ib/link/peer_copy_switch.h"

namespace pib::link {

class PeerCopyEnd {
  public:
    enum class Side : uint8_t { kNone, kAdapter, kSwitch };

    // The minimum receive buffer, in blocks, of VLs that have any. A switch must be able to hold
    // two offers of the maximum size, because it may have to copy their payload itself. An adapter
    // holds no payload of offers, so it grants credits for as many offers as the sender may have
    // under way; without credits for an offer the sender falls back to a burst with payload, at the
    // cost of a copy.
    static constexpr uint32_t kSwitchBlocks = 2 * kMaxOfferBytes / 64;
    static constexpr uint32_t kAdapterBlocks = 256 * kMaxOfferBytes / 64;

    explicit PeerCopyEnd(const PeerCopyAdapter::Parts& parts) : parts_(parts) {}

    // Called when both ends have agreed on peer copy; `side` is that of this end.
    void agree(Side side);

    // Adapter only, once: queues MEMORY on the stream; the file descriptors must be sent with its
    // first byte. `control_memory` has peer_copy_bytes(blocks) bytes and outlives the link.
    void share(uint8_t* control_memory, std::span<const uint64_t> blocks);
    // Whether this end may send offers.
    [[nodiscard]] bool can_offer() const {
        return adapter_ ? adapter_->is_mapped() : switch_ != nullptr;
    }
    // Adapter only: whether the switch may be writing to the place that link_burst() chose, even
    // after the link was closed. Meanwhile no frame is handled; the switch wakes this side at the
    // end of the pull.
    [[nodiscard]] bool is_pulling() const { return adapter_ && adapter_->is_pulling(); }
    // Cancels the pull; is_pulling() is false when it has ended. Then link_burst() chooses the
    // place of the payload again. True: the peer sleeps and must be woken, as with publish().
    [[nodiscard]] bool cancel_pull() { return adapter_ && adapter_->cancel(); }

    [[nodiscard]] LinkResult receive_memory(const link::Frame& frame);
    [[nodiscard]] LinkResult receive_offer(const link::Frame& frame);
    [[nodiscard]] LinkResult receive_pull(const link::Frame& frame);

    // Whether the offer at the front of the ring waits for the switch's answer or for room for
    // PULL. Its frame stays there meanwhile.
    [[nodiscard]] bool is_waiting() const { return adapter_ && adapter_->is_waiting(); }
    // While is_waiting(): whether the answer is there.
    [[nodiscard]] bool is_answered() const { return adapter_->is_answered(); }
    // Continues with the offer at the front of the ring. Returns the bytes of its frame.
    size_t proceed();
    // Switch only: bytes of payload copied since the last call.
    [[nodiscard]] size_t take_copied() { return switch_ ? switch_->take_copied() : 0; }

  private:
    const PeerCopyAdapter::Parts parts_;
    Side side_ = Side::kNone;
    bool memory_passed_ = false;                // MEMORY has been sent or received
    std::unique_ptr<PeerCopyAdapter> adapter_;  // exists when this end has sent MEMORY
    std::unique_ptr<PeerCopySwitch> switch_;    // exists when this end can use the peer's MEMORY
};

}  // namespace pib::link
