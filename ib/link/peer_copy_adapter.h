// SPDX-License-Identifier: GPL-2.0-or-later
// Peer copy at an adapter, which has shared its memory with the switch: asks the switch to copy the
// payload of each received offer to its target.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ib/link/burst_delivery.h"
#include "ib/link/frame_channel.h"
#include "ib/link/link_events.h"
#include "ib/link/link_training.h"
#include "ib/link/peer_copy_control.h"
#include "ib/wire/placement.h"

namespace pib::link {

class PeerCopyAdapter {
  public:
    // The other parts of the link.
    struct Parts {
        FrameChannel& channel;
        CreditLedger& credits;
        LinkTraining& training;
        BurstDelivery& delivery;
        LinkEvents& events;
    };

    // `control_memory` has peer_copy_bytes(blocks) bytes and outlives the object.
    PeerCopyAdapter(const Parts& parts, uint8_t* control_memory, std::span<const uint64_t> blocks);

    // Whether the switch has mapped the memory.
    [[nodiscard]] bool is_mapped() const {
        return control_->mapped.load(std::memory_order_acquire) == kMapped;
    }

    // Handles an offer from the switch. Its frame stays at the front of the ring while
    // is_waiting().
    [[nodiscard]] LinkResult receive_offer(const link::Frame& frame);
    [[nodiscard]] bool is_waiting() const { return awaited_.has_value(); }
    // Continues with the offer at the front: handles the switch's answer, or sends PULL if there
    // was no room for it.
    void proceed();
    // Bytes of the frame that holds the offer.
    [[nodiscard]] size_t frame_bytes() const;
    // While is_waiting(): whether the switch has answered the PULL.
    [[nodiscard]] bool is_answered() const;
    // Whether the switch may be writing to the place that link_burst() chose.
    [[nodiscard]] bool is_pulling() const { return awaited_ && awaited_->asked && !is_answered(); }
    // Cancels the pull. True: the peer sleeps and must be woken.
    [[nodiscard]] bool cancel();

  private:
    // The offer at the front of the ring. Its frame is skipped after the offer is finished.
    struct Awaited {
        link::Offer offer;
        ib::Burst burst;      // its payload refers to `room_`
        uint16_t epoch = 0;   // epoch of this side at the offer's arrival
        bool asked = false;   // PULL is sent, its answer not yet handled
        bool bounce = false;  // the pull copies to `room_`; packets are delivered from it
        ib::Placement payload{};
    };

    void answered(PullResult result);
    void ask();
    void locate();
    void send_pull();
    void finish();
    [[nodiscard]] bool holds() const;

    const Parts parts_;
    const std::vector<uint64_t> blocks_;  // sizes in bytes
    const std::span<uint8_t> room_;       // kOfferRoom bytes
    PeerCopyControl* const control_;
    uint32_t sequence_ = 0;     // sequence of the last PULL
    uint64_t last_handle_ = 0;  // handle of the last offer
    std::optional<Awaited> awaited_;
};

}  // namespace pib::link
