// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine.h"

#include <algorithm>

namespace pib::hca {

namespace {

// Interval of the checks whether the switch has stopped copying. The switch wakes the link when it
// answers a pull, but not when it has read the payload of an offer.
constexpr uint64_t kCopyPollNs = 1'000'000;

Config with_joined_knobs(Config config) {
    config.knobs = config.knobs.joined();
    return config;
}

Host& below_trace(EngineAdversity* adversity, Host& host) {
    return adversity != nullptr ? static_cast<Host&>(adversity->host()) : host;
}

}  // namespace

Engine::Engine(const Config& config, Host& host)
    : config_(with_joined_knobs(config)),
      trace_(config.trace_entries, config.trace_kinds),
      adversity_(EngineAdversity::create(config, host)),
      traced_host_(config.trace_kinds.dma
                       ? std::make_unique<TracedHost>(below_trace(adversity_.get(), host), trace_)
                       : nullptr),
      host_(traced_host_ ? static_cast<Host&>(*traced_host_) : below_trace(adversity_.get(), host)),
      strict_(Strict::create(host_, config.knobs.strict)),
      counters_(fresh_counters()),
      health_(host_, counters_),
      eqs_(host_, health_, Limits::kEqs, config.vector_count, strict_.get(), counters_.adversary),
      cqs_(host_, eqs_, Limits::kCqs, strict_.get(), &coverage_),
      srqs_(host_, eqs_, cqs_, Limits::kSrqs, strict_.get()),
      mpt_(host_, Limits::kMrs, Limits::kMrPages, config_.knobs.number_choice),
      peer_copy_(config.peer_copy && !traced_host_ && !adversity_
                     ? std::make_unique<PeerCopy>(host_, mpt_)
                     : nullptr),
      ports_(config_, host_, eqs_, counters_, peer_copy_.get()),
      transport_({host_, mpt_, cqs_, srqs_, eqs_, counters_, ports_.ports(), peer_copy_.get()}),
      objects_{config_, host_, counters_, eqs_,       cqs_,
               srqs_,   mpt_,  ports_,    transport_, peer_copy_.get()},
      commands_(objects_) {
    ports_.set_client(transport_);
    journal_.report_to(objects_.refusals);
    objects_.refusals.count_with(coverage_);
    eqs_.count_with(coverage_);
    if (strict_) {
        strict_->report_to(objects_.refusals);
        doorbell_watch_.emplace(host_, *strict_);
        cqe_watch_.emplace(host_, *strict_);
    }
    cqs_.set_knobs(config_.knobs);
    srqs_.set_knobs(config_.knobs);
    transport_.verbs().set_knobs(config_.knobs);
    objects_.set_choice(config_.knobs.number_choice);
}

void Engine::run() {
    if (commands_.has_work()) {
        run_commands();
    }
    const bool ports_left = ports_.run();
    turn();
    if (ports_left) {
        host_.wake();
    }
}

// No QP has a turn while the switch still accesses revoked memory, because completions would only
// be held.
void Engine::turn() {
    if (health_.is_fatal()) {
        return;
    }
    if (adversity_) [[unlikely]] {
        adversity_->host().store_payload();  // before acknowledgements
    }
    if (is_copying()) {
        withheld_ = true;
        return;
    }
    const bool more = transport_.run();
    if (objects_.shadow_doorbells.run() || more) {
        host_.wake();
    }
}

void Engine::timer() {
    deadline_ns_ = kNever;  // the host's timer has expired
    const uint64_t now = host_.now_ns();
    if (!health_.is_fatal()) {
        transport_.timer(now);
        cqs_.timer(now);
    }
    ports_.timer(now);
    if (strict_ && !health_.is_fatal()) {
        strict_->timer(now);
        doorbell_watch_->timer(now, transport_.verbs());
        cqe_watch_->timer(now, cqs_);
    }
    if (adversity_) [[unlikely]] {
        adversity_->timer(now, objects_, health_.is_fatal());
        if (commands_.next_deadline() <= now) {
            run_commands();
        }
    }
}

void Engine::reset(bool cold) {
    commands_.reset();
    if (adversity_) {
        adversity_->host().reset();
    }
    objects_.clear();  // revokes all memory
    if (strict_) {
        strict_->reset();
        doorbell_watch_->stop();
        cqe_watch_->stop();
    }
    resetting_ = true;
    counters_ = fresh_counters();
    health_.reset();
    ports_.reset(cold);
}

void Engine::revoke_memory() noexcept {
    guard([&] {
        if (peer_copy_) {
            peer_copy_->revoke_all();
        }
    });
}

bool Engine::copying_stopped() noexcept {
    bool stopped = true;
    guard([&] { stopped = !peer_copy_ || peer_copy_->settled(); });
    return stopped;
}

// ---- commands

Verdict Engine::enable(const CommandQueue::Rings& rings) {
    if (health_.is_fatal()) {
        return refuse(Rule::kEnableStopped);
    }
    const Verdict verdict = commands_.start(rings);
    if (strict_ && verdict == CmdStatus::kOk) {
        strict_->enabled();
        doorbell_watch_->start();
        cqe_watch_->start();
    }
    return verdict;
}

void Engine::command_doorbell(uint32_t producer) {
    if (const uint32_t cause = commands_.doorbell(producer); cause != PIB_HCA_FATAL_NONE) {
        health_.fail(cause);
        return;
    }
    run_commands();
}

void Engine::run_commands() {
    if (const uint32_t cause = commands_.run(health_.is_fatal()); cause != PIB_HCA_FATAL_NONE) {
        commands_.stop();
        health_.fail(cause);
    }
    if (commands_.has_work()) {
        host_.wake();
    }
}

// The switch has stopped copying, so the held completions are written. Those of work requests come
// before those of commands, because a command may destroy the queue pair. run() then makes up for
// the turns that were left out.
void Engine::go_on() {
    withheld_ = false;
    transport_.release_completions();
    run_commands();
    halt_if_fatal();
    host_.wake();
}

// ---- the end of an entry

void Engine::halt_if_fatal() {
    if (health_.must_halt()) {
        halt();
    }
}

// The last event reports the stop to the driver. Afterwards the device refuses all commands, and
// writes nothing to guest memory but their completions. The ports keep working for the subnet
// manager.
void Engine::halt() {
    coverage_.stopped(health_.cause());
    if (health_.cause() == PIB_HCA_FATAL_CMDQ_OVERRUN) {
        commands_.stop();
    }
    eqs_.fatal_event(health_.cause());
    objects_.doorbells.clear();
    objects_.shadow_doorbells.clear();
    transport_.reset();
    cqs_.clear();
    srqs_.clear();
    mpt_.clear();
}

void Engine::settle() {
    // A device that is not enabled has nothing to stop, and processes may ring doorbells until they
    // learn of a reset.
    if (strict_ && strict_->must_stop() && commands_.running()) [[unlikely]] {
        health_.fail(PIB_HCA_FATAL_RULE);
    }
    halt_if_fatal();
    const bool work_waits = withheld_ || commands_.is_held() || transport_.holds_completions();
    if (work_waits && copying_stopped()) [[unlikely]] {
        go_on();
    }
    withheld_ = !copying_stopped();
    resetting_ = resetting_ && withheld_;
    const uint64_t look_again = withheld_ ? host_.now_ns() + kCopyPollNs : kNever;
    // A stopped device ignores the doorbells that a strict device waits for.
    uint64_t patience = kNever;
    if (strict_ && !health_.is_fatal()) [[unlikely]] {
        patience = std::min({strict_->next_deadline(), doorbell_watch_->next_deadline(),
                             cqe_watch_->next_deadline()});
    }
    if (adversity_) [[unlikely]] {
        adversity_->host().store_payload();
        patience = std::min(patience, adversity_->next_deadline(objects_, commands_));
    }
    ports_.flush();
    const uint64_t deadline = std::min({transport_.next_deadline(), ports_.next_deadline(),
                                        cqs_.next_deadline(), look_again, patience});
    // A timer that expires early finds no due work and is set again. Moving it at each ACK would
    // wake the main loop each time.
    if (deadline < deadline_ns_) {
        deadline_ns_ = deadline;
        host_.set_timer(deadline);
    }
}

}  // namespace pib::hca
