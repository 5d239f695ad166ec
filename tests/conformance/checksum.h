// SPDX-License-Identifier: GPL-2.0-or-later
// The checksums of IBA 7.8, bit by bit from their polynomials.
#pragma once

#include <cstdint>
#include <span>

namespace pib::conformance {

using ByteSpan = std::span<const uint8_t>;

// The ICRC covers a packet from LRH to pad (7.8.1).
uint32_t icrc(ByteSpan packet);
// The VCRC covers a packet from LRH to ICRC (7.8.2).
uint16_t vcrc(ByteSpan packet);

}  // namespace pib::conformance
