// SPDX-License-Identifier: GPL-2.0-or-later
// Event queues: EQEs in guest memory, armed by doorbell, announced by one MSI-X vector each.
#pragma once

#include <cstdint>
#include <set>

#include "base/table.h"
#include "memory/guest_buffer.h"

namespace pib::hca {

struct EventQueue {
    GuestBuffer buffer;
    uint32_t producer = 0;
    uint32_t consumer = 0;  // as of the last doorbell
    uint32_t vector = 0;
    uint8_t log_depth = 0;
    bool armed = false;
    bool async = false;
    uint32_t users = 0;  // CQs
    // CQs whose completion event found the queue full; told when the driver has made room.
    std::set<uint32_t> waiting_cqs;
};

class EqTable {
  public:
    // Calls `fatal` with PIB_HCA_FATAL_EQ_DMA or PIB_HCA_FATAL_EQ_OVERRUN, once until clear().
    class Events {
      public:
        virtual ~Events() = default;
        virtual void eq_fatal(uint32_t cause) = 0;
        virtual void interrupt_raised() = 0;
    };

    EqTable(Host& host, Events& events, uint32_t max_eqs, uint32_t vectors);

    CmdResult<uint32_t> create(const pib_hca_create_eq& in);
    CmdStatus destroy(uint32_t eqn);  // BUSY while CQs use it
    EventQueue* find(uint32_t eqn) { return eqs_.find(eqn); }
    uint32_t count() const { return eqs_.count(); }
    // False when there is no such EQ or the counter is impossible: then nothing changes.
    bool doorbell(uint64_t value);
    void clear();
    template <typename F>
    void for_each(F&& f) {
        eqs_.for_each(f);
    }

    void completion_event(uint32_t eqn, uint32_t cqn);
    // Forgets an event of a CQ that waits for room: the CQ is destroyed.
    void forget_completion(uint32_t eqn, uint32_t cqn);
    // Writes an event to the async EQ; dropped while there is none.
    void async_event(pib_hca_event type, uint32_t number, uint32_t data = 0, uint8_t port = 0);
    // The device stopped for `cause`: an event if it can still be written, and an interrupt in any
    // case. No other event follows until clear().
    void fatal_event(uint32_t cause);
    // Stops the device with PIB_HCA_FATAL_INTERNAL on request.
    void inject_fatal() { stop(PIB_HCA_FATAL_INTERNAL); }
    bool has_async() const { return async_eqn_ != Table<EventQueue>::kFull; }

  private:
    static bool full(const EventQueue& eq) {
        return eq.producer - eq.consumer >= 1u << eq.log_depth;
    }
    // False when the queue's memory is gone. The queue is not full.
    bool write(EventQueue& eq, pib_hca_eqe eqe);
    void post(EventQueue& eq, const pib_hca_eqe& eqe);
    void fire(EventQueue& eq);
    void stop(uint32_t cause);

    Host& host_;
    Events& events_;
    uint32_t vectors_;
    Table<EventQueue> eqs_;
    uint32_t async_eqn_ = Table<EventQueue>::kFull;
    bool stopped_ = false;
};

}  // namespace pib::hca
