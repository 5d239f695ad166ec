// SPDX-License-Identifier: GPL-2.0-or-later
// HELLO, WELCOME and REFUSE (docs/fabric-protocol.md, "Handshake"). Each function handles the
// peer's frame; an error ends the connection.
#pragma once

#include <cstdint>
#include <expected>

#include "ib/link/frame_channel.h"
#include "ib/link/link_events.h"
#include "ib/wire/link_frame.h"

namespace pib::link {

// Bits of link::kFeature... that both sides have agreed on.
using Features = std::expected<uint32_t, LinkFailure>;

// The listening side: answers HELLO with WELCOME or REFUSE.
[[nodiscard]] Features answer_hello(const link::Frame& frame, FrameChannel& channel,
                                    LinkEvents& events);
// The connecting side. `asked` are the features of its HELLO.
[[nodiscard]] Features accept_welcome(const link::Frame& frame, uint32_t asked, LinkEvents& events);
[[nodiscard]] LinkFailure accept_refusal(const link::Frame& frame, LinkEvents& events);

}  // namespace pib::link
