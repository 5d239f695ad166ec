// SPDX-License-Identifier: GPL-2.0-or-later
// Names by number, for reports of the device.
#pragma once

#include <array>
#include <cstddef>

namespace pib::hca {

// The name at the value's number; "?" where the table has none.
template <typename Value, size_t N>
constexpr const char* name_at(const std::array<const char*, N>& names, Value value) {
    const auto number = static_cast<size_t>(value);
    return number < N && names[number] != nullptr ? names[number] : "?";
}

}  // namespace pib::hca
