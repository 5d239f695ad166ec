// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/json.h"

#include <array>
#include <cstdio>

namespace pib::hca {

void JsonWriter::start(std::string_view key) {
    if (!first_) {
        text_ += ',';
    }
    first_ = false;
    if (!key.empty()) {
        quote(key);
        text_ += ':';
    }
}

void JsonWriter::open(std::string_view key, char bracket) {
    start(key);
    text_ += bracket;
    first_ = true;
}

void JsonWriter::close(char bracket) {
    text_ += bracket;
    first_ = false;
}

void JsonWriter::quote(std::string_view text) {
    text_ += '"';
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            text_ += '\\';
            text_ += c;
        } else if (byte < 0x20) {
            std::array<char, 8> escape;
            std::snprintf(escape.data(), escape.size(), "\\u%04x", byte);
            text_ += escape.data();
        } else {
            text_ += c;
        }
    }
    text_ += '"';
}

void JsonWriter::member(std::string_view key, std::string_view text) {
    start(key);
    quote(text);
}

void JsonWriter::member(std::string_view key, bool value) {
    start(key);
    text_ += value ? "true" : "false";
}

void JsonWriter::number(std::string_view key, uint64_t value) {
    start(key);
    text_ += std::to_string(value);
}

void JsonWriter::hex(std::string_view key, uint64_t value) {
    std::array<char, 24> digits;
    std::snprintf(digits.data(), digits.size(), "0x%llx", static_cast<unsigned long long>(value));
    member(key, digits.data());
}

void JsonWriter::hex(std::string_view key, std::span<const uint8_t> bytes) {
    static constexpr std::string_view kDigits = "0123456789abcdef";
    std::string digits;
    digits.reserve(2 * bytes.size());
    for (const uint8_t byte : bytes) {
        digits += kDigits[byte >> 4];
        digits += kDigits[byte & 0xf];
    }
    member(key, digits);
}

}  // namespace pib::hca
