// SPDX-License-Identifier: GPL-2.0-or-later
#include "rules/refusals.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <iterator>

#include "base/json.h"
#include "base/rule_number.h"
#include "pib_hca_hw.h"
#include "rules/rule_table.h"

namespace pib::hca {

namespace {

static_assert(Refusals::kKept == PIB_HCA_REFUSALS_KEPT);

using Number = RuleText::Number;
using Place = RuleText::Place;

// An operation's segment follows the control segment.
constexpr unsigned kSegmentAt = sizeof(pib_hca_wqe_control);

// Offset of the structure that has the field, in the command's input or in the WQE.
unsigned place_of(const Refusal& refusal, Place place) {
    const bool in_wqe = refusal.kind == Refusal::Kind::kRequest;
    switch (place) {
        case Place::kPages:
            return in_wqe ? refusal.verdict.at : refusal.pages_at;
        case Place::kVector:
            return in_wqe                      ? kSegmentAt + offsetof(pib_hca_wqe_ud, av)
                   : refusal.verdict.alternate ? offsetof(pib_hca_modify_qp, alt_av)
                                               : offsetof(pib_hca_modify_qp, av);
        case Place::kSegment:
            return kSegmentAt;
        case Place::kSge:
            return refusal.verdict.at;
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
        case Place::kSge:
            return "sge.";
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
    return " at byte " + std::to_string(field_offset(refusal)) +
           (field.place == Place::kEntry ? " of the entry" : "");
}

// The field in words, for example "log_depth 31 at byte 24".
std::string field_text(const Refusal& refusal, const RuleText& rule) {
    const Place place = rule.field.place;
    if (place == Place::kNone) {
        return {};
    }
    return prefix_of(refusal, place) + std::string(rule.field.name) +
           number_text(rule.value, refusal.verdict.value) + byte_text(refusal, rule.field);
}

// Names of the kinds of objects, in the order of Thing.
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
    // A command's id is not the number of an object, so it is printed in decimal.
    const Number form = subject.thing == Thing::kCommand  ? Number::kDecimal
                        : subject.thing > Thing::kCommand ? Number::kHex
                                                          : Number::kNone;
    return kThings[static_cast<size_t>(subject.thing)] + number_text(form, subject.number);
}

// A packet's operation, range and key in words.
std::string range_text(const RefusedPacket& packet) {
    return packet.operation + (" of " + std::to_string(packet.length)) + " bytes at" +
           number_text(Number::kHex, packet.addr) + " with rkey" +
           number_text(Number::kHex, packet.rkey);
}

// The refused thing in words, for example "MODIFY_QP of 0x41 id 7", "store to BAR0 at 0x34",
// "QP 0x41", "send WQE 12 of QP 0x41" or "RDMA WRITE of 8 bytes at 0x1000 with rkey 0x1200 to QP
// 0x41".
std::string subject_text(const Refusal& refusal, const RuleText& rule) {
    if (refusal.kind == Refusal::Kind::kAccess) {
        return refusal.what + (" at" + number_text(Number::kHex, refusal.offset));
    }
    if (refusal.kind == Refusal::Kind::kMisuse) {
        return name_of(refusal.misused);
    }
    if (refusal.kind == Refusal::Kind::kRequest) {
        return refusal.what + (" " + std::to_string(refusal.counter)) + " of QP" +
               number_text(Number::kHex, refusal.object);
    }
    if (refusal.kind == Refusal::Kind::kPacket) {
        return range_text(refusal.packet) + " to QP" + number_text(Number::kHex, refusal.object);
    }
    const bool said = refusal.object == 0 || rule.field.place == Place::kEntry;
    return refusal.what + (said ? "" : " of" + number_text(Number::kHex, refusal.object)) + " id " +
           std::to_string(refusal.id);
}

Refusal refusal_of(const FailedRequest& request) {
    return {.what = request.send ? "send WQE" : "receive WQE",
            .kind = Refusal::Kind::kRequest,
            .object = request.qpn,
            .counter = request.counter,
            .is_send = request.send,
            .completion = request.status,
            .verdict = request.broken};
}

Refusal refusal_of(const RefusedPacket& packet) {
    return {.what = packet.operation,
            .kind = Refusal::Kind::kPacket,
            .object = packet.qpn,
            .completion = WcStatus::kRemAccessErr,
            .packet = packet,
            .verdict = packet.broken};
}

}  // namespace

uint16_t field_offset(const Refusal& refusal) {
    const RuleText::Field& field = find_rule(refusal.verdict.rule)->field;
    return static_cast<uint16_t>(place_of(refusal, field.place) + field.offset);
}

std::string reason_of(const Refusal& refusal) {
    const RuleText& rule = *find_rule(refusal.verdict.rule);
    const Subject& other = refusal.other;
    return field_text(refusal, rule) + rule.text + number_text(rule.limit, refusal.verdict.limit) +
           (other.thing == Thing::kNone ? "" : " " + name_of(other));
}

std::string text_of(const Refusal& refusal) {
    const Rule rule = refusal.verdict.rule;
    const char* const verb = refusal.kind == Refusal::Kind::kMisuse ? " misused: " : " refused: ";
    return subject_text(refusal, *find_rule(rule)) + verb + reason_of(refusal) + citation(rule);
}

void Refusals::print(const Refusal& refusal) {
    if (accesses_ == nullptr || !is_silent(refusal.verdict.rule)) {
        log_.print([&] { return text_of(refusal); });
        return;
    }
    log_.warn([&] { return text_of(refusal); },
              [&] { return "before that: " + refusal.accesses.text(); });
}

// Does not throw, because loads of registers call this function outside of Engine::enter(), which
// would catch the exception. If an allocation fails, the refusal is kept, but coverage and log may
// lack it.
void Refusals::add(const Refusal& refusal) noexcept {
    Refusal& kept = ring_[count_++ % kKept];
    kept = refusal;
    kept.time_ns = host_.now_ns();
    silent_ += is_silent(refusal.verdict.rule) ? 1 : 0;
    if (accesses_ != nullptr) {
        kept.accesses = *accesses_;
    }
    try {
        if (coverage_ != nullptr) {
            coverage_->broken(kept.verdict.rule);
        }
        print(kept);
    } catch (const std::exception&) {
        return;
    }
}

void Refusals::refused(const FailedRequest& request) noexcept {
    add(refusal_of(request));
}

std::string Refusals::words(const FailedRequest& request) const {
    return reason_of(refusal_of(request)) + citation(request.broken.rule);
}

void Refusals::refused(const RefusedPacket& packet) noexcept {
    add(refusal_of(packet));
}

std::string Refusals::words(const RefusedPacket& packet) const {
    return range_text(packet) + ": " + reason_of(refusal_of(packet)) + citation(packet.broken.rule);
}

void Refusals::ignored_load(unsigned bar, uint64_t offset) {
    add({.what = bar == PIB_HCA_BAR_REGS ? "load of BAR0" : "load of BAR2",
         .kind = Refusal::Kind::kAccess,
         .bar = static_cast<uint8_t>(bar),
         .offset = offset,
         .verdict = refuse(Rule::kLoad)});
}

void Refusals::ignored_store(unsigned bar, uint64_t offset, const Verdict& verdict) {
    add({.what = bar == PIB_HCA_BAR_REGS ? "store to BAR0" : "store to BAR2",
         .kind = Refusal::Kind::kAccess,
         .bar = static_cast<uint8_t>(bar),
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
        if (refusal.kind == Refusal::Kind::kRequest) {
            out.member("qpn", refusal.object);
            out.member("counter", refusal.counter);
        }
        if (refusal.kind == Refusal::Kind::kPacket) {
            out.member("qpn", refusal.object);
        }
        out.member("rule", dotted_number(rule));
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
