// SPDX-License-Identifier: GPL-2.0-or-later
// Services shared by requester, completer, responder and datagrams: completions, error states, the
// run queue, the timers. They neither send nor receive packets.
#pragma once

#include <cstdint>

#include "base/timers.h"
#include "qp/qp.h"
#include "qp/run_queue.h"
#include "qp/transport_parts.h"

namespace pib::hca {

// Remaining work of a QP's turn, in packets and bytes: payload dominates the cost, packets cost the
// rest.
struct Budget {
    uint32_t packets;
    uint32_t bytes;
    // The VL that got the turn; packets on other VLs must not use it.
    uint8_t vl = kAnyVl;
    static constexpr uint8_t kAnyVl = 0xff;

    bool spent() const { return packets == 0 || bytes == 0; }
    // The turn is as long as a VL's weight, so nothing longer than one run may be sent in it.
    bool is_arbitrated() const { return vl != kAnyVl; }
    // Charges a packet or a run, which is sent as a whole.
    void charge(uint32_t payload_bytes, uint32_t packets_sent = 1) {
        const uint32_t cost = payload_bytes + packets_sent * header_weight();
        packets -= packets != 0 ? 1 : 0;
        bytes -= cost < bytes ? cost : bytes;
    }

    // Number of packets with this payload; the last one may exceed the budget.
    uint32_t packets_of(uint32_t mtu) const { return packet_count(bytes, mtu + header_weight()); }
    // Bytes charged to a VL's weight for a packet besides its payload: headers, and rounding up to
    // the unit of weights.
    uint32_t header_weight() const { return vl != kAnyVl ? 64 : 0; }
};

// How a turn ended.
enum class Turn : uint8_t {
    kIdle,     // the QP has no work until an event
    kMore,     // the budget is spent
    kBlocked,  // the port has no room
};

// A receive completion's fields beyond QP, counter and timestamp.
struct ReceiveReport {
    uint8_t opcode = PIB_HCA_CQE_RECV;
    WqeError error{PIB_HCA_WC_SUCCESS, VendorError::kNone};
    bool solicited = false;
    pib_hca_cqe fields{};  // byte_count, imm_data, flags and the datagram's fields
};

// Finds QPs; what the services need of whoever owns them.
class QpOwner {
  public:
    virtual ~QpOwner() = default;
    // nullptr when there is none of this number.
    virtual QueuePair* find_qp(uint32_t qpn) = 0;
    // A CQ takes no more entries, which affects every QP that completes to it (IBA 10.8.3).
    virtual void cq_failed(uint32_t cqn) = 0;
    // The QP no longer waits for room in a port.
    virtual void unpark(QueuePair& qp) = 0;
};

class QpServices {
  public:
    QpServices(const TransportParts& parts, QpOwner& owner) : parts_(parts), owner_(owner) {}

    const TransportParts& parts() const { return parts_; }
    Host& host() { return parts_.host; }
    Mpt& mpt() { return parts_.mpt; }
    // An event of this QP, and so of its port.
    void count(const QueuePair& qp, pib_hca_counter counter) {
        parts_.counters.add(counter, qp.port());
    }
    void count_dropped(unsigned port) { parts_.counters.add(PIB_HCA_COUNTER_RX_DROPPED, port); }
    // nullptr, as a rule: payload is copied.
    OneCopy* one_copy() { return parts_.one_copy; }
    // Report to readers of the QP's requests: all before qp.req.una are acknowledged, or all are
    // invalid.
    void acknowledge_references(QueuePair& qp);
    void forget_references(QueuePair& qp);
    // Revokes all references to the QP's memory, before its completions are written.
    void leave_memory(QueuePair& qp);
    Timers& timers() { return timers_; }
    const Timers& timers() const { return timers_; }
    SnapshotBudget& snapshots() { return snapshots_; }
    // Requires a state in which the QP has a port.
    Port& port_of(const QueuePair& qp) { return *parts_.ports[qp.port() - 1u]; }
    // Path of a connected QP's packets.
    Outlet outlet_of(const QueuePair& qp) {
        return {.port = port_of(qp), .static_rate = qp.attr.av.static_rate};
    }

