// SPDX-License-Identifier: GPL-2.0-or-later
// UTF-8 as the IBA and the fabric protocol use it: names of nodes and one-line messages. They are
// logged, so control characters of a peer are refused.
#pragma once

#include <cstddef>
#include <string_view>

namespace pib::ib {

// Well-formed UTF-8 (no overlong forms, no surrogates) without control characters.
[[nodiscard]] bool is_printable_utf8(std::string_view text);

// The longest prefix of `text` that has at most `max_bytes` and splits no character.
[[nodiscard]] std::string_view utf8_prefix(std::string_view text, size_t max_bytes);

}  // namespace pib::ib
