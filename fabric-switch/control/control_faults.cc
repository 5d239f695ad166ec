// SPDX-License-Identifier: GPL-2.0-or-later
// Faults in words.
#include "control/control_faults.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "control/control_switch.h"

namespace pib::fabric {
namespace {

using nlohmann::json;

constexpr double kNsPerUs = 1000.0;

struct Probability {
    const char* name;
    double FaultSpec::* member;
};
constexpr Probability kProbabilities[] = {{"drop", &FaultSpec::drop},
                                          {"duplicate", &FaultSpec::duplicate},
                                          {"reorder", &FaultSpec::reorder},
                                          {"corrupt", &FaultSpec::corrupt}};

std::expected<double, std::string> probability(const json& value, const std::string& name) {
    const double number = value.get<double>();
    if (!(number >= 0.0 && number <= 1.0)) {
        return std::unexpected(name + " is a probability, 0 to 1");
    }
    return number;
}

std::expected<std::uint64_t, std::string> microseconds(const json& value, const std::string& name) {
    constexpr double kMaxUs = 60e6;
    const double number = value.get<double>();
    if (!(number >= 0.0 && number <= kMaxUs)) {
        return std::unexpected(name + " is 0 to 60,000,000 microseconds");
    }
    return static_cast<std::uint64_t>(std::llround(number * kNsPerUs));
}

std::expected<void, std::string> set_fault_member(FaultSpec& spec, const std::string& name,
                                                  const json& value) {
    for (const Probability& row : kProbabilities) {
        if (name == row.name) {
            const auto p = probability(value, name);
            if (!p) {
                return std::unexpected(p.error());
            }
            spec.*row.member = *p;
            return {};
        }
    }
    if (name == "delay_us" || name == "jitter_us") {
        const auto ns = microseconds(value, name);
        if (!ns) {
            return std::unexpected(ns.error());
        }
        (name == "delay_us" ? spec.delay_ns : spec.jitter_ns) = *ns;
    } else if (name == "seed") {
        if (!value.is_number_integer() || value < 0) {
            return std::unexpected("seed is a whole number, not negative");
        }
        spec.seed = value.get<std::uint64_t>();
    } else if (name == "reorder_depth") {
        spec.reorder_depth = control_number(value);
    } else if (name == "vl15") {
        spec.vl15 = value.get<bool>();
    } else if (name == "mads_only") {
        spec.mads_only = value.get<bool>();
    } else if (name == "attribute") {
        if (control_number(value) > UINT16_MAX) {
            return std::unexpected("attribute is 0 to 65535");
        }
        spec.attribute = static_cast<std::uint16_t>(control_number(value));
    } else if (name == "opcode") {
        if (control_number(value) > UINT8_MAX) {
            return std::unexpected("opcode is 0 to 255");
        }
        spec.opcode = static_cast<std::uint8_t>(control_number(value));
    } else {
        return std::unexpected("no such fault: " + name);
    }
    return {};
}

}  // namespace

std::expected<FaultSpec, std::string> fault_spec_from(const json& members) {
    FaultSpec spec;
    if (!members.is_object()) {
        return std::unexpected("faults are an object");
    }
    for (const auto& [name, value] : members.items()) {
        if (const auto set = set_fault_member(spec, name, value); !set) {
            return std::unexpected(set.error());
        }
    }
    return spec;
}

std::expected<void, std::string> set_faults(SwitchPort& port, const std::string& direction,
                                            const FaultSpec& spec) {
    const bool in = direction == "in" || direction == "both";
    const bool out = direction == "out" || direction == "both";
    if (!in && !out) {
        return std::unexpected("direction is in, out or both");
    }
    if (in) {
        port.ingress_faults().set(spec);
    }
    if (out) {
        // A random sequence that differs from the other direction's, from the same seed.
        FaultSpec outgoing = spec;
        outgoing.seed ^= in ? 0xA5A5A5A5A5A5A5A5 : 0;
        port.egress_faults().set(outgoing);
    }
    return {};
}

// Filters make no fault by themselves.
std::string describe_faults(const FaultSpec& spec) {
    std::vector<std::string> parts;
    for (const Probability& row : kProbabilities) {
        if (spec.*row.member > 0) {
            parts.push_back(fmt::format("{} {}", row.name, spec.*row.member));
        }
    }
    if (spec.delay_ns != 0) {
        parts.push_back(fmt::format("delay {} us", static_cast<double>(spec.delay_ns) / kNsPerUs));
    }
    if (spec.jitter_ns != 0) {
        parts.push_back(
            fmt::format("jitter {} us", static_cast<double>(spec.jitter_ns) / kNsPerUs));
    }
    if (parts.empty()) {
        return "none";
    }
    if (spec.mads_only) {
        parts.emplace_back("management packets alone");
    }
    return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace pib::fabric
