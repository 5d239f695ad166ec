// SPDX-License-Identifier: GPL-2.0-or-later
// A difference between the fabric and the reference model.
#pragma once

#include <stdexcept>
#include <string>

namespace pib::simulation {

struct Violation : std::runtime_error {
    using std::runtime_error::runtime_error;
};

inline void require(bool holds, const std::string& text) {
    if (!holds) {
        throw Violation(text);
    }
}

}  // namespace pib::simulation
