// SPDX-License-Identifier: GPL-2.0-or-later
// Requester, responder, completer and datagrams share these services: the parts of the device, the
// QPs, their timers and their turns.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/timers.h"
#include "qp/held_completion.h"
#include "qp/page_faults.h"
#include "qp/qp.h"
#include "qp/qp_table.h"
#include "qp/reg_list_watch.h"
#include "qp/scheduler.h"
#include "qp/transport_parts.h"
#include "strict/strict.h"

namespace pib::hca {

class QpServices {
  public:
    explicit QpServices(const TransportParts& parts)
        : parts_(parts), scheduler_(parts.host, parts.ports) {
        if (Strict* strict = parts.counters.strict; strict != nullptr) {
            reg_lists_.emplace(parts.host, *strict);
        }
    }

    const TransportParts& parts() const { return parts_; }
    Host& host() { return parts_.host; }
    Mpt& mpt() { return parts_.mpt; }
    // These two are nullptr unless the device is strict.
    Strict* strict() { return parts_.counters.strict; }
    RegListWatch* reg_lists() { return reg_lists_ ? &*reg_lists_ : nullptr; }
    // nullptr unless the device has peer copy.
    PeerCopy* peer_copy() { return parts_.peer_copy; }
    // The QP must have a port: qp.port() is not 0.
    Port& port_of(const QueuePair& qp) { return *parts_.ports[qp.port() - 1u]; }
    // Port and static rate of a connected QP's packets.
    Outlet outlet_of(const QueuePair& qp) {
        return {.port = port_of(qp), .static_rate = qp.attr.av.static_rate, .qpn = qp.qpn};
    }

    QpTable& qps() { return qps_; }
    Scheduler& scheduler() { return scheduler_; }
    const Scheduler& scheduler() const { return scheduler_; }
    Timers& timers() { return timers_; }
    const Timers& timers() const { return timers_; }
    SnapshotBudget& snapshots() { return snapshots_; }
    PageFaults& page_faults() { return page_faults_; }
    // Held completions, oldest first; release_completions() writes them.
    std::deque<HeldCompletion>& held_completions() { return held_completions_; }
    const std::deque<HeldCompletion>& held_completions() const { return held_completions_; }

    void schedule(QueuePair& qp) { scheduler_.schedule(qp); }
    // Adds one to a counter of the QP's port.
    void count(const QueuePair& qp, HcaCounter counter) { parts_.counters.add(counter, qp.port()); }
    void event(Event type, const QueuePair& qp) { parts_.eqs.async_event(type, qp.qpn); }
    // trace_send() and trace_recv() report to the trace and to the driver's coverage a WQE that was
    // copied from a queue. trace_done() reports a completion to the trace.
    void trace_send(const QueuePair& qp, const SendRequest& request, std::span<const uint8_t> wqe) {
        if (DriverCoverage* coverage = parts_.counters.coverage; coverage != nullptr) {
            coverage->send_wqe(wqe[0], wqe[1]);
        }
        if (Trace* trace = parts_.counters.trace; trace != nullptr) [[unlikely]] {
            trace->send_wqe(host().now_ns(),
                            {.qpn = qp.qpn,
                             .counter = request.counter,
                             .psn = request.psn_first.value(),
                             .packets = request.packets,
                             .qp_type = static_cast<uint8_t>(qp.type)},
                            wqe);
        }
    }
    void trace_recv(const QueuePair& qp) {
        if (DriverCoverage* coverage = parts_.counters.coverage; coverage != nullptr) {
            coverage->recv_wqe();
        }
        if (Trace* trace = parts_.counters.trace; trace != nullptr) [[unlikely]] {
            const ReceiveRequest& recv = qp.resp.recv;
            trace->recv_wqe(host().now_ns(), {.qpn = qp.qpn, .counter = recv.counter}, recv.bytes);
        }
    }
    void trace_done(const TracedCompletion& completion) {
        if (Trace* trace = parts_.counters.trace; trace != nullptr) [[unlikely]] {
            trace->completion(host().now_ns(), completion);
        }
    }

    // Removes all QPs. Call this when the device is reset or stops.
    void reset() {
        qps_.clear();
        scheduler_.clear();
        timers_.clear();
        snapshots_ = {};
        page_faults_.clear();
        held_completions_.clear();
        if (reg_lists_) {
            reg_lists_->clear();
        }
    }

  private:
    TransportParts parts_;
    QpTable qps_;
    Scheduler scheduler_;
    Timers timers_;
    SnapshotBudget snapshots_;
    PageFaults page_faults_;
    std::deque<HeldCompletion> held_completions_;
    std::optional<RegListWatch> reg_lists_;
};

// Counts a received packet that a port drops.
inline void count_dropped(const QpServices& services, unsigned port) {
    services.parts().counters.add(HcaCounter::kRxDropped, port);
}

}  // namespace pib::hca
