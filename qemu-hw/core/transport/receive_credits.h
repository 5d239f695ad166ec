// SPDX-License-Identifier: GPL-2.0-or-later
// End-to-end credits, as the requester of a reliable connection obeys them (IBA 9.7.7.2). Each
// message has a number (SSN). The responder's ACKs say how many messages it has completed (MSN) and
// how many receive WQEs wait (credits). MSN + credits is the number of the last message that finds
// a receive WQE (LSN).
#pragma once

#include "ib/wire/headers.h"
#include "qp/qp.h"

namespace pib::hca::requester {

// Whether message number `a` comes after `b`, modulo 2^24.
[[nodiscard]] constexpr bool is_after(uint32_t a, uint32_t b) {
    const uint32_t distance = (a - b) & ib::Psn::kMask;
    return distance != 0 && distance <= ib::Psn::kMask / 2;
}

[[nodiscard]] constexpr bool takes_receive(SendOpcode opcode) {
    return opcode == SendOpcode::kSend || opcode == SendOpcode::kSendWithImm ||
           opcode == SendOpcode::kSendWithInv || opcode == SendOpcode::kRdmaWriteWithImm;
}

// The first message beyond the credits may be sent, because its answer reports new credits. Any
// message may be sent once all messages before it are acknowledged.
[[nodiscard]] inline bool has_credit(const QueuePair& qp, const SendRequest& request) {
    const RequesterState& req = qp.req;
    return req.no_credits || qp.type != QpType::kRc || !takes_receive(request.wqe.opcode) ||
           !is_after(request.ssn, req.lsn + 1) || req.una == request.psn_first;
}

// A message that takes no receive WQE leaves its credit to the next message.
inline void message_started(RequesterState& req, const SendRequest& request) {
    req.lsn += takes_receive(request.wqe.opcode) ? 0 : 1;
}

inline void credits_told(RequesterState& req, const ib::Aeth& aeth) {
    if (aeth.kind() != ib::AethKind::kAck) {
        return;
    }
    const auto credits = ib::credit_count(aeth.code());
    req.no_credits = !credits;
    if (credits && is_after(aeth.msn + *credits, req.lsn)) {
        req.lsn = aeth.msn + *credits;
    }
}

}  // namespace pib::hca::requester