    // Schedules the QP for run(), and requests run() if necessary.
    void schedule(QueuePair& qp);
    void unpark(QueuePair& qp) { owner_.unpark(qp); }
    bool has_work() const { return !run_queue_.empty(); }
    RunQueue& run_queue() { return run_queue_; }
    // Lane of the QP's next packet: see Port::lane(). kFreeLane: it waits for no VL.
    unsigned lane_of(const QueuePair& qp);
    // Whether a turn for this QP now would overtake others that wait for the same link.
    bool others_wait(const QueuePair& qp);
    // run() has started; schedule() need not request it until it ends.
    void set_running(bool running) { running_ = running; }
    void wake();
    void woken() { woken_ = false; }
    void reset();

    // Completes the oldest request of the send window and removes it. An unsignalled success leaves
    // no CQE (IBA 10.8.6); every error does.
    void complete_send(QueuePair& qp, const WqeError& error);
    // Completes executed operations on keys that have become the oldest requests.
    void complete_local(QueuePair& qp);
    // Completes qp.resp.recv.
    void complete_recv(QueuePair& qp, const ReceiveReport& report);
    // Copies and decodes the next receive WQE, of the QP's own queue or of its shared one, into
    // qp.resp.recv. kNone: the queue is empty. kShort: its buffer has less than `bytes`, and it
    // stays in the queue. kBad: it was completed in error, or the QP is in Error.
    enum class Fetch : uint8_t { kOk, kNone, kShort, kBad };
    Fetch fetch_recv(QueuePair& qp, uint32_t bytes = 0);
    // Looks for the WQE that fetch_recv() would take, and leaves it in its queue.
    Fetch peek_recv(QueuePair& qp);

    // Error state (IBA 10.3.1.7): the flush is done in later turns.
    void enter_error(QueuePair& qp);
    // Error state after a responder's NAK: earlier responses and the NAK itself are still sent.
    void enter_error_after_nak(QueuePair& qp);
    // Error state for a reason that no completion can report: raises PIB_HCA_EVENT_QP_FATAL, once.
    void fatal(QueuePair& qp);
    // The oldest send request fails: SQE on unreliable QPs, else Error (IBA 10.3.1.6).
    void fail_send(QueuePair& qp, const WqeError& error);

    // Flushes the queues that the state requires to be flushed, in order.
    Turn flush(QueuePair& qp, Budget& budget);
    // SQD: raises SQ_DRAINED once when all started requests have completed (IBA 10.3.1.5).
    void report_drained(QueuePair& qp);
    // Reads the send producer; false if it is impossible, which is fatal to the QP.
    bool refresh_send_queue(QueuePair& qp);
    // For the trace: an entry copied from a queue.
    void trace_send(const QueuePair& qp, std::span<const uint8_t> wqe) {
        if (Trace* trace = parts_.counters.trace; trace != nullptr) [[unlikely]] {
            trace->send_wqe(host().now_ns(), qp.qpn, qp.sq.consumer, wqe);
        }
    }
    void trace_recv(const QueuePair& qp) {
        if (Trace* trace = parts_.counters.trace; trace != nullptr) [[unlikely]] {
            trace->recv_wqe(host().now_ns(), qp.qpn, qp.resp.recv.counter, qp.resp.recv.bytes);
        }
    }
    // After a failed access by key of this half: true when a page was absent; the fault is
    // reported, and the half waits until the driver resumes it. False: the access was an error.
    bool await_page(QueuePair& qp, QpHalf half);
    void forget_page_faults(QueuePair& qp);
    PageFaults& page_faults() { return page_faults_; }
    void event(pib_hca_event type, const QueuePair& qp) { parts_.eqs.async_event(type, qp.qpn); }

  private:
    void post(QueuePair& qp, uint32_t cqn, const pib_hca_cqe& cqe, bool solicited,
              bool patient = false);
    void post_send_cqe(QueuePair& qp, uint32_t counter, uint8_t opcode, uint32_t byte_count,
                       const WqeError& error);
    void count_error(const QueuePair& qp, const WqeError& error, bool is_send);
    bool flush_one_send(QueuePair& qp);
    bool flush_one_recv(QueuePair& qp);
    Fetch peek_shared(QueuePair& qp);
    void report_last_wqe(QueuePair& qp);
    void start_error(QueuePair& qp);

    TransportParts parts_;
    QpOwner& owner_;
    Timers timers_;
    RunQueue run_queue_;
    SnapshotBudget snapshots_;
    PageFaults page_faults_;
    bool running_ = false;
    bool woken_ = false;
};

}  // namespace pib::hca
