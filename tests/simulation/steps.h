// SPDX-License-Identifier: GPL-2.0-or-later
// The kinds of steps: actions of guests, and faults.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "script.h"
#include "world.h"

namespace pib::simulation {

struct StepKind {
    std::string_view name;
    unsigned weight;
    uint32_t hazard;  // bit of Setup::hazards; 0: every fabric has such steps
    bool is_fault;
    void (*execute)(World& world, const Step& step);
};

std::span<const StepKind> step_kinds();
void execute(World& world, const Step& step);

}  // namespace pib::simulation
