// SPDX-License-Identifier: GPL-2.0-or-later
// One line a packet, for traces and for the messages of failing tests. Not for parsing: the form
// may change.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ib/wire/mad.h"
#include "ib/wire/packet.h"

namespace pib::ib {

// Takes any bytes. What cannot be read is shown by its error and its first bytes.
[[nodiscard]] std::string dump_packet(std::span<const std::uint8_t> bytes, Crcs crcs);

[[nodiscard]] std::string dump_mad(const Mad& mad);

}  // namespace pib::ib
