// SPDX-License-Identifier: GPL-2.0-or-later
// Checks the driver of a strict device (property strict): reports broken rules that the device does
// not enforce. The parts of the device tell this class what the driver has done to their objects. A
// device that is not strict has a nullptr instead of this object.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/config.h"
#include "base/host.h"
#include "base/recent_accesses.h"
#include "memory/guest_buffer.h"
#include "rules/refusals.h"
#include "strict/queue_memory.h"

namespace pib::hca {

class Strict {
  public:
    // The driver must take the EQEs of an interrupt, and ring the doorbell of a send WQE, within
    // kSteps * kStepNs. The time is measured in steps, so that a jump of the clock after a pause of
    // the virtual machine uses up one step only.
    static constexpr uint64_t kStepNs = 10'000'000'000;
    static constexpr unsigned kSteps = 6;
    // Number of doorbells that may arm an EQ or CQ with the same counter although the queue has a
    // later entry.
    static constexpr uint32_t kMostArmings = 1000;

    // nullptr: the property strict is off.
    static std::unique_ptr<Strict> create(Host& host, Strictness strictness);
    Strict(Host& host, bool fatal) : host_(host), fatal_(fatal) {}
    // Sets where broken rules are reported. Call this before all other functions.
    void report_to(Refusals& refusals);

    // Reports a broken rule, once for each object until the next reset. After kMostNamed reports,
    // further rules and objects are reported every time.
    void broken(Rule rule, Subject subject, uint64_t value = 0, uint64_t limit = 0,
                Subject other = {});
    // Whether the device must stop: with strict=fatal, if the driver has broken a rule since the
    // last call.
    [[nodiscard]] bool must_stop() {
        const bool broken = refusals_->silent() != judged_;
        judged_ = refusals_->silent();
        return broken && fatal_;
    }

    // ---- registers and reset
    void accessed(const MmioAccess& access) { accesses_.add(access); }
    void status_read(uint64_t status) { ready_seen_ = ready_seen_ || status == 0; }
    void reset();
    void enabled();
    // Numbers of QPs that can receive, of commands that have not completed, and of objects that the
    // driver should have destroyed.
    struct Unfinished {
        uint32_t working_qps = 0;
        uint32_t commands = 0;
        uint32_t objects = 0;
    };
    // Bus mastering was switched off, or the PCI function has left the power state D0.
    void dma_ended(const Unfinished& left);

    // ---- memory that belongs to the device
    // A queue's buffer is passed to the device, which has not written to it yet.
    void queue_created(Subject queue, const GuestBuffer& buffer, const QueueLayout& layout);
    void memory_claimed(Subject owner, uint64_t bus_addr, uint64_t bytes);
    void queue_destroyed(Subject queue) { claims_.release(queue); }
    // A resize has ended, and the queue does not use `buffer`: its old buffer, or the new buffer if
    // the resize was refused. Pages that are in both buffers stay the queue's.
    void memory_released(Subject queue, const GuestBuffer& buffer, const GuestBuffer& used);
    void memory_lost(Subject queue) { broken(Rule::kMemoryLost, queue); }
    // Checks the owner bytes in a ring whose next entry is number `producer`. Call this before the
    // device writes that entry, and before the object is destroyed.
    void check_ring(Subject queue, const OwnedRing& ring, uint32_t producer) {
        if (const auto entry = foreign_owner(host_, ring, producer)) {
            broken(Rule::kOwnerWritten, queue, entry->found, entry->index);
        }
    }
    // The device is about to write the output of a command to this range of bus addresses.
    void output(Subject command, uint64_t bus_addr, uint64_t bytes);

    // ---- event queues
    void armed(uint32_t eqn, uint32_t vector);
    // The device has written an EQE. Reports the rule unless the driver rings the EQ's doorbell,
    // which calls events_taken(), within kSteps * kStepNs:
    // * kEqeLeft: the EQE has raised an interrupt.
    // * kEqUnarmed: it has raised none, and the EQ was armed earlier.
    // * kEqNeverArmed: it has raised none, and software has neither armed the EQ nor taken an EQE.
    //   The time runs only while interrupts of the vector reach a handler: a driver may poll an EQ.
    void await_doorbell(Rule rule, uint32_t eqn, uint32_t vector);
    void events_taken(uint32_t eqn) { unserved_.erase(eqn); }
    uint64_t next_deadline() const;
    void timer(uint64_t now_ns);

    // ---- counters in guest memory
    // Whether the consumer of a CQ moved forward, and not past the producer. Else reports the rule.
    [[nodiscard]] bool consumer_moved(Subject cq, uint32_t from, uint32_t to, uint32_t producer);
    void arm_counter(Subject cq, uint32_t counter, uint32_t producer);
    // The rules that a producer counter breaks when it passes its limit, or when it moves back.
    struct ProducerRules {
        Rule passes;
        Rule back;
    };
    void producer_moved(Subject queue, const ProducerRules& rules, uint32_t from, uint32_t to,
                        bool possible, uint32_t limit);

  private:
    static constexpr size_t kMostNamed = 4096;
    struct Unserved {
        Rule rule;
        uint32_t vector = 0;
        uint64_t deadline_ns = 0;  // end of this step
        unsigned steps = kSteps;   // steps left
    };

    Host& host_;
    const bool fatal_;
    Refusals* refusals_ = nullptr;
    uint64_t judged_ = 0;  // Refusals::silent() at the last call of must_stop()
    RecentAccesses accesses_;
    bool ready_seen_ = true;  // STATUS was read as 0 since the last reset, or there was no reset
    MemoryClaims claims_;
    std::map<uint32_t, Unserved> unserved_;  // EQs whose EQEs the driver has not taken
    std::set<std::pair<Rule, Subject>> named_;
};

}  // namespace pib::hca
