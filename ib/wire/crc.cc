// SPDX-License-Identifier: GPL-2.0-or-later
// Computes both CRCs eight bytes at a time with eight tables each (slicing-by-8), made at compile
// time.
#include "ib/wire/crc.h"

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>

#include "ib/wire/headers.h"

namespace pib::ib {
namespace {

template <std::unsigned_integral T>
using Slices = std::array<std::array<T, 256>, 8>;

// Tables of a CRC that takes bytes low bit first; `polynomial` is bit-reversed accordingly.
template <std::unsigned_integral T>
constexpr Slices<T> make_slices(T polynomial) {
    Slices<T> slices{};
    for (unsigned byte = 0; byte < 256; ++byte) {
        T state = static_cast<T>(byte);
        for (unsigned bit = 0; bit < 8; ++bit) {
            state = static_cast<T>(state >> 1 ^ ((state & 1U) != 0 ? polynomial : T{0}));
        }
        slices[0][byte] = state;
    }
    for (size_t slice = 1; slice < slices.size(); ++slice) {
        for (size_t byte = 0; byte < 256; ++byte) {
            const T before = slices[slice - 1][byte];
            slices[slice][byte] = static_cast<T>(before >> 8 ^ slices[0][before & 0xFF]);
        }
    }
    return slices;
}

// x^32 + ... + 1, the CRC-32 of Ethernet, and x^16 + x^12 + x^3 + x + 1, both bit-reversed.
constexpr Slices<uint32_t> kCrc32 = make_slices<uint32_t>(0xEDB88320);
constexpr Slices<uint16_t> kCrc16 = make_slices<uint16_t>(0xD008);

uint64_t load_le64(const uint8_t* from) {
    uint64_t value;
    std::memcpy(&value, from, sizeof(value));
    return std::endian::native == std::endian::little ? value : std::byteswap(value);
}

template <std::unsigned_integral T>
T update(const Slices<T>& slices, T state, std::span<const uint8_t> bytes) {
    while (bytes.size() >= 8) {
        const uint64_t word = load_le64(bytes.data()) ^ state;
        state = 0;
        for (unsigned i = 0; i < 8; ++i) {
            state = static_cast<T>(state ^ slices[7 - i][word >> (8 * i) & 0xFF]);
        }
        bytes = bytes.subspan(8);
    }
    for (const uint8_t byte : bytes) {
        state = static_cast<T>(state >> 8 ^ slices[0][(state ^ byte) & 0xFF]);
    }
    return state;
}

// A copy of the headers with ones in the fields that may change on the way (7.8.1): LRH VL; GRH
// TClass, Flow Label and Hop Limit; the byte of the BTH that holds FECN and BECN. A global packet
// may cross routers, which replace its LRH, so its whole LRH is ones.
constexpr size_t kMaskedMax = Lrh::kSize + Grh::kSize + Bth::kSize;

struct MaskedHeaders {
    std::array<uint8_t, kMaskedMax> bytes{};
    size_t size = 0;
};

MaskedHeaders mask(std::span<const uint8_t> packet, bool global) {
    MaskedHeaders masked;
    const size_t wanted = kMaskedMax - (global ? 0 : Grh::kSize);
    masked.size = std::min(wanted, packet.size());
    std::copy_n(packet.begin(), masked.size, masked.bytes.begin());
    auto& b = masked.bytes;
    b[0] |= 0xF0;
    size_t bth = Lrh::kSize;
    if (global) {
        std::fill_n(b.begin(), Lrh::kSize, uint8_t{0xFF});
        b[Lrh::kSize] |= 0x0F;
        b[Lrh::kSize + 1] = b[Lrh::kSize + 2] = b[Lrh::kSize + 3] = 0xFF;
        b[Lrh::kSize + 7] = 0xFF;
        bth += Grh::kSize;
    }
    b[bth + 4] = 0xFF;
    return masked;
}

}  // namespace

uint32_t crc32_update(uint32_t state, std::span<const uint8_t> bytes) {
    return update(kCrc32, state, bytes);
}

uint32_t icrc(std::span<const uint8_t> packet) {
    const bool global =
        packet.size() >= 2 && (packet[1] & 0x3) == static_cast<unsigned>(Lnh::kIbaGlobal);
    const MaskedHeaders masked = mask(packet, global);
    uint32_t state = ~uint32_t{0};
    state = crc32_update(state, std::span(masked.bytes).first(masked.size));
    state = crc32_update(state, packet.subspan(masked.size));
    return ~state;
}

uint16_t vcrc(std::span<const uint8_t> packet) {
    return static_cast<uint16_t>(~update(kCrc16, uint16_t{0xFFFF}, packet));
}

}  // namespace pib::ib
