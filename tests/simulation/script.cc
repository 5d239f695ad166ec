// SPDX-License-Identifier: GPL-2.0-or-later
#include "script.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <span>
#include <sstream>

#include "steps.h"

namespace pib::simulation {
namespace {

using Random = std::mt19937_64;

uint32_t word(Random& random) {
    return static_cast<uint32_t>(random());
}

// Whether a fabric with these hazards has steps of this kind.
bool happens(const StepKind& kind, uint32_t hazards) {
    return kind.hazard == 0 || (hazards & kind.hazard) != 0;
}

size_t draw_kind(Random& random, const Setup& setup, unsigned total) {
    const std::span<const StepKind> kinds = step_kinds();
    uint64_t left = random() % total;
    for (size_t i = 0; i < kinds.size(); ++i) {
        const uint64_t weight = happens(kinds[i], setup.hazards) ? kinds[i].weight : 0;
        if (left < weight) {
            return i;
        }
        left -= weight;
    }
    return 0;
}

}  // namespace

Setup make_setup(uint64_t seed) {
    Random random(seed);
    Setup setup{.seed = seed};
    setup.guests = 2 + static_cast<unsigned>(random() % 3);
    setup.connections = 1 + static_cast<unsigned>(random() % 4);
    setup.link_mode = static_cast<unsigned>(random() % 3);
    // A fifth of the fabrics is free of hazards; the others have some of them.
    setup.hazards = random() % 5 == 0 ? 0 : word(random);
    setup.steps = 200 + random() % 2000;
    // A third of the fabrics has only connections.
    setup.lines = random() % 3 == 0 ? 0 : 1 + static_cast<unsigned>(random() % 4);
    return setup;
}

Script make_script(uint64_t seed) {
    Script script{.setup = make_setup(seed), .steps = {}};
    Random random(seed + 0x5eed);
    const std::span<const StepKind> kinds = step_kinds();
    const unsigned total =
        std::accumulate(kinds.begin(), kinds.end(), 0u, [&](unsigned sum, const StepKind& kind) {
            return sum + (happens(kind, script.setup.hazards) ? kind.weight : 0);
        });
    for (size_t i = 0; i < script.setup.steps; ++i) {
        const size_t kind = draw_kind(random, script.setup, total);
        script.steps.push_back(
            {.kind = kind, .a = word(random), .b = word(random), .c = word(random)});
    }
    return script;
}

std::string to_text(const Script& script) {
    std::ostringstream text;
    text << "seed " << script.setup.seed << '\n';
    for (const Step& step : script.steps) {
        text << step_kinds()[step.kind].name << ' ' << step.a << ' ' << step.b << ' ' << step.c
             << '\n';
    }
    return text.str();
}

std::expected<Script, std::string> parse_script(std::string_view text) {
    std::istringstream in{std::string(text)};
    std::string name;
    uint64_t seed = 0;
    if (!(in >> name >> seed) || name != "seed") {
        return std::unexpected("a script begins with \"seed NUMBER\"");
    }
    Script script{.setup = make_setup(seed), .steps = {}};
    while (in >> name) {
        const auto kinds = step_kinds();
        const auto kind = std::ranges::find(kinds, name, &StepKind::name);
        Step step{.kind = static_cast<size_t>(kind - kinds.begin())};
        if (kind == kinds.end() || !(in >> step.a >> step.b >> step.c)) {
            return std::unexpected("no step with three numbers: " + name);
        }
        script.steps.push_back(step);
    }
    return script;
}

}  // namespace pib::simulation
