// SPDX-License-Identifier: GPL-2.0-or-later
// The ERF header of an InfiniBand packet in a capture (link type 197).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "ib/wire/field.h"
#include "ib/wire/packet.h"
#include "switch/packet_tap.h"

namespace pib::fabric {

inline constexpr uint32_t kLinkTypeErf = 197;
inline constexpr size_t kErfBytes = 16 + 8;  // with the extension header
// Bytes of ICRC and VCRC, which follow the packet.
inline constexpr size_t kCrcBytes = ib::kIcrcSize + ib::kVcrcSize;

// `wall_ns`: nanoseconds since 1970. `bytes`: LRH to VCRC. `lost`: packets that the capture lacks
// before this one.
struct ErfRecord {
    uint64_t wall_ns = 0;
    size_t bytes = 0;
    uint64_t lost = 0;
};

// The extension header has a type that is not assigned, the port, the LID of its switch, and the
// credits or kNoCredits (docs/pib-switch.md).
inline constexpr uint8_t kErfArrival = 0x7E;
inline constexpr uint32_t kNoCredits = UINT32_MAX;

// The time is a little-endian number in units of 2^-32 s, the rest is big-endian.
inline std::array<uint8_t, kErfBytes> erf_header(const ErfRecord& record, const Arrival& arrival) {
    constexpr uint64_t kNsPerSecond = 1'000'000'000;
    constexpr uint8_t kInfiniBand = 21;    // record type
    constexpr uint8_t kExtended = 0x80;    // an extension header follows
    constexpr uint8_t kVaryingLength = 4;  // flag
    constexpr uint64_t kMostLost = UINT16_MAX;
    std::array<uint8_t, kErfBytes> header{};
    const uint64_t time = record.wall_ns / kNsPerSecond << 32 |
                          ((record.wall_ns % kNsPerSecond) << 32) / kNsPerSecond;
    for (unsigned i = 0; i < 8; ++i) {
        header[i] = static_cast<uint8_t>(time >> (8 * i));
    }
    header[8] = kInfiniBand | kExtended;
    header[9] = kVaryingLength;
    ib::store_be(&header[10], static_cast<uint16_t>(kErfBytes + record.bytes));
    ib::store_be(&header[12], static_cast<uint16_t>(std::min(record.lost, kMostLost)));
    ib::store_be(&header[14], static_cast<uint16_t>(record.bytes));
    header[16] = kErfArrival;
    header[17] = arrival.port;
    ib::store_be(&header[18], arrival.lid);
    ib::store_be(&header[20], arrival.credits.value_or(kNoCredits));
    return header;
}

}  // namespace pib::fabric
