// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/key_table.h"

#include <iterator>

#include "base/config.h"
#include "memory/registration.h"

namespace pib::hca {

namespace {

// Consecutive keys are easy to guess, so a four-round Feistel network scrambles the 24-bit index.
// Both directions take a few instructions. The scrambling is no secret and replaces no R_Key check.
constexpr uint32_t kHalf = 0xfff;
constexpr uint32_t kRounds[] = {0x9e5, 0x3c7, 0xb1d, 0x64f};

constexpr uint32_t round_function(uint32_t half, uint32_t key) {
    const uint32_t x = (half + key) * 0x2545u;
    return (x ^ (x >> 7)) & kHalf;
}

constexpr uint32_t feistel(uint32_t index) {
    uint32_t left = index >> 12;
    uint32_t right = index & kHalf;
    for (const uint32_t key : kRounds) {
        left = std::exchange(right, left ^ round_function(right, key));
    }
    return left << 12 | right;
}

constexpr uint32_t unfeistel(uint32_t index) {
    uint32_t left = index >> 12;
    uint32_t right = index & kHalf;
    for (size_t i = std::size(kRounds); i > 0; --i) {
        right = std::exchange(left, right ^ round_function(left, kRounds[i - 1]));
    }
    return left << 12 | right;
}

// Index 0 stays 0, so that no region gets the privileged L_Key's index.
constexpr uint32_t scramble(uint32_t index) {
    return feistel(index) ^ feistel(0);
}
constexpr uint32_t unscramble(uint32_t index) {
    return unfeistel(index ^ feistel(0));
}
static_assert(scramble(0) == 0 && unscramble(scramble(1)) == 1 &&
              unscramble(scramble(0x3ffff)) == 0x3ffff);
static_assert(Limits::kMrs < 1u << 24);

}  // namespace

uint32_t KeyTable::number_of(uint32_t key) {
    return unscramble(key >> kKeyIndexShift);
}

uint32_t KeyTable::key_of(uint32_t number) {
    return scramble(number) << kKeyIndexShift;
}

uint32_t KeyTable::insert(MemoryKey entry, uint32_t pd) {
    ++keys_of_pd_[pd];
    const uint32_t number = keys_.insert(std::move(entry));
    if (MemoryRegion* placed = region(number)) {
        placed->number = number;
    }
    return number;
}

void KeyTable::leave(uint32_t pd) {
    const auto users = keys_of_pd_.find(pd);
    if (--users->second == 0) {
        keys_of_pd_.erase(users);
    }
}

void KeyTable::erase(uint32_t number, uint32_t pd) {
    leave(pd);
    keys_.erase(number);
}

void KeyTable::move(uint32_t from_pd, uint32_t to_pd) {
    leave(from_pd);
    ++keys_of_pd_[to_pd];
}

void KeyTable::clear() {
    keys_.clear();
    keys_of_pd_.clear();
}

uint32_t KeyTable::keys_of_pd(uint32_t pd) const {
    const auto users = keys_of_pd_.find(pd);
    return users == keys_of_pd_.end() ? 0 : users->second;
}

}  // namespace pib::hca
