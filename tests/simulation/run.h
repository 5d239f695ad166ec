// SPDX-License-Identifier: GPL-2.0-or-later
// Runs a script, and shrinks a script that fails.
#pragma once

#include <optional>
#include <string>

#include "script.h"
#include "world.h"

namespace pib::simulation {

struct Outcome {
    Totals totals;
    std::optional<std::string> failure = std::nullopt;
};

Outcome run(const Script& script);
// Returns the script without the steps that its failure does not need.
Script shrink(const Script& script);

}  // namespace pib::simulation
