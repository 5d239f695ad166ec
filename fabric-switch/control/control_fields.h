// SPDX-License-Identifier: GPL-2.0-or-later
// The fields of a request: which JSON type each has, and which a command needs.
#pragma once

#include <cstdint>
#include <expected>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

namespace pib::fabric {

enum class FieldType : std::uint8_t { kText, kFlag, kPort };

struct RequestField {
    const char* name;
    FieldType type;
    const char* expected;  // "up or down": the error says it after the name
    bool needed = false;
};

inline constexpr RequestField kCommandField{"command", FieldType::kText,
                                            "the name of a command as text", true};

// After success a command may read each of `fields` that the request contains as its type, and
// contains those that are needed. A field of type kPort is a whole number or text. The error is one
// line for a user.
[[nodiscard]] std::expected<void, std::string> check_fields(const nlohmann::json& request,
                                                            std::span<const RequestField> fields);

// A whole number of 32 bits, else UINT32_MAX; the caller checks its range.
[[nodiscard]] unsigned control_number(const nlohmann::json& value);

}  // namespace pib::fabric
