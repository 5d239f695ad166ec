// SPDX-License-Identifier: GPL-2.0-or-later
// Fault specifications as members of a request, and in words.
#include "control/control_faults.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <ranges>
#include <vector>

#include "control/control_fields.h"

namespace pib::fabric {
namespace {

using nlohmann::json;

constexpr double kNsPerUs = 1000.0;
constexpr unsigned kMaxReorderDepth = 65'536;

struct Probability {
    const char* name;
    double FaultSpec::* member;
};
constexpr Probability kProbabilities[] = {{"drop", &FaultSpec::drop},
                                          {"duplicate", &FaultSpec::duplicate},
                                          {"reorder", &FaultSpec::reorder},
                                          {"corrupt", &FaultSpec::corrupt}};

// Setters of members. They return false if the member does not accept `value`.
template <double FaultSpec::* kMember>
bool set_probability(FaultSpec& spec, const json& value) {
    const double number = value.is_number() ? value.get<double>() : -1;
    spec.*kMember = number;
    return number >= 0.0 && number <= 1.0;
}

template <uint64_t FaultSpec::* kMember>
bool set_time(FaultSpec& spec, const json& value) {
    constexpr double kMaxUs = 60e6;
    const double number = value.is_number() ? value.get<double>() : -1;
    const bool good = number >= 0.0 && number <= kMaxUs;
    spec.*kMember = good ? static_cast<uint64_t>(std::llround(number * kNsPerUs)) : 0;
    return good;
}

template <bool FaultSpec::* kMember>
bool set_flag(FaultSpec& spec, const json& value) {
    spec.*kMember = value == true;
    return value.is_boolean();
}

template <auto kMember, typename Number>
bool set_number(FaultSpec& spec, const json& value) {
    const unsigned number = control_number(value);
    spec.*kMember = static_cast<Number>(number);
    return number <= std::numeric_limits<Number>::max();
}

bool set_depth(FaultSpec& spec, const json& value) {
    spec.reorder_depth = control_number(value);
    return spec.reorder_depth >= 1 && spec.reorder_depth <= kMaxReorderDepth;
}

bool set_seed(FaultSpec& spec, const json& value) {
    const bool good = value.is_number_integer() && value >= 0;
    spec.seed = good ? value.get<uint64_t>() : 0;
    return good;
}

struct Member {
    const char* name;
    bool (*set)(FaultSpec& spec, const json& value);
    const char* expected;
};
constexpr const char* kProbability = "a probability, 0 to 1";
constexpr const char* kMicroseconds = "0 to 60,000,000 microseconds";
constexpr const char* kFlag = "true or false";
constexpr Member kMembers[] = {
    {"drop", set_probability<&FaultSpec::drop>, kProbability},
    {"duplicate", set_probability<&FaultSpec::duplicate>, kProbability},
    {"reorder", set_probability<&FaultSpec::reorder>, kProbability},
    {"corrupt", set_probability<&FaultSpec::corrupt>, kProbability},
    {"reorder_depth", set_depth, "1 to 65536 packets"},
    {"delay_us", set_time<&FaultSpec::delay_ns>, kMicroseconds},
    {"jitter_us", set_time<&FaultSpec::jitter_ns>, kMicroseconds},
    {"seed", set_seed, "a whole number, not negative"},
    {"vl15", set_flag<&FaultSpec::vl15>, kFlag},
    {"mads_only", set_flag<&FaultSpec::mads_only>, kFlag},
    {"attribute", set_number<&FaultSpec::attribute, uint16_t>, "0 to 65535"},
    {"opcode", set_number<&FaultSpec::opcode, uint8_t>, "0 to 255"},
};

std::unexpected<std::string> no_such_fault(const std::string& name) {
    const auto known = kMembers | std::views::transform(&Member::name);
    return std::unexpected(
        fmt::format("no such fault: {}; there are {}", name, fmt::join(known, ", ")));
}

std::expected<void, std::string> set_member(FaultSpec& spec, const std::string& name,
                                            const json& value) {
    const auto* member = std::ranges::find(kMembers, name, &Member::name);
    if (member == std::end(kMembers)) {
        return no_such_fault(name);
    }
    if (!member->set(spec, value)) {
        return std::unexpected(name + " is " + member->expected);
    }
    return {};
}

}  // namespace

std::expected<FaultSpec, std::string> fault_spec_from(const json& members) {
    FaultSpec spec;
    if (!members.is_object()) {
        return std::unexpected("set is an object with faults");
    }
    for (const auto& [name, value] : members.items()) {
        if (const auto set = set_member(spec, name, value); !set) {
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
        return std::unexpected(std::string("direction is ") + kFaultDirections);
    }
    if (in) {
        port.ingress_faults().set(spec);
    }
    if (out) {
        // Derives another seed, so that the two directions have different random sequences.
        FaultSpec outgoing = spec;
        outgoing.seed ^= in ? 0xA5A5A5A5A5A5A5A5 : 0;
        port.egress_faults().set(outgoing);
    }
    return {};
}

// A specification that only selects packets (opcode, attribute, ...) and has no fault is "none".
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
        parts.emplace_back("only management packets");
    }
    return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace pib::fabric
