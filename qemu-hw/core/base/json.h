// SPDX-License-Identifier: GPL-2.0-or-later
// A JSON writer (RFC 8259) for reports of the device to tools. It appends to the text, and adds
// commas and escapes.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace pib::hca {

class JsonWriter {
  public:
    // begin_…() opens a container, and end_…() closes it after its members are written. Members of
    // an object have a key; elements of an array have an empty key.
    void begin_object(std::string_view key = {}) { open(key, '{'); }
    void end_object() { close('}'); }
    void begin_array(std::string_view key = {}) { open(key, '['); }
    void end_array() { close(']'); }

    void member(std::string_view key, std::string_view text);
    void member(std::string_view key, const char* text) { member(key, std::string_view(text)); }
    void member(std::string_view key, bool value);
    template <std::unsigned_integral T>
        requires(!std::same_as<T, bool>)
    void member(std::string_view key, T value) {
        number(key, value);
    }
    // Writes a string of hexadecimal digits, because JSON readers may lose bits of 64-bit numbers.
    // The digits of a number begin with "0x"; bytes have two digits each.
    void hex(std::string_view key, uint64_t value);
    void hex(std::string_view key, std::span<const uint8_t> bytes);

    const std::string& text() const { return text_; }

  private:
    void open(std::string_view key, char bracket);
    void close(char bracket);
    void start(std::string_view key);
    void quote(std::string_view text);
    void number(std::string_view key, uint64_t value);

    std::string text_;
    bool first_ = true;  // the next element is the first of its container
};

}  // namespace pib::hca
