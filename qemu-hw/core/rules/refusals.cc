// SPDX-License-Identifier: GPL-2.0-or-later
#include "rules/refusals.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <iterator>

#include "base/json.h"
#include "pib_hca_hw.h"
#include "rules/rule_table.h"

namespace pib::hca {

namespace {

using Number = RuleText::Number;
using Place = RuleText::Place;

// The structure of the field begins there in the command's input.
unsigned place_in_input(const Refusal& refusal, Place place) {
    switch (place) {
        case Place::kPages:
            return refusal.pages_at;
        case Place::kVector:
            return refusal.verdict.alternate ? offsetof(pib_hca_modify_qp, alt_av)
                                             : offsetof(pib_hca_modify_qp, av);
        default:
            return 0;
    }
}

const char* prefix_of(const Refusal& refusal, Place place) {
    switch (place) {
        case Place::kPages:
            return "pages.";
        case Place::kVector:
            return refusal.verdict.alternate ? "alt_av." : "av.";
        default:
            return "";
    }
}

std::string number_text(Number form, uint64_t value) {
    if (form == Number::kDecimal) {
        return " " + std::to_string(value);
    }
    char text[24] = "";
    if (form == Number::kHex) {
        std::snprintf(text, sizeof text, " %#llx", static_cast<unsigned long long>(value));
    }
    return text;
}

std::string byte_text(const Refusal& refusal, const RuleText::Field& field) {
    if (field.place == Place::kRegister) {
        return {};
    }
    return " at byte " + std::to_string(place_in_input(refusal, field.place) + field.offset) +
           (field.place == Place::kEntry ? " of the entry" : "");
}

// "log_depth 31 at byte 24"
std::string field_text(const Refusal& refusal, const RuleText& rule) {
    const Place place = rule.field.place;
    if (place == Place::kNone) {
        return {};
    }
    return prefix_of(refusal, place) + std::string(rule.field.name) +
           number_text(rule.value, refusal.verdict.value) + byte_text(refusal, rule.field);
}

// In the order of Thing.
constexpr const char* kThings[] = {"",
                                   "device",
                                   "command queue",
                                   "command ring",
                                   "command completion ring",
                                   "command id",
                                   "shadow doorbell page",
                                   "EQ",
                                   "CQ",
                                   "SRQ",
                                   "QP"};
static_assert(std::size(kThings) == static_cast<size_t>(Thing::kQp) + 1);

std::string name_of(const Subject& subject) {
    const bool numbered = subject.number != 0 || subject.thing == Thing::kCommand;
    return kThings[static_cast<size_t>(subject.thing)] +
           (numbered ? " " + std::to_string(subject.number) : "");
}

// "MODIFY_QP of 65 id 7", "store to BAR0 at 0x34", or "QP 65"
std::string subject_text(const Refusal& refusal, const RuleText& rule) {
    if (refusal.kind == Refusal::Kind::kAccess) {
        return refusal.what + (" at" + number_text(Number::kHex, refusal.offset));
    }
    if (refusal.kind == Refusal::Kind::kMisuse) {
        return name_of(refusal.misused);
    }
    const bool said = refusal.object == 0 || rule.field.place == Place::kEntry;
    return refusal.what + (said ? "" : " of " + std::to_string(refusal.object)) + " id " +
           std::to_string(refusal.id);
}

std::string section_text(Rule rule) {
    return std::to_string(section_of(rule)) + "." + std::to_string(subsection_of(rule));
}

}  // namespace

std::string text_of(const Refusal& refusal) {
    const Verdict& verdict = refusal.verdict;
    const RuleText& rule = *find_rule(verdict.rule);
    const char* const verb = refusal.kind == Refusal::Kind::kMisuse ? " misused: " : " refused: ";
    const Subject& other = refusal.other;
    return subject_text(refusal, rule) + verb + field_text(refusal, rule) + rule.text +
           number_text(rule.limit, verdict.limit) +
           (other.thing == Thing::kNone ? "" : " " + name_of(other)) + " (manual " +
           section_text(verdict.rule) + " rule " + std::to_string(number_of(verdict.rule)) + ")";
}

void Refusals::print(const Refusal& refusal) {
    if (accesses_ == nullptr || !is_silent(refusal.verdict.rule)) {
        log_.print([&] { return text_of(refusal); });
        return;
    }
    log_.warn([&] { return text_of(refusal); },
              [&] { return "before that: " + refusal.accesses.text(); });
}

// Loads of registers may not throw: without memory the refusal is not logged.
void Refusals::add(const Refusal& refusal) noexcept {
    Refusal& kept = ring_[count_++ % kKept];
    kept = refusal;
    kept.time_ns = host_.now_ns();
    silent_ += is_silent(refusal.verdict.rule) ? 1 : 0;
    if (accesses_ != nullptr) {
        kept.accesses = *accesses_;
    }
    try {
        print(kept);
    } catch (const std::exception&) {
        return;
    }
}

void Refusals::ignored_load(unsigned bar, uint64_t offset) {
    add({.what = bar == PIB_HCA_BAR_REGS ? "load of BAR0" : "load of BAR2",
         .kind = Refusal::Kind::kAccess,
         .offset = offset,
         .verdict = refuse(Rule::kLoad)});
}

void Refusals::ignored_store(unsigned bar, uint64_t offset, const Verdict& verdict) {
    add({.what = bar == PIB_HCA_BAR_REGS ? "store to BAR0" : "store to BAR2",
         .kind = Refusal::Kind::kAccess,
         .offset = offset,
         .verdict = verdict});
}

void Refusals::write(JsonWriter& out) const {
    const uint64_t kept = std::min<uint64_t>(count_, kKept);
    out.begin_object("refusals");
    out.member("count", count_);
    out.begin_array("entries");
    for (uint64_t i = count_ - kept; i < count_; ++i) {
        const Refusal& refusal = ring_[i % kKept];
        const Rule rule = refusal.verdict.rule;
        out.begin_object();
        out.member("time_ns", refusal.time_ns);
        if (refusal.kind == Refusal::Kind::kCommand) {
            out.member("command", refusal.what);
            out.member("id", refusal.id);
            out.member("object", refusal.object);
            out.member("status", static_cast<uint8_t>(refusal.verdict.status()));
        }
        out.member("rule", section_text(rule) + "." + std::to_string(number_of(rule)));
        out.member("text", text_of(refusal));
        if (accesses_ != nullptr) {
            out.member("accesses", refusal.accesses.text());
        }
        out.end_object();
    }
    out.end_array();
    out.end_object();
}

}  // namespace pib::hca
