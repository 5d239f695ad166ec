// SPDX-License-Identifier: GPL-2.0-or-later
#include "control/control_fields.h"

#include <nlohmann/json.hpp>

namespace pib::fabric {
namespace {

using nlohmann::json;

bool has_type(const json& value, FieldType type) {
    switch (type) {
        case FieldType::kText:
            return value.is_string();
        case FieldType::kFlag:
            return value.is_boolean();
        case FieldType::kPort:
            break;
    }
    return value.is_string() || value.is_number_integer();
}

}  // namespace

std::expected<void, std::string> check_fields(const json& request,
                                              std::span<const RequestField> fields) {
    for (const RequestField& field : fields) {
        const auto found = request.find(field.name);
        if (found == request.end()) {
            if (field.needed) {
                return std::unexpected(std::string(field.name) + " is missing: " + field.expected);
            }
        } else if (!has_type(*found, field.type)) {
            return std::unexpected(std::string(field.name) + " is " + field.expected);
        }
    }
    return {};
}

unsigned control_number(const json& value) {
    const int64_t number = value.is_number_integer() ? value.get<int64_t>() : -1;
    return number >= 0 && number < UINT32_MAX ? static_cast<unsigned>(number) : UINT32_MAX;
}

}  // namespace pib::fabric
