// SPDX-License-Identifier: GPL-2.0-or-later
// What both sides of peer copy check of an offer: a RUN whose payload stays in its sender's memory
// (docs/fabric-protocol.md, "One copy").
#pragma once

#include <cstdint>
#include <expected>
#include <span>

#include "ib/link/credit_ledger.h"
#include "ib/link/link_events.h"
#include "ib/wire/burst.h"
#include "ib/wire/link_frame.h"

namespace pib::link {

// The frame's reference.
[[nodiscard]] std::expected<ib::link::Reference, LinkFailure> offered_reference(
    const ib::link::Frame& frame);
// The frame's packets, whose payload will be in `room`; their credit has been taken.
[[nodiscard]] std::expected<ib::Burst, LinkFailure> offered_burst(
    const ib::link::Frame& frame, const ib::link::Reference& reference,
    std::span<const std::uint8_t> room, CreditLedger& credits);

}  // namespace pib::link
