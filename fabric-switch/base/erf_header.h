// SPDX-License-Identifier: GPL-2.0-or-later
// The ERF header of an InfiniBand packet in a capture (link type 197).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ib/wire/field.h"
#include "ib/wire/packet.h"

namespace pib::fabric {

inline constexpr std::uint32_t kLinkTypeErf = 197;
inline constexpr std::size_t kErfHeaderBytes = 16;
// Both checksums follow the packet.
inline constexpr std::size_t kCrcBytes = ib::kIcrcSize + ib::kVcrcSize;

// `bytes`: LRH to VCRC. The time is a little-endian fixed-point number, the rest is big-endian.
inline std::array<std::uint8_t, kErfHeaderBytes> erf_header(std::uint64_t wall_ns,
                                                            std::size_t bytes) {
    constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
    constexpr std::uint8_t kInfiniBand = 21;    // record type
    constexpr std::uint8_t kVaryingLength = 4;  // flag
    std::array<std::uint8_t, kErfHeaderBytes> header{};
    const std::uint64_t time =
        wall_ns / kNsPerSecond << 32 | ((wall_ns % kNsPerSecond) << 32) / kNsPerSecond;
    for (unsigned i = 0; i < 8; ++i) {
        header[i] = static_cast<std::uint8_t>(time >> (8 * i));
    }
    header[8] = kInfiniBand;
    header[9] = kVaryingLength;
    ib::store_be(&header[10], static_cast<std::uint16_t>(kErfHeaderBytes + bytes));
    ib::store_be(&header[14], static_cast<std::uint16_t>(bytes));
    return header;
}

}  // namespace pib::fabric
