// SPDX-License-Identifier: GPL-2.0-or-later
#include "run.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "steps.h"

namespace pib::simulation {
namespace {

constexpr unsigned kMostTries = 3000;

Script without(const Script& script, size_t from, size_t count) {
    Script less = script;
    const auto begin = less.steps.begin() + static_cast<ptrdiff_t>(from);
    less.steps.erase(begin, begin + static_cast<ptrdiff_t>(count));
    return less;
}

void print_objects(World& world) {
    for (unsigned i = 0; i < world.setup().guests; ++i) {
        std::cerr << "guest " << i << ": " << world.subnet().guest(i).device->objects() << '\n';
    }
}

// The kind of a failure: its text without numbers.
std::string kind_of(const std::string& failure) {
    std::string kind = failure.substr(failure.find(": ") + 2);
    std::erase_if(kind, [](char letter) { return letter >= '0' && letter <= '9'; });
    return kind;
}

}  // namespace

Outcome run(const Script& script) {
    Outcome outcome;
    size_t number = 0;
    std::unique_ptr<World> world;
    try {
        world = std::make_unique<World>(script.setup);
        for (const Step& step : script.steps) {
            execute(*world, step);
            ++number;
        }
        world->finish();
        outcome.totals = world->totals;
    } catch (const std::exception& error) {
        const bool ended = number == script.steps.size();
        outcome.failure = (ended ? "at the end"
                                 : "at step " + std::to_string(number + 1) + ", " +
                                       std::string(step_kinds()[script.steps[number].kind].name)) +
                          ": " + error.what();
        if (world && std::getenv("PIB_SIMULATION_TRACE") != nullptr) {
            print_objects(*world);
        }
    }
    return outcome;
}

// Leaves out halves of the steps, quarters, and so on to single ones, as long as the script still
// fails in the same way.
Script shrink(const Script& script) {
    Script smallest = script;
    const std::string kind = kind_of(run(script).failure.value_or(": "));
    unsigned tries = 0;
    for (size_t chunk = smallest.steps.size() / 2; chunk != 0 && tries < kMostTries;) {
        const size_t before = smallest.steps.size();
        for (size_t from = 0; from < smallest.steps.size() && tries < kMostTries; ++tries) {
            const Script less =
                without(smallest, from, std::min(chunk, smallest.steps.size() - from));
            const auto failure = run(less).failure;
            if (failure && kind_of(*failure) == kind) {
                smallest = less;
            } else {
                from += chunk;
            }
        }
        chunk = chunk == 1 && smallest.steps.size() < before ? 1 : chunk / 2;
    }
    return smallest;
}

}  // namespace pib::simulation
