// SPDX-License-Identifier: GPL-2.0-or-later
// Event queues: rings of EQEs in guest memory. A doorbell arms an EQ. An EQ has one MSI-X vector.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>

#include "base/driver_coverage.h"
#include "base/event.h"
#include "base/journal.h"
#include "base/table.h"
#include "base/verdict.h"
#include "memory/guest_buffer.h"
#include "queues/event_delay.h"
#include "strict/strict.h"

// Structures of the register interface (pib_hca_hw.h).
struct pib_hca_create_eq;
struct pib_hca_eqe;

namespace pib::hca {

// The kind of object that an asynchronous event is about.
enum class EventSource : uint8_t { kDevice, kPort, kCq, kQp, kSrq };

// Events that wait for room in the async EQ: at most one of each type for each object and each
// command id, so their number is bounded.
class WaitingEvents {
  public:
    [[nodiscard]] bool empty() const { return events_.empty(); }
    size_t size() const { return events_.size(); }
    void add(const pib_hca_eqe& event);
    pib_hca_eqe take(size_t index);
    void forget(EventSource source, uint32_t number);

  private:
    struct Key {
        EventSource source;
        uint8_t port;
        uint32_t number;
        uint8_t type;
        auto operator<=>(const Key&) const = default;
    };
    std::map<Key, uint32_t> events_;  // the value is RaisedEvent::data
};

struct EventQueue {
    GuestBuffer buffer;
    uint32_t eqn = 0;
    uint32_t producer = 0;
    uint32_t consumer = 0;  // consumer counter of the last doorbell
    uint32_t vector = 0;
    uint8_t log_depth = 0;
    bool armed = false;
    bool was_armed = false;  // armed since its creation; only a strict device sets it
    // Doorbells in a row that armed the EQ with the same counter although it had an EQE after it;
    // only a strict device counts them.
    uint32_t armed_again = 0;
    bool async = false;
    Event last_type = Event::kCompletion;  // type and object of the last EQE
    uint32_t last_number = 0;
    uint32_t users = 0;  // number of CQs that use the EQ
    // CQs whose completion event waits for room in the EQ.
    std::set<uint32_t> waiting_cqs;
    WaitingEvents waiting;  // async EQ only

    size_t all_waiting() const { return waiting.size() + waiting_cqs.size(); }
};

class EqTable {
  public:
    class Events {
      public:
        virtual ~Events() = default;
        // Called at most once until clear(). Cause: PIB_HCA_FATAL_EQ_DMA, or PIB_HCA_FATAL_INTERNAL
        // by inject_fatal().
        virtual void eq_fatal(uint32_t cause) = 0;
        // Called for each async_event(), even if the event is lost because there is no async EQ.
        virtual void event_raised(const RaisedEvent&) {}
        // Called for each EQE. `counter`: the EQ's producer counter before this EQE.
        virtual void event_written(uint32_t /*eqn*/, uint32_t /*counter*/, const RaisedEvent&) {}
        virtual void interrupt_raised(const RaisedInterrupt& interrupt) = 0;
    };

    EqTable(Host& host, Events& events, uint32_t max_eqs, uint32_t vectors,
            Strict* strict = nullptr, Adversary* adversary = nullptr);
    void count_with(DriverCoverage& coverage) { coverage_ = &coverage; }

    CmdResult<uint32_t> create(const pib_hca_create_eq& in);
    Verdict destroy(uint32_t eqn);  // BUSY while CQs use it
    EventQueue* find(uint32_t eqn) { return eqs_.find(eqn); }
    uint32_t count() const { return eqs_.count(); }
    // False, without effect: there is no such EQ, a reserved bit is set, the counter is impossible,
    // or the device has stopped.
    [[nodiscard]] bool doorbell(uint64_t value);
    void clear();
    template <typename F>
    void for_each(F&& f) {
        eqs_.for_each(f);
    }

    void completion_event(uint32_t eqn, uint32_t cqn);
    // Drops the waiting completion event of a CQ that is destroyed.
    void forget_completion(uint32_t eqn, uint32_t cqn);
    // Writes an event to the async EQ, or keeps it until the queue has room; without an async EQ,
    // the event is lost.
    void async_event(Event type, uint32_t number, uint32_t data = 0, uint8_t port = 0);
    // Drops the waiting events of an object that is destroyed.
    void forget_events(EventSource source, uint32_t number);
    // Reports the stop of the device for `cause` by the async EQ, if there is one: always by an
    // interrupt, and by an event if it can be written. No other event follows until clear().
    void fatal_event(uint32_t cause);
    // Stops the device with PIB_HCA_FATAL_INTERNAL, for INJECT_EVENT.
    void inject_fatal();
    // The deadline of events that an adversarial device delays although their queue has room.
    uint64_t next_deadline() const { return delay_.next_deadline(); }
    void timer(uint64_t now_ns);
    [[nodiscard]] bool has_async() const { return async_eqn_ != Table<EventQueue>::kFull; }

  private:
    [[nodiscard]] static bool full(const EventQueue& eq) {
        return eq.producer - eq.consumer >= 1u << eq.log_depth;
    }
    // False: the queue's memory is not accessible. The queue must not be full.
    [[nodiscard]] bool write(EventQueue& eq, const pib_hca_eqe& event);
    void post(EventQueue& eq, const pib_hca_eqe& eqe);
    void post_waiting(EventQueue& eq);
    void fire(EventQueue& eq);
    void watch_doorbell(EventQueue& eq, bool moved);
    void stop(uint32_t cause);

    Host& host_;
    Events& events_;
    uint32_t vectors_;
    Table<EventQueue> eqs_;
    Strict* strict_;
    DriverCoverage* coverage_ = nullptr;
    EventDelay delay_;
    uint32_t async_eqn_ = Table<EventQueue>::kFull;
    bool stopped_ = false;
};

// Whether software has taken all events.
[[nodiscard]] inline bool all_events_taken(EqTable& eqs) {
    bool taken = true;
    eqs.for_each([&](uint32_t, const EventQueue& eq) {
        taken &= eq.producer == eq.consumer && eq.all_waiting() == 0;
    });
    return taken;
}

}  // namespace pib::hca
