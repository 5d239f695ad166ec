// SPDX-License-Identifier: GPL-2.0-or-later
#include "queues/eq.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "pib_hca_hw.h"
#include "queues/interface_pages.h"

namespace pib::hca {

namespace {

std::span<const uint8_t> bytes_of(const pib_hca_eqe& eqe) {
    return {reinterpret_cast<const uint8_t*>(&eqe), sizeof eqe};
}

pib_hca_eqe make_eqe(Event type, uint32_t number, uint32_t data = 0, uint8_t port = 0) {
    pib_hca_eqe eqe{};
    eqe.type = static_cast<uint8_t>(type);
    eqe.port = port;
    eqe.number = number;
    eqe.data = data;
    return eqe;
}

Verdict check_fields(const pib_hca_create_eq& in, uint32_t vectors) {
    if (std::ranges::any_of(in.reserved, [](uint8_t byte) { return byte != 0; })) {
        return refuse(Rule::kEqReserved);
    }
    if ((in.flags & ~uint32_t{PIB_HCA_EQ_ASYNC}) != 0) {
        return refuse(Rule::kEqFlags, in.flags, PIB_HCA_EQ_ASYNC);
    }
    if (in.vector >= vectors) {
        return refuse(Rule::kEqVector, in.vector, vectors - 1);
    }
    if (in.log_depth < 1) {
        return refuse(Rule::kEqShallow, in.log_depth, 1);
    }
    if (in.log_depth > PIB_HCA_MAX_EQ_LOG_DEPTH) {
        return refuse(Rule::kEqDeep, in.log_depth, PIB_HCA_MAX_EQ_LOG_DEPTH);
    }
    return check_reserved(in.pages);
}

void check_eq_ring(Strict& strict, const EventQueue& eq) {
    strict.check_ring(
        {Thing::kEq, eq.eqn},
        {.buffer = eq.buffer, .entry_size = sizeof(pib_hca_eqe), .log_depth = eq.log_depth},
        eq.producer);
}

// Checks an EQ that is about to be destroyed: memory that software has freed too early may have
// changed, or may be gone.
void check_old_eq(Host& host, Strict& strict, const EventQueue& eq) {
    uint8_t first = 0;
    if (!eq.buffer.read(host, 0, {&first, 1})) {
        strict.memory_lost({Thing::kEq, eq.eqn});
    }
    check_eq_ring(strict, eq);
}

// Counts the doorbells that arm with the same counter although an EQE beyond it is there. `moved`:
// this doorbell has changed the counter.
void check_arming(Strict& strict, EventQueue& eq, bool moved) {
    if (moved || !eq.armed || eq.producer == eq.consumer) {
        eq.armed_again = 0;
    } else if (eq.armed_again++ == Strict::kMostArmings) {
        strict.broken(Rule::kEqArmedAgain, {Thing::kEq, eq.eqn}, eq.consumer, Strict::kMostArmings);
    }
}

EventSource source_of(uint8_t type) {
    switch (static_cast<Event>(type)) {
        case Event::kPort:
            return EventSource::kPort;
        case Event::kCqError:
            return EventSource::kCq;
        case Event::kSrqLimitReached:
        case Event::kSrqError:
            return EventSource::kSrq;
        case Event::kCommand:
        case Event::kDeviceFatal:
        case Event::kPageFault:
            return EventSource::kDevice;
        default:
            return EventSource::kQp;
    }
}

// Merges the flags of two port events: a later ACTIVE or ERROR replaces the earlier one.
uint32_t merge_port_flags(uint32_t before, uint32_t now) {
    constexpr uint32_t kState = port_event::kActive | port_event::kError;
    return ((now & kState) != 0 ? before & ~kState : before) | now;
}

// Takes a waiting event by index: first come the asynchronous events, then the completion events.
pib_hca_eqe take_waiting(EventQueue& eq, size_t index) {
    if (index < eq.waiting.size()) {
        return eq.waiting.take(index);
    }
    const auto cq =
        std::next(eq.waiting_cqs.begin(), static_cast<ptrdiff_t>(index - eq.waiting.size()));
    const uint32_t cqn = *cq;
    eq.waiting_cqs.erase(cq);
    return make_eqe(Event::kCompletion, cqn);
}

}  // namespace

void WaitingEvents::add(const pib_hca_eqe& event) {
    const EventSource source = source_of(event.type);
    uint32_t& data = events_[{source, event.port, event.number, event.type}];
    data = source == EventSource::kPort ? merge_port_flags(data, event.data) : event.data;
}

pib_hca_eqe WaitingEvents::take(size_t index) {
    const auto place = std::next(events_.begin(), static_cast<ptrdiff_t>(index));
    const auto [key, data] = *place;
    events_.erase(place);
    return make_eqe(static_cast<Event>(key.type), key.number, data, key.port);
}

void WaitingEvents::forget(EventSource source, uint32_t number) {
    events_.erase(events_.lower_bound({source, 0, number, 0}),
                  events_.upper_bound({source, 0, number, UINT8_MAX}));
}

EqTable::EqTable(Host& host, Events& events, uint32_t max_eqs, uint32_t vectors, Strict* strict,
                 Adversary* adversary)
    : host_(host),
      events_(events),
      vectors_(vectors),
      eqs_(1, max_eqs),
      strict_(strict),
      delay_(host, adversary) {
    if (adversary != nullptr && adversary->plays(Adversity::kNumbers)) {
        eqs_.set_choice(NumberChoice::kLowest);
    }
}

CmdResult<uint32_t> EqTable::create(const pib_hca_create_eq& in) {
    if (const Verdict s = check_fields(in, vectors_); s != CmdStatus::kOk) {
        return std::unexpected(s);
    }
    const bool async = (in.flags & PIB_HCA_EQ_ASYNC) != 0;
    if (async && has_async()) {
        return std::unexpected(refuse(Rule::kEqAsync, in.flags, async_eqn_));
    }
    if (eqs_.count() == eqs_.capacity()) {
        return std::unexpected(refuse(Rule::kObjectLimit, 0, eqs_.capacity()));
    }
    const uint32_t bytes = static_cast<uint32_t>(sizeof(pib_hca_eqe)) << in.log_depth;
    auto buffer = GuestBuffer::load(host_, page_list(in.pages), bytes, pages_covering(bytes),
                                    GuestBuffer::Proof::kWritable);
    if (!buffer) {
        return std::unexpected(buffer.error());
    }
    EventQueue eq;
    eq.buffer = std::move(*buffer);
    eq.buffer.serve(DmaPurpose::kEq);
    eq.vector = in.vector;
    eq.log_depth = in.log_depth;
    eq.async = async;
    const uint32_t eqn = eqs_.insert(std::move(eq));
    EventQueue& placed = *eqs_.find(eqn);
    placed.eqn = eqn;
    if (strict_ != nullptr) [[unlikely]] {
        strict_->queue_created(
            {Thing::kEq, eqn}, placed.buffer,
            {.bytes = bytes, .entry_size = sizeof(pib_hca_eqe), .entries = 1u << in.log_depth});
    }
    if (async) {
        async_eqn_ = eqn;
    }
    return eqn;
}

Verdict EqTable::destroy(uint32_t eqn) {
    const EventQueue* eq = eqs_.find(eqn);
    if (eq == nullptr) {
        return refuse(Rule::kNoEq, eqn);
    }
    if (eq->users != 0) {
        return refuse(Rule::kEqBusy, eqn, eq->users);
    }
    if (eq->async) {
        async_eqn_ = Table<EventQueue>::kFull;
    }
    if (strict_ != nullptr) [[unlikely]] {
        check_old_eq(host_, *strict_, *eq);
        strict_->queue_destroyed({Thing::kEq, eqn});
        strict_->events_taken(eqn);
    }
    eqs_.erase(eqn);
    return CmdStatus::kOk;
}

bool EqTable::doorbell(uint64_t value) {
    EventQueue* eq = eqs_.find(static_cast<uint32_t>(value) & PIB_HCA_DB_NUMBER_MASK);
    const auto consumer = static_cast<uint32_t>(value >> PIB_HCA_DB_COUNTER_SHIFT);
    const uint32_t reserved =
        ~(PIB_HCA_DB_NUMBER_MASK | PIB_HCA_DB_EQ_ARM) & static_cast<uint32_t>(value);
    if (reserved != 0) {
        return false;
    }
    // The counter only moves forward, and never past the produced events.
    if (stopped_ || eq == nullptr || eq->producer - consumer > eq->producer - eq->consumer) {
        return false;
    }
    const bool moved = std::exchange(eq->consumer, consumer) != consumer;
    eq->armed = (value & PIB_HCA_DB_EQ_ARM) != 0;
    if (strict_ != nullptr) [[unlikely]] {
        watch_doorbell(*eq, moved);
    }
    post_waiting(*eq);
    // An event between the driver's last read and its arming must raise an interrupt.
    if (eq->armed && eq->producer != eq->consumer) {
        fire(*eq);
    }
    return true;
}

void EqTable::watch_doorbell(EventQueue& eq, bool moved) {
    // Unless the first doorbell of an EQ arms it or takes EQEs, the wait for its arming goes on.
    if (moved || eq.armed || eq.was_armed) {
        strict_->events_taken(eq.eqn);
    }
    check_arming(*strict_, eq, moved);
    if (eq.armed) {
        eq.was_armed = true;
        strict_->armed(eq.eqn, eq.vector);
    }
}

void EqTable::post_waiting(EventQueue& eq) {
    while (eq.all_waiting() != 0 && !full(eq) && !stopped_) {
        post(eq, take_waiting(eq, delay_.choose(eq.all_waiting())));
    }
}

void EqTable::timer(uint64_t now_ns) {
    if (delay_.next_deadline() <= now_ns) {
        delay_.reset();
        eqs_.for_each([&](uint32_t, EventQueue& eq) { post_waiting(eq); });
    }
}

void EqTable::clear() {
    eqs_.clear();
    delay_.reset();
    async_eqn_ = Table<EventQueue>::kFull;
    stopped_ = false;
}

void EqTable::completion_event(uint32_t eqn, uint32_t cqn) {
    EventQueue* eq = eqs_.find(eqn);
    if (eq == nullptr || stopped_) {
        return;
    }
    // A new event waits while events of other CQs wait. CQs wait as a set of numbers, because one
    // event per CQ is enough.
    if (full(*eq) || !eq->waiting_cqs.empty() || delay_.holds()) {
        eq->waiting_cqs.insert(cqn);
        return;
    }
    post(*eq, make_eqe(Event::kCompletion, cqn));
}

void EqTable::forget_completion(uint32_t eqn, uint32_t cqn) {
    if (EventQueue* eq = eqs_.find(eqn)) {
        eq->waiting_cqs.erase(cqn);
    }
}

void EqTable::async_event(Event type, uint32_t number, uint32_t data, uint8_t port) {
    events_.event_raised({.type = type, .number = number, .data = data, .port = port});
    EventQueue* eq = has_async() && !stopped_ ? eqs_.find(async_eqn_) : nullptr;
    if (eq == nullptr) {
        return;
    }
    const pib_hca_eqe event = make_eqe(type, number, data, port);
    // A new event waits while others wait. WaitingEvents keeps no order (manual 9, "Full EQ").
    if (full(*eq) || !eq->waiting.empty() || delay_.holds()) [[unlikely]] {
        eq->waiting.add(event);
        return;
    }
    post(*eq, event);
}

void EqTable::forget_events(EventSource source, uint32_t number) {
    if (EventQueue* eq = has_async() ? eqs_.find(async_eqn_) : nullptr) {
        eq->waiting.forget(source, number);
    }
}

void EqTable::fatal_event(uint32_t cause) {
    stopped_ = true;
    EventQueue* eq = has_async() ? eqs_.find(async_eqn_) : nullptr;
    if (eq == nullptr) {
        return;
    }
    if (!full(*eq)) {
        // If this write fails, the driver still has the interrupt and the status register.
        (void)write(*eq, make_eqe(Event::kDeviceFatal, 0, cause));
    }
    fire(*eq);
}

bool EqTable::write(EventQueue& eq, const pib_hca_eqe& event) {
    pib_hca_eqe eqe = event;
    if (coverage_ != nullptr) {
        coverage_->event(eqe.type, eqe.port, eqe.data);
    }
    const uint32_t depth_mask = (1u << eq.log_depth) - 1;
    const uint64_t offset = uint64_t{eq.producer & depth_mask} * sizeof eqe;
    eqe.owner = (eq.producer >> eq.log_depth & 1) == 0 ? PIB_HCA_OWNER_BIT : 0;
    constexpr size_t kBody = offsetof(pib_hca_eqe, owner);
    const auto bytes = bytes_of(eqe);
    if (strict_ != nullptr) [[unlikely]] {
        check_eq_ring(*strict_, eq);
    }
    if (!eq.buffer.write(host_, offset, bytes.first(kBody))) {
        return false;
    }
    host_.dma_barrier();
    if (!eq.buffer.write(host_, offset + kBody, bytes.subspan(kBody))) {
        return false;
    }
    host_.dma_barrier();
    eq.last_type = static_cast<Event>(eqe.type);
    eq.last_number = eqe.number;
    events_.event_written(
        eq.eqn, eq.producer++,
        {.type = eq.last_type, .number = eqe.number, .data = eqe.data, .port = eqe.port});
    return true;
}

void EqTable::post(EventQueue& eq, const pib_hca_eqe& eqe) {
    if (!write(eq, eqe)) {
        if (strict_ != nullptr) {
            strict_->memory_lost({Thing::kEq, eq.eqn});
        }
        stop(PIB_HCA_FATAL_EQ_DMA);
        return;
    }
    if (eq.armed) {
        fire(eq);
    } else if (strict_ != nullptr) [[unlikely]] {
        if (eq.was_armed) {
            strict_->await_doorbell(Rule::kEqUnarmed, eq.eqn, eq.vector);
        } else if (eq.consumer == 0) {  // software that polls the EQ has moved the counter
            strict_->await_doorbell(Rule::kEqNeverArmed, eq.eqn, eq.vector);
        }
    }
}

void EqTable::fire(EventQueue& eq) {
    eq.armed = false;
    if (strict_ != nullptr) [[unlikely]] {
        strict_->await_doorbell(Rule::kEqeLeft, eq.eqn, eq.vector);
    }
    host_.raise_msix(eq.vector);
    events_.interrupt_raised(
        {.vector = eq.vector, .eqn = eq.eqn, .type = eq.last_type, .number = eq.last_number});
}

void EqTable::inject_fatal() {
    stop(PIB_HCA_FATAL_INTERNAL);
}

void EqTable::stop(uint32_t cause) {
    if (!std::exchange(stopped_, true)) {
        events_.eq_fatal(cause);
    }
}

}  // namespace pib::hca
