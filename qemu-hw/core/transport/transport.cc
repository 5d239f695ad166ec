// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/transport.h"

#include <algorithm>

#include "memory/peer_copy.h"
#include "qp/error_states.h"
#include "qp/path_migration.h"
#include "qp/qp_header.h"
#include "queues/work_queue.h"
#include "transport/requester.h"
#include "transport/responder.h"

namespace pib::hca {
namespace {

// Work that a doorbell does at once, on the thread of the processor that rings it, and work of one
// turn of a QP.
constexpr Budget kTurnBudget{.packets = 16, .bytes = 64 * 1024};
// Turns of one run(). Extra work (Scheduler::add_extra()) counts as turns by its bytes.
constexpr uint64_t kRunTurns = 64;
// Expired timers that one call of timer() handles.
constexpr unsigned kTimersPerCall = 1024;

}  // namespace

Transport::Transport(const TransportParts& parts)
    : services_(parts),
      verbs_(services_, mcast_),
      completer_(services_),
      datagram_(services_, mcast_) {}

// ---------------------------------------------------------------- doorbells

bool Transport::send_doorbell(uint32_t uar, uint32_t qpn, bool noted) {
    QueuePair* qp = services_.qps().find(qpn);
    if (qp == nullptr || qp->uar != uar) {
        return false;
    }
    switch (qp->state) {
        case QpState::kRts:
            if (refresh_send_queue(services_, *qp) && !qp->scheduling.blocked) {
                ring(*qp, noted);
            }
            break;
        case QpState::kSqd:
            (void)refresh_send_queue(services_, *qp);
            break;
        case QpState::kSqe:
        case QpState::kErr:
            // The device flushes all WQEs that are posted in these states (IBA 10.3.1.6, 10.3.1.7).
            (void)refresh_sq(services_, *qp);
            services_.schedule(*qp);
            break;
        default:
            break;  // Reset, Init, RTR: the QP cannot send
    }
    return true;
}

// Gives the QP a turn at once. Only schedules the QP if it would overtake others, or if since the
// last run() the device has done much extra work, or doorbells from bitmaps have sent as much as
// one run() may.
void Transport::ring(QueuePair& qp, bool noted) {
    const bool enough = services_.scheduler().extra() >= kTurnBudget.bytes ||
                        (noted && noted_work_ >= kRunTurns * kTurnBudget.bytes);
    if (enough || services_.scheduler().others_wait(qp)) [[unlikely]] {
        services_.schedule(qp);
        return;
    }
    Budget budget = kTurnBudget;
    after_turn(qp, turn(qp, budget));
    if (noted) {
        const uint64_t packets = kTurnBudget.packets - budget.packets;
        noted_work_ += kTurnBudget.bytes - budget.bytes + packets * kCopyCost;
    }
}

bool Transport::recv_doorbell(uint32_t uar, uint32_t qpn) {
    QueuePair* qp = services_.qps().find(qpn);
    if (qp == nullptr || qp->uar != uar) {
        return false;
    }
    if (qp->state == QpState::kErr) {
        (void)refresh_rq(services_, *qp);
        services_.schedule(*qp);
    }
    return true;
}

// ---------------------------------------------------------------- turns

// Sends answers first: the peer waits for them, and they cause no new requests.
Turn Transport::turn(QueuePair& qp, Budget& budget) {
    const Turn answered = qp.is_connected() ? responder::run(services_, qp, budget) : Turn::kIdle;
    if (qp.state == QpState::kErr || qp.state == QpState::kSqe) {
        // The flush needs no room at the port.
        const Turn flushed = flush_queues(services_, qp, budget);
        return flushed == Turn::kIdle ? answered : flushed;
    }
    if (answered != Turn::kIdle) {
        return answered;
    }
    return qp.is_connected() ? requester::run(services_, qp, budget) : datagram_.run(qp, budget);
}

void Transport::after_turn(QueuePair& qp, Turn turn) {
    if (turn == Turn::kMore) {
        services_.schedule(qp);
    } else if (turn == Turn::kBlocked) {
        services_.scheduler().park(qp);
    }
}

void Transport::give_turn(uint32_t qpn, Budget budget) {
    QueuePair* qp = services_.qps().find(qpn);
    if (qp == nullptr) {
        return;
    }
    qp->scheduling.queued = false;
    if (!qp->scheduling.blocked || qp->state == QpState::kErr) {
        after_turn(*qp, turn(*qp, budget));
    }
}

// Gives one QP a turn at the port. If QPs wait for several VLs, the port's VL arbitration tables
// choose the VL and the length of the turn (IBA 7.6.9).
void Transport::serve(unsigned port) {
    RunQueue& queue = services_.scheduler().run_queue();
    if (const auto lane = queue.next_lane(port)) [[likely]] {
        give_turn(queue.pop(port, *lane), kTurnBudget);
        return;
    }
    Port& link = *services_.parts().ports[port - 1];
    const VlGrant grant = link.arbitrate(queue.data_vls(port));
    give_turn(queue.pop(port, grant.vl), {.packets = kTurnBudget.packets,
                                          .bytes = std::min(kTurnBudget.bytes, grant.bytes),
                                          .vl = grant.vl});
    link.end_grant();
}

bool Transport::run() {
    release_completions();
    Scheduler& scheduler = services_.scheduler();
    scheduler.woken();
    scheduler.begin_turns();
    RunQueue& queue = scheduler.run_queue();
    (void)scheduler.take_extra();
    noted_work_ = 0;
    for (uint64_t turns = 0; turns < kRunTurns && !queue.empty();
         turns += 1 + scheduler.take_extra() / kTurnBudget.bytes) {
        serve(queue.next_port());
    }
    scheduler.end_turns();
    return !queue.empty();
}

uint64_t Transport::next_deadline() const {
    return services_.timers().next();
}

// A timer may fail the oldest request of its QP, and the completion may overrun a CQ. One search
// finds the QPs of all these CQs. The next call handles the due timers that this call leaves.
uint64_t Transport::timer(uint64_t now_ns) {
    services_.qps().failed_cqs().collect();
    for (unsigned n = 0; n < kTimersPerCall; ++n) {
        const uint32_t qpn = services_.timers().take_due(now_ns);
        if (qpn == Timers::kNone) {
            break;
        }
        if (QueuePair* qp = services_.qps().find(qpn)) {
            completer_.timer(*qp);
        }
    }
    fail_qps_of_collected_cqs(services_);
    return next_deadline();
}

// ---------------------------------------------------------------- ports

void Transport::port_ready(unsigned port) {
    services_.scheduler().room(port, services_.qps());
}

// The transport caches no attributes of ports. QPs that wait for room get a turn, because the port
// may discard their packets now.
void Transport::port_changed(unsigned port) {
    port_ready(port);
}

uint32_t Transport::burst_in(unsigned port, const ib::Burst& burst, ib::Placement& payload) {
    const uint64_t before = services_.scheduler().extra();
    const uint32_t taken = take(port, burst, payload);
    work_in_ += services_.scheduler().extra() - before;
    if (taken == 0 && payload.form == ib::Placement::Form::kPulled &&
        services_.peer_copy() != nullptr) {
        services_.peer_copy()->pull_ended(port);
    }
    return taken;
}

uint32_t Transport::take(unsigned port, const ib::Burst& burst, ib::Placement& payload) {
    const ib::PacketView& packet = burst.first();
    const ib::Service service = packet.opcode().service;
    const ib::Qpn dest = packet.bth().dest_qp;
    if (service == ib::Service::kUd && dest == ib::kMulticastQpn) {
        work_in_ += datagram_.multicast_in(port, packet) * (packet.payload().size() + kCopyCost);
        return 1;
    }
    QueuePair* qp = services_.qps().find_wire(port, dest);
    if (qp != nullptr && service == ib::Service::kUd && qp->is_datagram()) {
        datagram_.packet_in(*qp, port, packet);
        return 1;
    }
    const bool known = qp != nullptr && qp->is_connected() && service == qp->service();
    return known ? connected_in(*qp, port, burst, payload) : drop(port, burst);
}

// Drops a single packet; the caller delivers several packets singly.
uint32_t Transport::drop(unsigned port, const ib::Burst& burst) {
    if (!burst.is_single()) {
        return 0;
    }
    count_dropped(services_, port);
    return 1;
}

// Only the first packet's path is checked: all packets of a burst have the same path.
uint32_t Transport::connected_in(QueuePair& qp, unsigned port, const ib::Burst& burst,
                                 ib::Placement& payload) {
    if (!qp.can_receive()) {
        return drop(port, burst);
    }
    const ib::PacketView& packet = burst.first();
    switch (check_path(services_, qp, port, packet)) {
        case PathCheck::kForeign:
            return drop(port, burst);
        case PathCheck::kWrongPKey:
            if (burst.is_single()) {
                services_.port_of(qp).pkey_violation(packet);
            }
            return drop(port, burst);
        case PathCheck::kOk:
            break;
    }
    const bool is_response = packet.opcode().is_response();
    if (qp.is_xrc() && is_response != (qp.type == QpType::kXrcIni)) {
        return drop(port, burst);  // an initiator has no responder, a target no requester
    }
    if (services_.parts().counters.adversary != nullptr && packet.opcode().starts_message())
        [[unlikely]] {
        services_.host().dma_barrier();  // stores the payload of earlier messages first
    }
    if (!qp.is_reliable()) {
        return responder::unreliable_in(services_, qp, burst, payload);
    }
    return is_response ? completer_.response_in(qp, burst, payload)
                       : responder::request_in(services_, qp, burst, payload);
}

}  // namespace pib::hca
