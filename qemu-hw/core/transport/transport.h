// SPDX-License-Identifier: GPL-2.0-or-later
// The transport layer (IBA vol. 1, chapters 9 to 11): gives doorbells, packets, turns and timers of
// the queue pairs to requester, responder, completer and datagram service.
#pragma once

#include <cstdint>
#include <utility>

#include "port/port.h"
#include "qp/completions.h"
#include "qp/qp_services.h"
#include "qp/transport_parts.h"
#include "transport/completer.h"
#include "transport/datagram.h"
#include "transport/mcast_table.h"
#include "transport/qp_verbs.h"

namespace pib::hca {

class Transport final : public PortClient {
  public:
    explicit Transport(const TransportParts& parts);

    QpVerbs& verbs() { return verbs_; }

    // Doorbells; false when the QP does not exist or belongs to another UAR. A send doorbell sends
    // at once, within a budget; run() does the rest. `noted`: a bit of a shadow doorbell page. A
    // kick may find a thousand of them, so all of them since the last run() send at once only as
    // much as one run() does.
    [[nodiscard]] bool send_doorbell(uint32_t uar, uint32_t qpn, bool noted = false);
    [[nodiscard]] bool recv_doorbell(uint32_t uar, uint32_t qpn);

    // Writes the held completions (qp/held_completion.h). Call this before held commands complete:
    // software expects no CQE of a QP after its DESTROY_QP.
    void release_completions() { hca::release_completions(services_); }
    [[nodiscard]] bool holds_completions() const { return !services_.held_completions().empty(); }
    // Sum of the work that Scheduler::add_extra() names; commands compare it before and after.
    uint64_t extra_work() const { return services_.scheduler().extra(); }
    // Whether run() has work. If so, the host, or the caller of run_follows(), will call run().
    [[nodiscard]] bool has_work() const { return services_.scheduler().has_work(); }
    // Does a bounded amount of queued work. True: work is left.
    [[nodiscard]] bool run();
    // The caller will call run() before it returns to the host, so the transport need not call
    // Host::wake().
    void run_follows() { services_.scheduler().begin_turns(); }
    // Handles timers that are due, up to a limit, and returns the next deadline, or kNever. The
    // deadline has passed if due timers are left.
    uint64_t timer(uint64_t now_ns);
    uint64_t next_deadline() const;

    // Device reset: forgets every QP, without completions.
    void reset() { verbs_.reset(); }

    // ---- PortClient
    uint32_t burst_in(unsigned port, const ib::Burst& burst, ib::Placement& payload) override;
    uint64_t take_copied() override { return std::exchange(work_in_, 0); }
    void port_ready(unsigned port) override;
    void port_changed(unsigned port) override;

  private:
    void ring(QueuePair& qp, bool noted);
    void serve(unsigned port);
    void give_turn(uint32_t qpn, Budget budget);
    Turn turn(QueuePair& qp, Budget& budget);
    void after_turn(QueuePair& qp, Turn turn);
    uint32_t take(unsigned port, const ib::Burst& burst, ib::Placement& payload);
    uint32_t connected_in(QueuePair& qp, unsigned port, const ib::Burst& burst,
                          ib::Placement& payload);
    uint32_t drop(unsigned port, const ib::Burst& burst);

    QpServices services_;
    McastTable mcast_;
    QpVerbs verbs_;
    Completer completer_;
    Datagram datagram_;
    // Work of received packets besides their own delivery, as bytes of payload: copies of
    // multicasts, and searches for the QPs of a CQ that has failed.
    uint64_t work_in_ = 0;
    uint64_t noted_work_ = 0;  // work of noted doorbells since the last run(), in bytes of payload
};

}  // namespace pib::hca
