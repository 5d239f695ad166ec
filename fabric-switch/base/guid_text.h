// SPDX-License-Identifier: GPL-2.0-or-later
// GUIDs as operators write them.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ib/wire/types.h"

namespace pib::fabric {

// parse_guid_digits() accepts hexadecimal digits alone, and refuses all else and the GUID 0.
[[nodiscard]] inline std::optional<ib::Guid> parse_guid_digits(std::string_view text) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (error != std::errc{} || end != text.data() + text.size() || value == 0) {
        return std::nullopt;
    }
    return ib::Guid(value);
}

// parse_guid() also accepts 0x before the digits.
[[nodiscard]] inline std::optional<ib::Guid> parse_guid(std::string_view text) {
    if (text.starts_with("0x")) {
        text.remove_prefix(2);
    }
    return parse_guid_digits(text);
}

}  // namespace pib::fabric
