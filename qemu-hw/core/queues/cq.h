// SPDX-License-Identifier: GPL-2.0-or-later
// Completion queues (IBA vol. 1, 10.8): CQEs in guest memory, arming, overrun.
#pragma once

#include <cstdint>
#include <optional>

#include "base/config.h"
#include "base/driver_coverage.h"
#include "base/table.h"
#include "base/timers.h"
#include "memory/guest_buffer.h"
#include "queues/completion.h"
#include "queues/eq.h"
#include "queues/past_completions.h"
#include "strict/strict.h"

// Structures of the register interface (pib_hca_hw.h).
struct pib_hca_create_cq;
struct pib_hca_moderate_cq;
struct pib_hca_resize_cq;

namespace pib::hca {

enum class CqArm : uint8_t { kNone, kSolicited, kNext };

// Syndromes of Event::kCqError.
enum class CqErrorSyndrome : uint32_t { kOverrun = 1, kMemory = 2 };

struct CompletionQueue {
    GuestBuffer buffer;
    uint32_t eqn = 0;
    uint32_t uar = 0;
    uint32_t producer = 0;
    uint32_t consumer = 0;            // last value read from the header; may be out of date
    uint32_t solicited_producer = 0;  // producer after the last CQE that a solicited arm waits for
    uint8_t log_depth = 0;
    CqArm arm = CqArm::kNone;
    bool error = false;  // after an overrun or the loss of its memory: takes no more CQEs
    uint32_t users = 0;  // send and receive queues and SRQs that complete to this CQ
    // Moderation delays an event until this many completions have come, or this many microseconds
    // have passed; 0: no such limit.
    uint16_t moderation_count = 0;
    uint16_t moderation_period = 0;
    bool held = false;       // an event is due but delayed
    uint32_t held_from = 0;  // producer before the first completion that the event reports
    // Only a strict device counts doorbells that arm the CQ. `armed_again`: those in a row that had
    // the counter `armed_at` although the CQ had a completion after it.
    uint32_t armings = 0;
    uint32_t armed_at = 0;
    uint32_t armed_again = 0;
    uint32_t told_at = 0;   // `consumer` when the last event was raised; at first 0
    bool received = false;  // a receive has completed to the CQ; set by a strict device only
    PastCompletions past;

    [[nodiscard]] bool moderated() const { return moderation_count != 0 || moderation_period != 0; }
};

// A resize whose CQEs have not all been copied.
struct CqResize {
    uint32_t cqn = 0;
    uint64_t root = 0;     // page list of the new buffer
    uint32_t first = 0;    // counter of the first unpolled CQE
    uint32_t copied = 0;   // number of copied CQEs
    CompletionQueue to{};  // the new buffer and its depth
};

class CqTable {
  public:
    CqTable(Host& host, EqTable& eqs, uint32_t max_cqs, Strict* strict = nullptr,
            DriverCoverage* coverage = nullptr);

    CmdResult<uint32_t> create(const pib_hca_create_cq& in);  // the caller has checked the UAR
    // Moves the CQ and its unpolled CQEs to another buffer. A refusal leaves the CQ unchanged. Each
    // call copies at most kCqesPerCall CQEs. While is_resizing() is true, the CQ uses its old
    // buffer; the caller destroys no CQ and calls resize_more() again, which may also refuse.
    static constexpr uint32_t kCqesPerCall = 4096;
    Verdict resize(uint32_t cqn, const pib_hca_resize_cq& in);
    Verdict resize_more();
    [[nodiscard]] bool is_resizing() const { return resize_.has_value(); }
    Verdict destroy(uint32_t cqn);  // BUSY while QPs or SRQs use the CQ
    CompletionQueue* find(uint32_t cqn) { return cqs_.find(cqn); }
    uint32_t count() const { return cqs_.count(); }
    uint32_t cqs_of_uar(uint32_t uar);  // number of CQs, for FREE_UAR
    // Arms a CQ by a doorbell of a UAR. False: the UAR has no such CQ, or reserved bits are set.
    [[nodiscard]] bool doorbell(uint32_t uar, uint64_t value);
    void clear();
    template <typename F>
    void for_each(F&& f) {
        cqs_.for_each(f);
    }

    // Writes the body of the CQE, then the owner bit, and raises an event if the CQ is armed. The
    // table sets timestamp and owner. `solicited` is also true for every unsuccessful completion
    // (IBA 11.4.2.2). `event_may_wait`: the event may be late by up to 1 ms, so that one event
    // reports several completions. False: the CQ is in error; the caller moves its QP to Error with
    // Event::kQpFatal. CQ_ERROR is raised once, when the CQ enters the error state.
    [[nodiscard]] bool post(uint32_t cqn, const Completion& completion, bool solicited,
                            bool event_may_wait = false);

    // Sets the moderation and raises a delayed event at once.
    Verdict moderate(uint32_t cqn, const pib_hca_moderate_cq& in);
    uint64_t next_deadline() const { return timers_.next(); }
    void timer(uint64_t now_ns);  // raises delayed events that are due

    // Puts the CQ into error as an overrun does; false: there is no such CQ, or it is in error
    // already. The caller moves its QPs to Error.
    [[nodiscard]] bool inject_error(uint32_t cqn);
    void set_knobs(const TestKnobs& knobs) {
        poison_ = knobs.poison_wc;
        cqs_.set_choice(knobs.number_choice);
    }

  private:
    Verdict end_resize(const Verdict& verdict);
    [[nodiscard]] bool write(CompletionQueue& cq, const Completion& completion);
    // Raises the event for `unseen` completions, now or when moderation permits.
    void tell(uint32_t cqn, CompletionQueue& cq, uint32_t unseen);
    // Delays the event for `unseen` completions by at most `at_most_ns` nanoseconds; 0: no limit.
    void hold(uint32_t cqn, CompletionQueue& cq, uint32_t unseen, uint64_t at_most_ns);
    void fire(uint32_t cqn, CompletionQueue& cq);
    void stop_holding(uint32_t cqn, CompletionQueue& cq);
    void fail(uint32_t cqn, CompletionQueue& cq, CqErrorSyndrome syndrome);

    Host& host_;
    EqTable& eqs_;
    Table<CompletionQueue> cqs_;
    uint64_t pages_left_;
    Strict* strict_;
    DriverCoverage* coverage_;
    // Test knob: fields that IBA 11.4.2.1 leaves undefined for a completion get surprising values.
    bool poison_ = false;
    Timers timers_;  // deadlines of delayed events
    std::optional<CqResize> resize_;
};

}  // namespace pib::hca
