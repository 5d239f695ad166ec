// SPDX-License-Identifier: GPL-2.0-or-later
// A node, or a port of a node, as an operator writes it: "leaf 1"[3], leaf1[3], leaf1.
#pragma once

#include <charconv>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

namespace pib::fabric {

struct PortReference {
    std::string node;
    std::optional<unsigned> port;

    // No value if `text` is neither.
    [[nodiscard]] static std::optional<PortReference> parse(std::string_view text) {
        PortReference found;
        if (text.ends_with(']')) {
            const size_t open = text.rfind('[');
            unsigned number = 0;
            const char* end = text.data() + text.size() - 1;
            if (open == std::string_view::npos) {
                return std::nullopt;
            }
            const auto [stop, error] = std::from_chars(text.data() + open + 1, end, number);
            if (error != std::errc{} || stop != end) {
                return std::nullopt;
            }
            found.port = number;
            text = text.substr(0, open);
        }
        if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
            text = text.substr(1, text.size() - 2);
        }
        found.node = text;
        return text.empty() ? std::nullopt : std::optional(found);
    }
};

}  // namespace pib::fabric
