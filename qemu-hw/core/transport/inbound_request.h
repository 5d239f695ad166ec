// SPDX-License-Identifier: GPL-2.0-or-later
// A request at the responder: its checks in the order of the specification, its execution, and the
// error with which these refuse it. Only responder*.cc and request_*.cc use these declarations.
#pragma once

#include <optional>

#include "ib/wire/burst.h"
#include "ib/wire/placement.h"
#include "qp/qp_services.h"

namespace pib::hca::responder {

// Reason why a request is not executed, and its consequences (IBA 9.9.3.1, table 58).
struct RequestError {
    AckKind kind = AckKind::kNak;  // kNone: the peer gets no NAK
    uint8_t code = 0;
    Event event = Event::kCompletion;  // kCompletion: no event
    // Error of the message's receive WQE; kWrFlushErr: the WQE did not cause the error.
    WqeError receive{WcStatus::kWrFlushErr};
    // The request is a burst, and some of its packets may fail the check. Nothing has happened, and
    // the caller delivers the packets singly.
    bool singly = false;
};
using Check = std::optional<RequestError>;

RequestError invalid_request();
RequestError access_error();
RequestError operational_error(const WqeError& receive);
RequestError singly();
RequestError not_ready(const QueuePair& qp);
// The access of a request to memory has failed. If a page was absent, the result is an RNR NAK,
// which tells the peer to try again later. Otherwise, and for UC, the result is `error`.
RequestError cannot_access(QpServices& services, QueuePair& qp, const RequestError& error);

// Packets of a request that arrived in one burst.
struct Request {
    const ib::Burst& burst;
    ib::Placement& payload;
    const ib::PacketView& packet = burst.first();

    [[nodiscard]] bool starts() const { return packet.opcode().starts_message(); }
    [[nodiscard]] bool ends() const { return burst.last().opcode().ends_message(); }
    uint32_t bytes() const { return static_cast<uint32_t>(burst.payload_bytes()); }
};
using CheckStep = Check (*)(QpServices&, QueuePair&, const Request&);

// The message that an operation belongs to; kNone: the operation is neither SEND nor WRITE.
InboundMessage message_of(ib::OpKind kind);
// Raises COMM_ESTABLISHED for the first packet of a QP in RTR (IBA 11.6.3.1).
void established(QpServices& services, QueuePair& qp);

// ---- request_checks.cc
Check check_sequence(QpServices& services, QueuePair& qp, const Request& request);
Check check_operation(QpServices& services, QueuePair& qp, const Request& request);
Check check_xrc_srq(QpServices& services, QueuePair& qp, const Request& request);
Check check_resources(QpServices& services, QueuePair& qp, const Request& request);
Check check_length(QpServices& services, QueuePair& qp, const Request& request);
Check check_rkey(QpServices& services, QueuePair& qp, const Request& request);

// ---- access_refusals.cc: both functions report to the journal, for authors of drivers, why a key
// or its memory does not permit an access. Call them before Event::kQpAccessError is raised.
void explain_refusal(QpServices& services, const QueuePair& qp, const Request& request);
// `range`: memory of a READ response that is being sent.
void explain_read_refusal(QpServices& services, const QueuePair& qp, const KeyUser& user,
                          const KeyedRange& range);

// ---- request_execution.cc
Check execute(QpServices& services, QueuePair& qp, const Request& request);

// ---- responder_resources.cc: READ, atomics, FLUSH, ATOMIC WRITE
Check execute_with_resource(QpServices& services, QueuePair& qp, const ib::PacketView& packet);
// Answers a duplicate of a READ, atomic, FLUSH or ATOMIC WRITE again. Drops the duplicate if no
// responder resource has its answer.
void duplicate_with_resource(QpServices& services, QueuePair& qp, const ib::PacketView& packet);

// ---- responder_out.cc
// Notes the acknowledgement that the responder sends in its next turn. An ACK does not replace a
// NAK that waits: a NAK acknowledges all earlier packets, too.
void owe(QpServices& services, QueuePair& qp, const PendingAck& ack);

}  // namespace pib::hca::responder
