// SPDX-License-Identifier: GPL-2.0-or-later
// The result of the checks of a verb or work request: success, or the rule that it breaks.
#pragma once

#include <cstdint>
#include <expected>
#include <stdexcept>

#include "base/rule.h"

namespace pib::hca {

struct [[nodiscard]] Verdict {
    Rule rule = Rule::kNone;
    bool alternate = false;  // the field is in the alternate path's address vector
    uint16_t at = 0;         // offset in a WQE of the SGE or page list that has the field, in bytes
    uint64_t value = 0;      // the field's value
    uint64_t limit = 0;      // maximum or minimum that the rule allows, or another detail

    Verdict() = default;
    constexpr Verdict(Rule broken, uint64_t field_value, uint64_t field_limit)
        : rule(broken), value(field_value), limit(field_limit) {}
    // kOk alone needs no rule; the compiler refuses any other status.
    // NOLINTNEXTLINE(google-explicit-constructor): functions return kOk.
    consteval Verdict(CmdStatus status) {
        if (status != CmdStatus::kOk) {
            throw std::logic_error("a refusal names its rule");
        }
    }

    constexpr CmdStatus status() const { return status_of(rule); }
    // This verdict if it refuses, else the verdict of `check`.
    template <typename F>
    constexpr Verdict and_then(F&& check) const {
        return status() == CmdStatus::kOk ? check() : *this;
    }
    // The same refusal, of a field of the structure at `offset` in the WQE.
    constexpr Verdict within(uint16_t offset) const {
        Verdict verdict = *this;
        verdict.at = offset;
        return verdict;
    }
    // The same refusal, of the alternate path.
    constexpr Verdict of_alternate() const {
        Verdict verdict = *this;
        verdict.alternate = true;
        return verdict;
    }
    friend constexpr bool operator==(const Verdict& verdict, CmdStatus status) {
        return verdict.status() == status;
    }
};

constexpr Verdict refuse(Rule rule, uint64_t value = 0, uint64_t limit = 0) {
    return {rule, value, limit};
}

// The value that a verb returns, or the verdict that refuses the verb.
template <typename T>
using CmdResult = std::expected<T, Verdict>;

}  // namespace pib::hca
