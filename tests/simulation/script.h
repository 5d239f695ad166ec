// SPDX-License-Identifier: GPL-2.0-or-later
// A run of the simulation as data: a seed, and steps with their own random numbers, so that a step
// means the same when others are left out.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace pib::simulation {

struct Step {
    size_t kind = 0;  // index in step_kinds()
    uint32_t a = 0;
    uint32_t b = 0;
    uint32_t c = 0;
};

// The fabric of a seed.
struct Setup {
    uint64_t seed = 1;
    unsigned guests = 2;
    unsigned connections = 1;
    unsigned link_mode = 0;  // a test::LinkMode
    uint32_t hazards = 0;    // StepKind::hazard of the possible steps
    size_t steps = 0;
    unsigned lines = 0;  // see line.h
};

struct Script {
    Setup setup;
    std::vector<Step> steps;
};

Setup make_setup(uint64_t seed);
Script make_script(uint64_t seed);
std::string to_text(const Script& script);
// The error explains why the text is not a script.
std::expected<Script, std::string> parse_script(std::string_view text);

}  // namespace pib::simulation
