// SPDX-License-Identifier: GPL-2.0-or-later
// Peer copy at a switch: handles the offers and pulls of an adapter that has shared its memory.
// Both name segments of that memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ib/link/burst_delivery.h"
#include "ib/link/credit_ledger.h"
#include "ib/link/link_events.h"
#include "ib/link/link_training.h"
#include "ib/link/peer_copy_control.h"

namespace pib::link {

class PeerCopySwitch {
  public:
    // The other parts of the link.
    struct Parts {
        CreditLedger& credits;
        const LinkTraining& training;
        BurstDelivery& delivery;
        LinkEvents& events;
    };

    // Handles MEMORY. nullptr: the memory is unusable, and the link continues without it.
    [[nodiscard]] static std::expected<std::unique_ptr<PeerCopySwitch>, LinkFailure> create(
        const link::Frame& memory, const Parts& parts);
    // `blocks` are the sizes of the adapter's blocks in bytes; `room` has kOfferRoom bytes.
    PeerCopySwitch(const Parts& parts, std::vector<uint64_t> blocks, std::span<uint8_t> room);

    [[nodiscard]] LinkResult receive_offer(const link::Frame& frame);
    [[nodiscard]] LinkResult receive_pull(const link::Frame& frame);
    // Bytes of payload copied from the adapter's memory since the last call.
    [[nodiscard]] size_t take_copied() { return std::exchange(copied_, 0); }

  private:
    void deliver(ib::Burst& burst, const link::Offer& offer);

    const Parts parts_;
    const std::vector<uint64_t> blocks_;
    const std::span<uint8_t> room_;
    size_t copied_ = 0;
};

}  // namespace pib::link
