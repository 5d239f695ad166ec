// SPDX-License-Identifier: GPL-2.0-or-later
// A request at the responder: its checks in the order of the specification, its execution, and the
// refusals of both. For responder*.cc and request_*.cc.
#pragma once

#include <optional>

#include "ib/wire/burst.h"
#include "ib/wire/placement.h"
#include "qp/qp_services.h"

namespace pib::hca::responder {

// Reason why a request is not executed, and its consequences (IBA 9.9.3.1, table 58).
struct Refusal {
    AckKind kind = AckKind::kNak;  // kNone: the peer is told nothing
    uint8_t code = 0;
    Event event = Event::kCompletion;  // COMPLETION: none
    WqeError receive{WcStatus::kWrFlushErr};
    // The check of several packets is true for some of them only. Nothing has happened, and the
    // caller delivers them one by one.
    bool of_some = false;
};
using Check = std::optional<Refusal>;

Refusal invalid_request();
Refusal access_error();
Refusal operational_error(const WqeError& receive);
Refusal of_some();
Refusal not_ready(const QueuePair& qp);
// The access of the request has failed. If a page was absent, an RNR NAK tells the peer to try it
// again later. UC has no such answer, so there it is `error`.
Refusal cannot_access(QpServices& services, QueuePair& qp, const Refusal& error);

// Packets of a request, which have come in together.
struct Request {
    const ib::Burst& burst;
    ib::Placement& payload;
    const ib::PacketView& packet = burst.first();

    bool starts() const { return packet.opcode().starts_message(); }
    bool ends() const { return burst.last().opcode().ends_message(); }
    uint32_t bytes() const { return static_cast<uint32_t>(burst.payload_bytes()); }
};
using CheckStep = Check (*)(QpServices&, QueuePair&, const Request&);

// The message that an operation belongs to; kNone: it is no SEND or WRITE.
InboundMessage message_of(ib::OpKind kind);
// The first packet tells a QP that still waits for it (IBA 11.6.3.1).
void established(QpServices& services, QueuePair& qp);

// ---- request_checks.cc
Check check_sequence(QpServices& services, QueuePair& qp, const Request& request);
Check check_operation(QpServices& services, QueuePair& qp, const Request& request);
Check check_xrc_srq(QpServices& services, QueuePair& qp, const Request& request);
Check check_resources(QpServices& services, QueuePair& qp, const Request& request);
Check check_length(QpServices& services, QueuePair& qp, const Request& request);
Check check_rkey(QpServices& services, QueuePair& qp, const Request& request);

// ---- request_execution.cc
Check execute(QpServices& services, QueuePair& qp, const Request& request);

// ---- responder_rd.cc: READ, atomics, FLUSH, ATOMIC WRITE
Check execute_rd(QpServices& services, QueuePair& qp, const ib::PacketView& packet);
// A request of these that has been executed before.
void duplicate_rd(QpServices& services, QueuePair& qp, const ib::PacketView& packet);

// ---- responder_out.cc. A NAK stands until it is sent: it says all that a later ACK would.
void owe(QpServices& services, QueuePair& qp, const PendingAck& ack);

}  // namespace pib::hca::responder
