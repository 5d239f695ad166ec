// SPDX-License-Identifier: GPL-2.0-or-later
// GUIDs as operators write them.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ib/wire/types.h"

namespace pib::fabric {

// parse_guid() accepts hexadecimal digits, with 0x or without, and refuses all else and the GUID 0.
inline std::optional<ib::Guid> parse_guid(std::string_view text) {
    if (text.starts_with("0x")) {
        text.remove_prefix(2);
    }
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (error != std::errc{} || end != text.data() + text.size() || value == 0) {
        return std::nullopt;
    }
    return ib::Guid(value);
}

}  // namespace pib::fabric
