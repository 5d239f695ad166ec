// SPDX-License-Identifier: GPL-2.0-or-later
// Big-endian access and bit fields.
#include "ib/wire/field.h"

#include <array>
#include <catch2/catch_test_macros.hpp>

using namespace pib::ib;

TEST_CASE("loads and stores are big-endian, at compile time and at run time") {
    static constexpr uint8_t kBytes[] = {1, 2, 3, 4, 5, 6, 7, 8};
    static_assert(load_be<uint32_t>(kBytes) == 0x01020304);
    static_assert(load_be<uint64_t>(kBytes) == 0x0102030405060708);
    CHECK(load_be<uint16_t>(&kBytes[1]) == 0x0203);
    CHECK(load_be24(&kBytes[2]) == 0x030405);
    std::array<uint8_t, 8> out{};
    store_be(out.data(), uint32_t{0xA0B0C0D0});
    store_be24(&out[4], 0x123456);
    CHECK(out == std::array<uint8_t, 8>{0xA0, 0xB0, 0xC0, 0xD0, 0x12, 0x34, 0x56, 0});
}

TEST_CASE("fields count bits from the most significant one") {
    std::array<uint8_t, 8> bytes{};
    constexpr Field kNibble{4, 4};
    constexpr Field kAcross{13, 6};
    set(bytes, kNibble, 0xA);
    set(bytes, kAcross, 0x3F);
    CHECK(bytes[0] == 0x0A);
    CHECK(bytes[1] == 0x07);
    CHECK(bytes[2] == 0xE0);
    CHECK(get(bytes, kNibble) == 0xA);
    CHECK(get(bytes, kAcross) == 0x3F);
}

TEST_CASE("a write of a field changes no other bits and drops excess bits") {
    std::array<uint8_t, 4> bytes{0xFF, 0xFF, 0xFF, 0xFF};
    constexpr Field kMiddle{10, 5};
    set(bytes, kMiddle, 0);
    CHECK(bytes == std::array<uint8_t, 4>{0xFF, 0xC1, 0xFF, 0xFF});
    set(bytes, kMiddle, 0xFFFFFFE5);
    CHECK(get(bytes, kMiddle) == 0x05);
    CHECK(bytes[1] == 0xCB);
}

TEST_CASE("a field may have 64 bits") {
    std::array<uint8_t, 16> bytes{};
    constexpr Field kWide{32, 64};
    set(bytes, kWide, 0x0123456789ABCDEF);
    CHECK(get(bytes, kWide) == 0x0123456789ABCDEF);
    CHECK(bytes[4] == 0x01);
    CHECK(bytes[11] == 0xEF);
    CHECK(bytes[12] == 0);
}

TEST_CASE("a field outside the area reads zero and is not written") {
    std::array<uint8_t, 4> bytes{1, 2, 3, 4};
    constexpr Field kBeyond{28, 8};
    CHECK(get(bytes, kBeyond) == 0);
    set(bytes, kBeyond, 0xFF);
    CHECK(bytes == std::array<uint8_t, 4>{1, 2, 3, 4});
}
