// SPDX-License-Identifier: GPL-2.0-or-later
// One line per packet, for traces and for failing tests. The format may change, so programs must
// not parse it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ib/wire/mad.h"
#include "ib/wire/packet.h"

namespace pib::ib {

// Accepts any bytes; of a malformed packet the text has the error and the first bytes.
[[nodiscard]] std::string dump_packet(std::span<const uint8_t> bytes, Crcs crcs);

[[nodiscard]] std::string dump_mad(const Mad& mad);

}  // namespace pib::ib
