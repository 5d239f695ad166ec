// SPDX-License-Identifier: GPL-2.0-or-later
// Both CRCs against the worked packet of IBA 7.8 and against a bit-at-a-time calculation that
// follows the text of the specification.
#include "ib/wire/crc.h"

#include <catch2/catch_test_macros.hpp>
#include <random>
#include <string_view>
#include <vector>

using namespace pib::ib;

namespace {

using Bytes = std::vector<uint8_t>;

// The example packet of IBA 7.8 as it goes on the wire, up to the ICRC; the specification prints
// it with its variant fields already masked (first byte 0xF0, thirteenth 0xFF).
const Bytes kExample = {0x70, 0x12, 0x37, 0x5C, 0x00, 0x0E, 0x17, 0xD2, 0x0A, 0x20, 0x24,
                        0x87, 0x00, 0x87, 0xB1, 0xB3, 0x00, 0x0D, 0xEC, 0x2A, 0x01, 0x71,
                        0x0A, 0x1C, 0x01, 0x5D, 0x40, 0x02, 0x38, 0xF2, 0x7A, 0x05, 0x00,
                        0x00, 0x00, 0x0E, 0xBB, 0x88, 0x4D, 0x85, 0xFD, 0x5C, 0xFB, 0xA4,
                        0x72, 0x8B, 0xC0, 0x69, 0x0E, 0xD4, 0x00, 0x00};

// A remainder by long division: low bit of each byte first, register preset to ones, result
// complemented (IBA 7.8.1, 7.8.2). `polynomial` without its top term, highest power first.
uint32_t divide(uint32_t polynomial, unsigned width, const Bytes& bytes) {
    const uint32_t top = 1U << (width - 1);
    const uint32_t mask = static_cast<uint32_t>((uint64_t{1} << width) - 1);
    uint32_t remainder = mask;
    for (const uint8_t byte : bytes) {
        for (unsigned bit = 0; bit < 8; ++bit) {
            const bool in = (byte >> bit & 1) != 0;
            const bool out = (remainder & top) != 0;
            remainder = remainder << 1 & mask;
            if (in != out) {
                remainder ^= polynomial;
            }
        }
    }
    // The highest power goes out first, as the low bit of the first byte.
    uint32_t reversed = 0;
    for (unsigned bit = 0; bit < width; ++bit) {
        reversed |= (~remainder >> bit & 1) << (width - 1 - bit);
    }
    return reversed;
}

Bytes random_bytes(std::mt19937& random, size_t count) {
    Bytes bytes(count);
    for (auto& byte : bytes) {
        byte = static_cast<uint8_t>(random());
    }
    return bytes;
}

}  // namespace

TEST_CASE("the specification's packet has the specification's ICRC") {
    // Printed as 0x9625B75A with the first byte on the wire first; here low byte first.
    CHECK(icrc(kExample) == 0x5AB72596);
}

TEST_CASE("CRC-32 gives the published check value") {
    const std::string_view text = "123456789";
    const Bytes bytes(text.begin(), text.end());
    CHECK(~crc32_update(~0U, bytes) == 0xCBF43926);
}

TEST_CASE("both CRCs equal long division at every length") {
    std::mt19937 random(1);
    for (size_t length = 0; length < 200; ++length) {
        const Bytes bytes = random_bytes(random, length);
        CHECK(vcrc(bytes) == divide(0x100B, 16, bytes));
        CHECK(~crc32_update(~0U, bytes) == divide(0x04C11DB7, 32, bytes));
    }
}

TEST_CASE("appending the VCRC low byte first leaves a constant remainder") {
    std::mt19937 random(2);
    const Bytes one = random_bytes(random, 60);
    const Bytes two = random_bytes(random, 61);
    const auto with_crc = [](Bytes bytes) {
        const uint16_t crc = vcrc(bytes);
        bytes.push_back(static_cast<uint8_t>(crc));
        bytes.push_back(static_cast<uint8_t>(crc >> 8));
        return bytes;
    };
    CHECK(vcrc(with_crc(one)) == vcrc(with_crc(two)));
}

TEST_CASE("the ICRC covers all fields but those that switches change") {
    const uint32_t crc = icrc(kExample);
    for (size_t i = 0; i < kExample.size(); ++i) {
        for (unsigned bit = 0; bit < 8; ++bit) {
            Bytes changed = kExample;
            changed[i] ^= static_cast<uint8_t>(1U << bit);
            const bool vl = i == 0 && bit >= 4;
            const bool bth_reserved = i == 12;
            const bool lnh = i == 1 && bit < 2;
            if (!lnh) {  // another LNH means another layout
                CHECK((icrc(changed) == crc) == (vl || bth_reserved));
            }
        }
    }
}

TEST_CASE("a global packet's ICRC ignores the LRH and the GRH's variant fields") {
    std::mt19937 random(3);
    Bytes packet = random_bytes(random, 8 + 40 + 12 + 20);
    packet[1] = (packet[1] & 0xFC) | 3;
    const uint32_t crc = icrc(packet);
    for (size_t i = 0; i < packet.size(); ++i) {
        for (unsigned bit = 0; bit < 8; ++bit) {
            Bytes changed = packet;
            changed[i] ^= static_cast<uint8_t>(1U << bit);
            const bool lrh = i < 8;
            const bool tclass_flow = (i == 8 && bit < 4) || (i >= 9 && i <= 11);
            const bool hop_limit = i == 15;
            const bool bth_reserved = i == 8 + 40 + 4;
            if (i != 1 || bit >= 2) {
                CHECK((icrc(changed) == crc) == (lrh || tclass_flow || hop_limit || bth_reserved));
            }
        }
    }
}

TEST_CASE("short input is masked up to its end") {
    for (size_t length = 0; length < kExample.size(); ++length) {
        Bytes head(kExample.begin(), kExample.begin() + static_cast<ptrdiff_t>(length));
        static_cast<void>(icrc(head));
        if (length > 1) {
            head[1] |= 3;
            static_cast<void>(icrc(head));
        }
    }
    SUCCEED();
}
