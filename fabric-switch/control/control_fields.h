// SPDX-License-Identifier: GPL-2.0-or-later
// The fields of a request: which JSON type each has, and which a command needs.
#pragma once

#include <cstdint>
#include <expected>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

namespace pib::fabric {

enum class FieldType : uint8_t { kText, kFlag, kPort };

struct RequestField {
    const char* name;
    FieldType type;
    const char* expected;  // the valid values in words: "up or down"
    bool needed = false;
};

inline constexpr RequestField kCommandField{"command", FieldType::kText,
                                            "the name of a command as text", true};

// Checks that the request contains each needed field, and that each of `fields` that it contains
// has its type. A field of type kPort is a whole number or text. The error is one line for a user.
[[nodiscard]] std::expected<void, std::string> check_fields(const nlohmann::json& request,
                                                            std::span<const RequestField> fields);

// `value` if it is a whole number from 0 to 2^32 - 2, else UINT32_MAX; the caller checks the range.
[[nodiscard]] unsigned control_number(const nlohmann::json& value);

}  // namespace pib::fabric
