// SPDX-License-Identifier: GPL-2.0-or-later
#include "content.h"

#include <algorithm>
#include <cstring>

namespace pib::simulation {

Bytes random_bytes(uint64_t seed, size_t length) {
    Bytes data(length);
    uint64_t bits = seed * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < length; i += sizeof bits) {
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        const uint64_t mixed = (bits ^ bits >> 32) * 0x9e3779b97f4a7c15u;
        std::memcpy(&data[i], &mixed, std::min(sizeof mixed, length - i));
    }
    return data;
}

}  // namespace pib::simulation
