// SPDX-License-Identifier: GPL-2.0-or-later
// A rule's number in the manual (docs/device-spec.md): its parts, and the words that cite it.
#pragma once

#include <cstdint>
#include <string>

#include "base/rule.h"

namespace pib::hca {

constexpr unsigned section_of(Rule rule) {
    return static_cast<uint32_t>(rule) >> 16 & 0xff;
}
constexpr unsigned subsection_of(Rule rule) {
    return static_cast<uint32_t>(rule) >> 8 & 0xff;
}
constexpr unsigned number_of(Rule rule) {
    return static_cast<uint32_t>(rule) & 0xff;
}

// Section and subsection: "6.13".
inline std::string section_text(Rule rule) {
    return std::to_string(section_of(rule)) + "." + std::to_string(subsection_of(rule));
}
// Section, subsection and rule: "6.13.2".
inline std::string dotted_number(Rule rule) {
    return section_text(rule) + "." + std::to_string(number_of(rule));
}
// The end of the text of a refusal: " (manual 6.13 rule 2)".
inline std::string citation(Rule rule) {
    return " (manual " + section_text(rule) + " rule " + std::to_string(number_of(rule)) + ")";
}

}  // namespace pib::hca
