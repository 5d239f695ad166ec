// SPDX-License-Identifier: GPL-2.0-or-later
#include "checksum.h"

#include <vector>

namespace pib::conformance {
namespace {

constexpr size_t kLrh = 8;
constexpr size_t kGrh = 40;
constexpr size_t kBth = 12;
constexpr uint8_t kLnhMask = 3;
constexpr uint8_t kLnhGlobal = 3;

// Polynomials with their bits reversed, as the lowest bit of a byte is sent first.
constexpr uint32_t kIcrcPolynomial = 0xedb88320;  // 0x04c11db7
constexpr uint16_t kVcrcPolynomial = 0xd008;      // 0x100b

template <typename T>
T crc(ByteSpan bytes, T polynomial) {
    T sum = static_cast<T>(~T{0});
    for (const uint8_t byte : bytes) {
        sum = static_cast<T>(sum ^ byte);
        for (int bit = 0; bit < 8; ++bit) {
            const bool low = (sum & 1) != 0;
            sum = static_cast<T>(sum >> 1);
            sum = low ? static_cast<T>(sum ^ polynomial) : sum;
        }
    }
    return static_cast<T>(~sum);
}

// Sets the fields that a switch or router may change to ones, for the ICRC (IBA 7.8.1).
void mask_variant_fields(std::vector<uint8_t>& packet) {
    if ((packet[1] & kLnhMask) != kLnhGlobal || packet.size() < kLrh + kGrh + kBth) {
        packet[0] |= 0xf0;         // LRH:VL
        packet[kLrh + 4] |= 0xff;  // BTH: FECN, BECN and six reserved bits
        return;
    }
    for (size_t i = 0; i < kLrh; ++i) {
        packet[i] = 0xff;
    }
    packet[kLrh] |= 0x0f;  // GRH:TClass and FlowLabel
    packet[kLrh + 1] = packet[kLrh + 2] = packet[kLrh + 3] = 0xff;
    packet[kLrh + 7] = 0xff;  // GRH:HopLmt
    packet[kLrh + kGrh + 4] = 0xff;
}

}  // namespace

uint32_t icrc(ByteSpan packet) {
    std::vector<uint8_t> masked(packet.begin(), packet.end());
    mask_variant_fields(masked);
    return crc(masked, kIcrcPolynomial);
}

uint16_t vcrc(ByteSpan packet) {
    return crc(packet, kVcrcPolynomial);
}

}  // namespace pib::conformance
