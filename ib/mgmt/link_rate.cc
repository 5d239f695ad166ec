// SPDX-License-Identifier: GPL-2.0-or-later
#include "ib/mgmt/link_rate.h"

#include <array>

namespace pib::ib {
namespace {

// Rates of one lane in 10^6 bits a second.
constexpr uint32_t kSdr = 2'000;
constexpr uint32_t kFdr = 13'636;
constexpr uint32_t kEdr = 25'000;
constexpr uint32_t kHdr = 50'000;
constexpr uint32_t kNdr = 100'000;

// Rates by code: codes 2 to 10 are multiples of SDR, 11 to 14 of FDR, 15 to 18 of EDR; the last
// four were added with 2x links and HDR.
constexpr std::array<uint32_t, kMaxRateCode + 1> kRates = {
    0,         0,         kSdr,      4 * kSdr, 12 * kSdr, 2 * kSdr,  8 * kSdr,  16 * kSdr,
    24 * kSdr, 32 * kSdr, 48 * kSdr, kFdr,     4 * kFdr,  8 * kFdr,  12 * kFdr, kEdr,
    4 * kEdr,  8 * kEdr,  12 * kEdr, 2 * kFdr, 2 * kEdr,  16 * kEdr, 24 * kEdr};

struct Step {
    uint8_t bit;
    uint32_t value;
};
constexpr Step kWidths[] = {{link_width::k1x, 1},
                            {link_width::k2x, 2},
                            {link_width::k4x, 4},
                            {link_width::k8x, 8},
                            {link_width::k12x, 12}};
constexpr Step kSpeeds[] = {
    {link_speed::kSdr, kSdr}, {link_speed::kDdr, 2 * kSdr}, {link_speed::kQdr, 4 * kSdr}};
constexpr Step kExtendedSpeeds[] = {{link_speed_ext::kFdr, kFdr},
                                    {link_speed_ext::kEdr, kEdr},
                                    {link_speed_ext::kHdr, kHdr},
                                    {link_speed_ext::kNdr, kNdr}};

template <size_t N>
uint32_t value_of(const Step (&steps)[N], uint64_t bit) {
    for (const Step& step : steps) {
        if (step.bit == bit) {
            return step.value;
        }
    }
    return 0;
}

}  // namespace

uint32_t data_mbps(uint8_t rate_code) {
    return rate_code < kRates.size() ? kRates[rate_code] : 0;
}

uint32_t active_data_mbps(const PortAttrs& port) {
    const uint32_t extended = value_of(kExtendedSpeeds, port.get(port_info::kLinkSpeedExtActive));
    const uint32_t lane =
        extended != 0 ? extended : value_of(kSpeeds, port.get(port_info::kLinkSpeedActive));
    return lane * value_of(kWidths, port.get(port_info::kLinkWidthActive));
}

}  // namespace pib::ib
