// SPDX-License-Identifier: GPL-2.0-or-later
// Order of the QPs that have work: those that wait for a turn, and those that wait for room at a
// port.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/host.h"
#include "qp/qp_table.h"
#include "qp/run_queue.h"
#include "qp/turn.h"

namespace pib::hca {

class Scheduler {
  public:
    Scheduler(Host& host, std::span<Port* const> ports) : host_(host), ports_(ports) {}

    // Queues the QP for a turn, and requests Device::run() if necessary.
    void schedule(QueuePair& qp);
    [[nodiscard]] bool has_work() const { return !run_queue_.empty(); }
    RunQueue& run_queue() { return run_queue_; }
    // Lane of the QP's next packet: see Port::lane(). kLoopbackLane: the packet waits for no VL.
    unsigned lane_of(const QueuePair& qp) const;
    // Whether a turn for the QP now would overtake other QPs that wait for the same link.
    [[nodiscard]] bool others_wait(const QueuePair& qp) const {
        return !run_queue_.empty() && run_queue_.others_wait(qp.port(), lane_of(qp));
    }

    // Until end_turns(), schedule() does not request Device::run(): the caller gives the turns.
    void begin_turns() { turns_ = true; }
    void end_turns() { turns_ = false; }
    // The host has called Device::run(): the request is no longer pending.
    void woken() { woken_ = false; }

    // Adds work that may exceed the budget of its turn many times over, in bytes of payload: copies
    // of this HCA's own multicast packets to its QPs, and searches through all QPs, as for those of
    // a CQ that has failed. take_extra() returns the sum since its last call.
    void add_extra(uint64_t bytes) { extra_ += bytes; }
    uint64_t extra() const { return extra_; }
    uint64_t take_extra() { return std::exchange(extra_, 0); }

    // The port has no room for the QP's packet: the QP gets no turns until room() or unpark().
    void park(QueuePair& qp);
    void unpark(QueuePair& qp);
    // The port has room: its parked QPs get turns.
    void room(unsigned port, QpTable& qps);

    // Removes the QP from all lists. Call this before the QP is destroyed.
    void forget(QueuePair& qp);
    void clear();

  private:
    Host& host_;
    std::span<Port* const> ports_;  // [0] is port 1
    RunQueue run_queue_;
    std::array<std::vector<uint32_t>, kMaxPorts> parked_;
    bool turns_ = false;
    bool woken_ = false;
    uint64_t extra_ = 0;
};

}  // namespace pib::hca
