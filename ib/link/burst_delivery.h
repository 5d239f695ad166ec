// SPDX-License-Identifier: GPL-2.0-or-later
// Delivers received packets: makes bursts of PACKET and BURST frames, checks them, takes their
// credits, and passes them to LinkEvents.
#pragma once

#include <cstdint>

#include "ib/link/credit_ledger.h"
#include "ib/link/link_events.h"
#include "ib/link/link_training.h"
#include "ib/wire/burst.h"
#include "ib/wire/link_frame.h"
#include "ib/wire/packet.h"

namespace pib::link {

class BurstDelivery {
  public:
    BurstDelivery(const LinkTraining& training, CreditLedger& credits, LinkEvents& events)
        : training_(training), credits_(credits), events_(events) {}

    [[nodiscard]] LinkResult receive_packet(const link::Frame& frame);
    // A BURST with payload.
    [[nodiscard]] LinkResult receive_burst(const link::Frame& frame);

    // Peer copy calls these after it has taken the packets' credits. fits(): whether no packet
    // exceeds MTUCap. deliver_parts(): delivers the packets, whose payload must be in memory unless
    // the link is down or fits() is false. drop(): returns the credits of undelivered packets.
    [[nodiscard]] bool fits(const ib::Burst& burst) const;
    void deliver_parts(const ib::Burst& burst);
    void drop(const ib::Burst& burst);

  private:
    void deliver(ib::Burst& burst);
    uint32_t deliver_rest(ib::Burst& burst, uint32_t from);
    void deliver_packet(std::expected<ib::Burst, PacketFault>&& packet, unsigned vl,
                        uint32_t blocks);
    void overrun(unsigned vl, uint32_t packets);

    const LinkTraining& training_;
    CreditLedger& credits_;
    LinkEvents& events_;
};

}  // namespace pib::link
