// SPDX-License-Identifier: GPL-2.0-or-later
// Event queues: EQEs in guest memory, armed by doorbell, announced by one MSI-X vector each.
#pragma once

#include <cstdint>

#include "guest_buffer.h"
#include "table.h"

namespace pib::hca {

struct EventQueue {
    GuestBuffer buffer;
    uint32_t producer = 0;
    uint32_t consumer = 0;  // as of the last doorbell
    uint32_t vector = 0;
    uint8_t log_depth = 0;
    bool armed = false;
    bool async = false;
    bool overrun = false;  // completion EQs: events are lost until drained, then one is made up
    uint32_t users = 0;    // CQs
};

class EqTable {
  public:
    // `fatal` is told PIB_HCA_FATAL_EQ_DMA or PIB_HCA_FATAL_EQ_OVERRUN.
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
    void doorbell(uint64_t value);
    void clear();

    void completion_event(uint32_t eqn, uint32_t cqn);
    // To the async EQ; dropped while there is none (nobody has asked yet).
    void async_event(pib_hca_event type, uint32_t number, uint32_t data = 0, uint8_t port = 0);
    bool has_async() const { return async_eqn_ != Table<EventQueue>::kFull; }

  private:
    void post(EventQueue& eq, pib_hca_eqe eqe);

    Host& host_;
    Events& events_;
    uint32_t vectors_;
    Table<EventQueue> eqs_;
    uint32_t async_eqn_ = Table<EventQueue>::kFull;
};

}  // namespace pib::hca
