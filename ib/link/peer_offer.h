// SPDX-License-Identifier: GPL-2.0-or-later
// The checks of an offer that both sides of peer copy share. An offer is a BURST whose payload
// stays in the sender's memory (docs/fabric-protocol.md, "Peer copy").
#pragma once

#include <cstdint>
#include <expected>
#include <span>

#include "ib/link/credit_ledger.h"
#include "ib/link/link_events.h"
#include "ib/wire/burst.h"
#include "ib/wire/link_frame.h"

namespace pib::link {

// Parses the offer of the frame.
[[nodiscard]] std::expected<link::Offer, LinkFailure> parse_offer(const link::Frame& frame);
// Parses the frame's packets and takes their credits. `room` will hold their payload.
[[nodiscard]] std::expected<ib::Burst, LinkFailure> offered_burst(const link::Frame& frame,
                                                                  const link::Offer& offer,
                                                                  std::span<const uint8_t> room,
                                                                  CreditLedger& credits);

}  // namespace pib::link
