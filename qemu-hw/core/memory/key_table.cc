// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/key_table.h"

#include "base/config.h"
#include "memory/registration.h"

namespace pib::hca {

namespace {

// Consecutive keys are easy to guess, so a fixed permutation scrambles the 24-bit index: two
// multiplications by odd numbers, and between them an XOR of the upper half into the lower one,
// which is its own inverse. The scrambling is not a secret and replaces no R_Key check. Index 0
// stays 0, so that no region gets the privileged L_Key's index.
constexpr uint32_t kIndexMask = 0xffffff;
constexpr uint32_t kFirst = 0x9e3779;
constexpr uint32_t kSecond = 0x85ebcb;

// The inverse of `odd` modulo 2^32, by Newton's method: each step doubles the correct low bits.
constexpr uint32_t inverse(uint32_t odd) {
    uint32_t found = odd;  // correct in the lowest 3 bits
    for (int bits = 3; bits < 32; bits *= 2) {
        found *= 2 - odd * found;
    }
    return found;
}

constexpr uint32_t multiplied(uint32_t index, uint32_t odd) {
    return index * odd & kIndexMask;
}

constexpr uint32_t folded(uint32_t index) {
    return index ^ index >> 12;
}

constexpr uint32_t scramble(uint32_t index) {
    return multiplied(folded(multiplied(index, kFirst)), kSecond);
}
constexpr uint32_t unscramble(uint32_t index) {
    constexpr uint32_t kSecondInverse = inverse(kSecond);
    constexpr uint32_t kFirstInverse = inverse(kFirst);
    return multiplied(folded(multiplied(index, kSecondInverse)), kFirstInverse);
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
