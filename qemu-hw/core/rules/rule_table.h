// SPDX-License-Identifier: GPL-2.0-or-later
// The field that each rule is about, and what the rule demands, in words. The manual
// (docs/device-spec.md) has the rules in full.
#pragma once

#include <cstdint>
#include <span>

#include "base/rule.h"

namespace pib::hca {

struct RuleText {
    // The structure that has the field.
    enum class Place : uint8_t {
        kNone,
        kEntry,     // the command's entry in the command queue
        kInput,     // the command's input structure
        kPages,     // struct pib_hca_pages in the input or in a WQE
        kVector,    // an address vector, in MODIFY_QP or in a WQE
        kRegister,  // a register, a stored value or another value without an offset
        kWqe,       // the control segment, or a receive WQE
        kSegment,   // the segment of the operation
        kSge,
    };
    enum class Number : uint8_t { kNone, kDecimal, kHex };

    struct Field {
        Place place;
        uint16_t offset;
        const char* name;
    };

    Rule rule;
    Field field;
    Number value;      // how to print the field's value
    const char* text;  // printed after the field
    Number limit;      // how to print the limit, which follows `text`
};

std::span<const RuleText> rule_texts();
// nullptr: `rule` is Rule::kNone.
const RuleText* find_rule(Rule rule);

}  // namespace pib::hca
