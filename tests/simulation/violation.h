// SPDX-License-Identifier: GPL-2.0-or-later
// A difference between the fabric and the reference model.
#pragma once

#include <concepts>
#include <stdexcept>
#include <string>

namespace pib::simulation {

struct Violation : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// `name` returns the thing that differs: most checks hold, and need no text.
template <std::invocable Name>
void require(bool holds, const Name& name, const char* difference) {
    if (!holds) [[unlikely]] {
        throw Violation(name() + difference);
    }
}

inline void require(bool holds, const std::string& name, const char* difference) {
    require(holds, [&name] { return name; }, difference);
}

inline void require(bool holds, const char* difference) {
    require(holds, [] { return std::string(); }, difference);
}

}  // namespace pib::simulation
