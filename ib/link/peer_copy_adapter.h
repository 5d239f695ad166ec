// SPDX-License-Identifier: GPL-2.0-or-later
// Peer copy at an adapter: it has handed its memory over, and asks the switch to pull the payload
// of offers to where it belongs.
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
#include "ib/link/one_copy.h"
#include "ib/wire/placement.h"

namespace pib::link {

class PeerCopyAdapter {
  public:
    // What a link consists of.
    struct Link {
        FrameChannel& channel;
        CreditLedger& credits;
        LinkTraining& training;
        BurstDelivery& delivery;
        LinkEvents& events;
    };

    // `control_memory` has one_copy_bytes(blocks) bytes and outlives the object.
    PeerCopyAdapter(const Link& link, std::uint8_t* control_memory,
                    std::span<const std::uint64_t> blocks);

    // Whether the switch has mapped the memory.
    [[nodiscard]] bool is_mapped() const {
        return control_->mapped.load(std::memory_order_acquire) == kMapped;
    }

    // The switch's offer. Its frame stays at the front of the ring while is_waiting().
    [[nodiscard]] LinkResult receive_offer(const ib::link::Frame& frame);
    [[nodiscard]] bool is_waiting() const { return awaited_.has_value(); }
    // Goes on with the offer at the front if the switch has answered, or PULL had no room.
    void proceed();
    // Of the offer at the front.
    [[nodiscard]] std::size_t frame_bytes() const;
    [[nodiscard]] bool is_answered() const;
    // Whether the switch may be writing to where link_burst() said.
    [[nodiscard]] bool is_pulling() const { return awaited_ && awaited_->asked && !is_answered(); }
    // Asks for that to end soon. True: the peer sleeps and has to be woken.
    [[nodiscard]] bool cancel();

  private:
    // The offer at the front of the ring, which is not skipped before it has been dealt with.
    struct Awaited {
        ib::link::Reference reference;
        ib::Burst burst;          // its payload is in `room_`
        std::uint16_t epoch = 0;  // of the own LINK
        bool asked = false;       // PULL is written, its answer has not been seen
        bool bounce = false;      // to `room_`, and from there packet by packet
        ib::Placement payload{};
    };

    void answered(PullResult result);
    void ask();
    void locate();
    void send_pull();
    void finish();
    [[nodiscard]] bool holds() const;

    const Link link_;
    const std::vector<std::uint64_t> blocks_;  // of the adapter's memory, bytes
    const std::span<std::uint8_t> room_;       // kReferenceRoom bytes
    OneCopyControl* const control_;
    std::uint32_t sequence_ = 0;     // of the last PULL
    std::uint64_t last_handle_ = 0;  // that came in
    std::optional<Awaited> awaited_;
};

}  // namespace pib::link
