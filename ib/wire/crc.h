// SPDX-License-Identifier: GPL-2.0-or-later
// The two checksums of an InfiniBand packet (IBA 7.8). Both are returned as the number whose
// little-endian bytes go on the wire: the IBA shifts each byte in and out low bit first.
#pragma once

#include <cstdint>
#include <span>

namespace pib::ib {

// Invariant CRC over the fields that no switch or router changes. `packet` runs from the first byte
// of the LRH to the last before the ICRC; variable fields are masked here (7.8.1). A packet that is
// too short for the headers that its LNH names is masked up to its end.
[[nodiscard]] uint32_t icrc(std::span<const uint8_t> packet);

// Variant CRC over everything from the first byte of the LRH to the last before the VCRC (7.8.2).
[[nodiscard]] uint16_t vcrc(std::span<const uint8_t> packet);

// Continues a CRC-32, which has the polynomial of the ICRC, with these bytes and returns the new
// state. The first `state` is ~0; the CRC is the complement of the last state.
[[nodiscard]] uint32_t crc32_update(uint32_t state, std::span<const uint8_t> bytes);

}  // namespace pib::ib
