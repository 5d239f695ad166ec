// SPDX-License-Identifier: GPL-2.0-or-later
// The parts of the device, and the operations that concern all of them: entries from the host,
// turns, reset, and the stop after a fatal error.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>

#include "base/config.h"
#include "base/counters.h"
#include "base/host.h"
#include "base/trace.h"
#include "base/traced_host.h"
#include "commands/command_queue.h"
#include "device_health.h"
#include "engine_adversity.h"
#include "memory/mpt.h"
#include "memory/peer_copy.h"
#include "mmio/cqe_watch.h"
#include "mmio/device_objects.h"
#include "mmio/doorbell_watch.h"
#include "pib_hca_hw.h"
#include "port/hca_ports.h"
#include "queues/cq.h"
#include "queues/eq.h"
#include "queues/srq.h"
#include "strict/strict.h"
#include "transport/transport.h"

namespace pib::hca {

class Engine {
  public:
    Engine(const Config& config, Host& host);

    // Runs an entry point; then sends queued frames and sets the host's timer.
    template <typename F>
    void enter(F&& body) noexcept {
        guard([&] {
            if (adversity_) [[unlikely]] {
                deadline_ns_ = kNever;  // sets the timer again, because the clock may have stepped
                adversity_->begin(objects_, commands_.running(), health_.is_fatal());
            }
            body();
            settle();
        });
    }

    // Call the following functions inside of enter().
    void run();
    void timer();
    void reset(bool cold);
    // A refusal has no effect. Reasons: the device has stopped, or the rings are invalid.
    Verdict enable(const CommandQueue::Rings& rings);
    // `producer` is the value of the command doorbell.
    void command_doorbell(uint32_t producer);
    // Call begin_input() before a link passes on received bytes, and turn() afterwards: the work
    // that packets and credits cause is then done in the same entry, without another wake-up.
    void begin_input() { transport_.run_follows(); }
    void turn();
    // Whether the switch still accesses revoked memory.
    [[nodiscard]] bool is_copying() { return peer_copy_ && peer_copy_->is_busy(); }
    [[nodiscard]] bool is_resetting() { return resetting_ && is_copying(); }

    // These two are called outside of enter() as well, on a stopped VM: they write no completions.
    void revoke_memory() noexcept;
    [[nodiscard]] bool copying_stopped() noexcept;

    DeviceObjects& objects() { return objects_; }
    const CommandQueue& commands() const { return commands_; }
    Trace& trace() { return trace_; }
    const Journal& journal() const { return journal_; }
    DeviceHealth& health() { return health_; }

  private:
    // An exception of the body (out of memory) stops the device, not the virtual machine.
    template <typename F>
    void guard(F&& body) noexcept {
        try {
            body();
        } catch (const std::exception&) {
            health_.fail(PIB_HCA_FATAL_INTERNAL);
            halt_if_fatal();
        }
    }
    Counters fresh_counters() {
        return {.trace = trace_.enabled() ? &trace_ : nullptr,
                .journal = &journal_,
                .strict = strict_.get(),
                .coverage = &coverage_,
                .adversary = adversity_ ? &adversity_->adversary() : nullptr};
    }
    void run_commands();
    void go_on();
    void halt_if_fatal();
    void halt();
    void settle();

    const Config config_;
    Trace trace_;
    std::unique_ptr<EngineAdversity> adversity_;  // nullptr: the device is not adversarial
    std::unique_ptr<TracedHost> traced_host_;     // nullptr: the trace has no DMA
    Host& host_;
    Journal journal_;
    DriverCoverage coverage_;
    std::unique_ptr<Strict> strict_;
    // nullopt: the device is not strict.
    std::optional<DoorbellWatch> doorbell_watch_;
    std::optional<CqeWatch> cqe_watch_;
    Counters counters_;
    DeviceHealth health_;
    EqTable eqs_;
    CqTable cqs_;
    SrqTable srqs_;
    Mpt mpt_;
    std::unique_ptr<PeerCopy> peer_copy_;  // nullptr: no peer copy
    HcaPorts ports_;
    Transport transport_;
    DeviceObjects objects_;
    CommandQueue commands_;
    uint64_t deadline_ns_ = kNever;
    bool withheld_ = false;   // work waits until the switch stops copying
    bool resetting_ = false;  // the last reset waits until the switch stops copying
};

}  // namespace pib::hca
