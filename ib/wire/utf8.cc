// SPDX-License-Identifier: GPL-2.0-or-later
// UTF-8 checks by the table of well-formed byte sequences (Unicode, table 3-7), without those of
// control characters.
#include "ib/wire/utf8.h"

#include <cstdint>

namespace pib::ib {
namespace {

// Range of the first byte, number of continuation bytes, and range of the second byte.
struct Sequence {
    uint8_t first_low;
    uint8_t first_high;
    uint8_t continuations;
    uint8_t second_low;
    uint8_t second_high;
};
constexpr Sequence kSequences[] = {
    {0x20, 0x7E, 0, 0, 0},       {0xC2, 0xC2, 1, 0xA0, 0xBF}, {0xC3, 0xDF, 1, 0x80, 0xBF},
    {0xE0, 0xE0, 2, 0xA0, 0xBF}, {0xE1, 0xEC, 2, 0x80, 0xBF}, {0xED, 0xED, 2, 0x80, 0x9F},
    {0xEE, 0xEF, 2, 0x80, 0xBF}, {0xF0, 0xF0, 3, 0x90, 0xBF}, {0xF1, 0xF3, 3, 0x80, 0xBF},
    {0xF4, 0xF4, 3, 0x80, 0x8F},
};

// Bytes of the first character of `text`; 0: it is malformed.
size_t character_size(std::string_view text) {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
    for (const Sequence& sequence : kSequences) {
        if (byte(0) < sequence.first_low || byte(0) > sequence.first_high) {
            continue;
        }
        const size_t size = 1U + sequence.continuations;
        if (text.size() < size) {
            return 0;
        }
        if (size > 1 && (byte(1) < sequence.second_low || byte(1) > sequence.second_high)) {
            return 0;
        }
        for (size_t i = 2; i < size; ++i) {
            if ((byte(i) & 0xC0) != 0x80) {
                return 0;
            }
        }
        return size;
    }
    return 0;
}

}  // namespace

bool is_printable_utf8(std::string_view text) {
    while (!text.empty()) {
        const size_t size = character_size(text);
        if (size == 0) {
            return false;
        }
        text.remove_prefix(size);
    }
    return true;
}

std::string_view utf8_prefix(std::string_view text, size_t max_bytes) {
    if (text.size() <= max_bytes) {
        return text;
    }
    size_t end = max_bytes;
    while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) {
        --end;
    }
    return text.substr(0, end);
}

}  // namespace pib::ib
