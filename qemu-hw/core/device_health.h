// SPDX-License-Identifier: GPL-2.0-or-later
// The state of the device: working, or stopped with a cause (STATUS.FATAL and FATAL_CAUSE).
#pragma once

#include <cstdint>

#include "base/counters.h"
#include "base/host.h"
#include "pib_hca_hw.h"
#include "queues/eq.h"

namespace pib::hca {

class DeviceHealth final : public EqTable::Events {
  public:
    DeviceHealth(Host& host, Counters& counters) : host_(host), counters_(counters) {}

    [[nodiscard]] bool is_fatal() const { return cause_ != PIB_HCA_FATAL_NONE; }
    uint32_t cause() const { return cause_; }
    // Records the first cause. The engine stops the device at the end of the current entry.
    void fail(uint32_t cause) {
        if (!is_fatal()) {
            cause_ = cause;
            event_raised({.type = Event::kDeviceFatal, .data = cause});
            host_.log(LogLevel::kGuestError,
                      "pib-hca: the device has stopped (see FATAL_CAUSE); reset it");
        }
    }
    // True at the first call after fail().
    [[nodiscard]] bool must_halt() {
        const bool due = is_fatal() && !halted_;
        halted_ = halted_ || due;
        return due;
    }
    void reset() {
        cause_ = PIB_HCA_FATAL_NONE;
        halted_ = false;
    }

    // ---- EqTable::Events
    void eq_fatal(uint32_t cause) override { fail(cause); }
    void event_raised(const RaisedEvent& event) override {
        if (counters_.journal != nullptr) {
            counters_.journal->raised(host_.now_ns(), event);
        }
    }
    void event_written(uint32_t eqn, uint32_t counter, const RaisedEvent& event) override {
        if (counters_.trace != nullptr) [[unlikely]] {
            counters_.trace->event(host_.now_ns(),
                                   {.eqn = eqn, .counter = counter, .event = event});
        }
    }
    void interrupt_raised(const RaisedInterrupt& interrupt) override {
        counters_.add(HcaCounter::kInterrupts, Counters::kNoPort);
        if (counters_.trace != nullptr) [[unlikely]] {
            counters_.trace->interrupt(host_.now_ns(), interrupt);
        }
    }

  private:
    Host& host_;
    Counters& counters_;
    uint32_t cause_ = PIB_HCA_FATAL_NONE;
    bool halted_ = false;
};

}  // namespace pib::hca
