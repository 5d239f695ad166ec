// SPDX-License-Identifier: GPL-2.0-or-later
#include "strict/strict.h"

#include <algorithm>

namespace pib::hca {

namespace {

// Whether `counter` is less than `other`. Counters count modulo 2^32.
bool is_behind(uint32_t counter, uint32_t other) {
    return static_cast<int32_t>(counter - other) < 0;
}

// Steps until a rule about a doorbell is reported. The vector of kEqNeverArmed may have been
// unmasked in the course of the first step.
unsigned steps_of(Rule rule) {
    return rule == Rule::kEqNeverArmed ? Strict::kSteps + 1 : Strict::kSteps;
}

}  // namespace

std::unique_ptr<Strict> Strict::create(Host& host, Strictness strictness) {
    return strictness == Strictness::kOff
               ? nullptr
               : std::make_unique<Strict>(host, strictness == Strictness::kFatal);
}

void Strict::report_to(Refusals& refusals) {
    refusals_ = &refusals;
    refusals.warn_with(accesses_);
}

void Strict::broken(Rule rule, Subject subject, uint64_t value, uint64_t limit, Subject other) {
    if (named_.contains({rule, subject})) {
        return;
    }
    if (named_.size() < kMostNamed) {
        named_.emplace(rule, subject);
    }
    refusals_->add({.kind = Refusal::Kind::kMisuse,
                    .verdict = refuse(rule, value, limit),
                    .misused = subject,
                    .other = other});
}

// ---------------------------------------------------------------- registers and reset

void Strict::reset() {
    judged_ = refusals_->silent();
    ready_seen_ = false;
    claims_.clear();
    unserved_.clear();
    named_.clear();
}

void Strict::enabled() {
    if (!ready_seen_) {
        broken(Rule::kEnableReady, {Thing::kDevice, 0});
    }
}

void Strict::dma_ended(const Unfinished& left) {
    if (left.objects != 0) {
        broken(Rule::kObjectsLeft, {Thing::kDevice, 0}, 0, left.objects);
    }
    if (left.working_qps != 0 || left.commands != 0) {
        broken(Rule::kWorkStopped, {Thing::kDevice, 0}, 0, left.working_qps + left.commands);
    }
}

// ---------------------------------------------------------------- memory

void Strict::queue_created(Subject queue, const GuestBuffer& buffer, const QueueLayout& layout) {
    if (!is_zero(host_, buffer, 0, layout.header)) {
        broken(Rule::kHeaderZero, queue);
    }
    if (const auto entry = first_owned(host_, buffer, layout)) {
        broken(Rule::kRingZero, queue, 0, *entry);
    }
    for_each_run(buffer, layout.bytes, [&](uint64_t bus_addr, uint64_t bytes) {
        memory_claimed(queue, bus_addr, bytes);
    });
}

void Strict::memory_claimed(Subject owner, uint64_t bus_addr, uint64_t bytes) {
    if (const auto* other = claims_.claim(owner, bus_addr, bytes)) {
        broken(Rule::kMemoryShared, owner, bus_addr, 0, *other);
    }
}

void Strict::memory_released(Subject queue, const GuestBuffer& buffer, const GuestBuffer& used) {
    for_each_run(buffer, buffer.bytes(),
                 [&](uint64_t bus_addr, uint64_t) { claims_.release(queue, bus_addr); });
    for_each_run(used, used.bytes(), [&](uint64_t bus_addr, uint64_t bytes) {
        (void)claims_.claim(queue, bus_addr, bytes);
    });
}

void Strict::output(Subject command, uint64_t bus_addr, uint64_t bytes) {
    if (const auto* other = claims_.owner(bus_addr, bytes)) {
        broken(Rule::kOutputShared, command, bus_addr, 0, *other);
    }
}

// ---------------------------------------------------------------- event queues

void Strict::armed(uint32_t eqn, uint32_t vector) {
    if (host_.vector_state(vector) == VectorState::kDisabled) {
        broken(Rule::kArmMsix, {Thing::kEq, eqn});
    }
}

void Strict::await_doorbell(Rule rule, uint32_t eqn, uint32_t vector) {
    unserved_.try_emplace(eqn, Unserved{.rule = rule,
                                        .vector = vector,
                                        .deadline_ns = host_.now_ns() + kStepNs,
                                        .steps = steps_of(rule)});
}

uint64_t Strict::next_deadline() const {
    uint64_t next = kNever;
    for (const auto& [eqn, waiting] : unserved_) {
        next = std::min(next, waiting.deadline_ns);
    }
    return next;
}

void Strict::timer(uint64_t now_ns) {
    for (auto& [eqn, waiting] : unserved_) {
        if (waiting.deadline_ns > now_ns) {
            continue;
        }
        waiting.deadline_ns = now_ns + kStepNs;
        if (waiting.rule == Rule::kEqNeverArmed &&
            host_.vector_state(waiting.vector) != VectorState::kOpen) {
            waiting.steps = steps_of(waiting.rule);
        } else if (--waiting.steps == 0) {
            waiting.deadline_ns = kNever;
            const bool masked = waiting.rule == Rule::kEqeLeft &&
                                host_.vector_state(waiting.vector) == VectorState::kMasked;
            broken(masked ? Rule::kVectorMasked : waiting.rule, {Thing::kEq, eqn}, waiting.vector,
                   kSteps * kStepNs / 1'000'000'000);
        }
    }
}

// ---------------------------------------------------------------- counters

bool Strict::consumer_moved(Subject cq, uint32_t from, uint32_t to, uint32_t producer) {
    if (to - from <= producer - from) {
        return true;
    }
    const bool back = is_behind(to, from);
    broken(back ? Rule::kConsumerBack : Rule::kConsumerAhead, cq, to, back ? from : producer);
    return false;
}

void Strict::arm_counter(Subject cq, uint32_t counter, uint32_t producer) {
    if (is_behind(producer, counter)) {
        broken(Rule::kArmAhead, cq, counter, producer);
    }
}

void Strict::producer_moved(Subject queue, const ProducerRules& rules, uint32_t from, uint32_t to,
                            bool possible, uint32_t limit) {
    if (is_behind(to, from)) {
        broken(rules.back, queue, to, from);
    } else if (!possible) {
        broken(rules.passes, queue, to, limit);
    }
}

}  // namespace pib::hca
