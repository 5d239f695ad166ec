// SPDX-License-Identifier: GPL-2.0-or-later
// Big-endian loads and stores, and bit fields named the way the IBA's tables name them: an offset
// and a length in bits, counted from the most significant bit of the first byte.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace pib::ib {

// Loads `sizeof(T)` big-endian bytes; the caller has checked that they are there.
template <std::unsigned_integral T>
[[nodiscard]] constexpr T load_be(const uint8_t* from) {
    if consteval {
        T value = 0;
        for (size_t i = 0; i < sizeof(T); ++i) {
            value = static_cast<T>(static_cast<uint64_t>(value) << 8 | from[i]);
        }
        return value;
    } else {
        T value;
        std::memcpy(&value, from, sizeof(T));
        return std::endian::native == std::endian::little ? std::byteswap(value) : value;
    }
}

template <std::unsigned_integral T>
constexpr void store_be(uint8_t* to, T value) {
    if consteval {
        for (size_t i = 0; i < sizeof(T); ++i) {
            to[i] = static_cast<uint8_t>(value >> (8 * (sizeof(T) - 1 - i)));
        }
    } else {
        const T wire = std::endian::native == std::endian::little ? std::byteswap(value) : value;
        std::memcpy(to, &wire, sizeof(T));
    }
}

[[nodiscard]] constexpr uint32_t load_be24(const uint8_t* from) {
    return uint32_t{from[0]} << 16 | uint32_t{from[1]} << 8 | from[2];
}

constexpr void store_be24(uint8_t* to, uint32_t value) {
    to[0] = static_cast<uint8_t>(value >> 16);
    to[1] = static_cast<uint8_t>(value >> 8);
    to[2] = static_cast<uint8_t>(value);
}

// One row of an attribute table of IBA chapters 13 to 16. Fields are compile-time constants: a row
// wider than 64 bits or across more than eight bytes does not compile.
struct Field {
    uint16_t offset_bits = 0;
    uint8_t width_bits = 0;

    consteval Field(unsigned offset, unsigned width)
        : offset_bits(static_cast<uint16_t>(offset)), width_bits(static_cast<uint8_t>(width)) {
        if (width == 0 || width > 64 || offset % 8 + width > 64 || offset + width > 0xFFFF) {
            throw "a field is 1 to 64 bits within eight bytes";
        }
    }
    // The `index`th of several adjacent fields of this width.
    [[nodiscard]] consteval Field next(unsigned index) const {
        return {offset_bits + index * width_bits, width_bits};
    }
    [[nodiscard]] constexpr size_t first_byte() const { return offset_bits / 8; }
    [[nodiscard]] constexpr size_t end_byte() const { return (offset_bits + width_bits + 7U) / 8; }
    [[nodiscard]] constexpr uint64_t max() const { return ~uint64_t{0} >> (64 - width_bits); }
    [[nodiscard]] constexpr bool fits(size_t bytes) const { return end_byte() <= bytes; }
};

// Reads a field. A field outside `bytes` reads as zero: attribute areas have fixed sizes, so only a
// field of another attribute can lie outside.
[[nodiscard]] constexpr uint64_t get(std::span<const uint8_t> bytes, Field field) {
    if (!field.fits(bytes.size())) {
        return 0;
    }
    uint64_t value = 0;
    for (size_t i = field.first_byte(); i < field.end_byte(); ++i) {
        value = value << 8 | bytes[i];
    }
    const auto below = field.end_byte() * 8 - field.offset_bits - field.width_bits;
    return value >> below & field.max();
}

// Writes the low bits of `value` into a field. A field outside `bytes` is not written.
constexpr void set(std::span<uint8_t> bytes, Field field, uint64_t value) {
    if (!field.fits(bytes.size())) {
        return;
    }
    const auto below = field.end_byte() * 8 - field.offset_bits - field.width_bits;
    uint64_t mask = field.max() << below;
    uint64_t bits = value << below & mask;
    for (size_t i = field.end_byte(); i-- > field.first_byte();) {
        bytes[i] = static_cast<uint8_t>((bytes[i] & ~mask) | bits);
        mask >>= 8;
        bits >>= 8;
    }
}

}  // namespace pib::ib
