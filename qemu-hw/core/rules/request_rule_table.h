// SPDX-License-Identifier: GPL-2.0-or-later
// The rules of work requests: a part of the table in rule_table.cc.
#pragma once

#include <cstddef>

#include "pib_hca_hw.h"
#include "rules/rule_table.h"

namespace pib::hca {

// The macro takes a field's name and offset from the same member, so that they agree.
#define FIELD_OF(place, type, member)                           \
    RuleText::Field {                                           \
        RuleText::Place::place, offsetof(type, member), #member \
    }
#define WQE(segment, member) FIELD_OF(kWqe, pib_hca_##segment, member)
#define SEGMENT(segment, member) FIELD_OF(kSegment, pib_hca_##segment, member)
#define AV(member) FIELD_OF(kVector, pib_hca_av, member)
#define SGE(member) FIELD_OF(kSge, pib_hca_sge, member)
#define NUMBER(name)                         \
    RuleText::Field {                        \
        RuleText::Place::kRegister, 0, #name \
    }
#define NO_FIELD RuleText::Field{RuleText::Place::kNone, 0, ""}

inline constexpr RuleText kRequestTexts[] = {
    {Rule::kWqeOpcode, WQE(wqe_control, opcode), RuleText::Number::kHex, " is not an operation",
     RuleText::Number::kNone},
    {Rule::kWqeService, WQE(wqe_control, opcode), RuleText::Number::kHex,
     " is not an operation of the QP's type, which is", RuleText::Number::kDecimal},
    {Rule::kWqeReserved, WQE(wqe_control, reserved), RuleText::Number::kDecimal, " must be 0",
     RuleText::Number::kNone},
    {Rule::kWqeFlags, WQE(wqe_control, flags), RuleText::Number::kHex, " has bits outside of",
     RuleText::Number::kHex},
    {Rule::kWqeSrqn, WQE(wqe_control, srqn), RuleText::Number::kHex, ", at most",
     RuleText::Number::kHex},
    {Rule::kWqeNotInline, WQE(wqe_control, inline_length), RuleText::Number::kDecimal,
     " must be 0 without INLINE", RuleText::Number::kNone},
    {Rule::kWqeInlineOpcode, WQE(wqe_control, opcode), RuleText::Number::kHex,
     " is an operation without INLINE", RuleText::Number::kNone},
    {Rule::kWqeInlineSges, WQE(wqe_control, num_sge), RuleText::Number::kDecimal,
     " must be 0 with INLINE", RuleText::Number::kNone},
    {Rule::kWqeInlineLong, WQE(wqe_control, inline_length), RuleText::Number::kDecimal, ", at most",
     RuleText::Number::kDecimal},
    {Rule::kWqeSges, WQE(wqe_control, num_sge), RuleText::Number::kDecimal, ", at most",
     RuleText::Number::kDecimal},
    {Rule::kWqeNoSges, WQE(wqe_control, num_sge), RuleText::Number::kDecimal,
     " must be 0, because the operation has no data", RuleText::Number::kNone},
    {Rule::kWqeLong, NUMBER(length), RuleText::Number::kDecimal, " of the message, at most",
     RuleText::Number::kDecimal},
    {Rule::kWqeAboveMtu, NUMBER(length), RuleText::Number::kDecimal, " of the datagram, at most",
     RuleText::Number::kDecimal},
    {Rule::kWqeEightBytes, NUMBER(length), RuleText::Number::kDecimal, " of the data must be",
     RuleText::Number::kDecimal},
    {Rule::kWqeRdAtomic, WQE(wqe_control, opcode), RuleText::Number::kHex,
     " is an operation that needs a MAX_QP_RD_ATOMIC above 0", RuleText::Number::kNone},
    {Rule::kWqeRdmaReserved, SEGMENT(wqe_rdma, reserved), RuleText::Number::kDecimal, " must be 0",
     RuleText::Number::kNone},
    {Rule::kWqeAtomicReserved, SEGMENT(wqe_atomic, reserved), RuleText::Number::kDecimal,
     " must be 0", RuleText::Number::kNone},
    {Rule::kWqeSwapMask, SEGMENT(wqe_atomic, swap_mask), RuleText::Number::kHex,
     " must be 0, because the atomic has no masks", RuleText::Number::kNone},
    {Rule::kWqeCompareMask, SEGMENT(wqe_atomic, compare_mask), RuleText::Number::kHex,
     " must be 0, because the atomic has no masks", RuleText::Number::kNone},
    {Rule::kWqeFlushReserved, SEGMENT(wqe_flush, reserved), RuleText::Number::kNone, " must be 0",
     RuleText::Number::kNone},
    {Rule::kWqePlacement, SEGMENT(wqe_flush, placement), RuleText::Number::kHex,
     " must have a bit, and no bits outside of", RuleText::Number::kHex},
    {Rule::kWqeLevel, SEGMENT(wqe_flush, level), RuleText::Number::kDecimal, ", at most",
     RuleText::Number::kDecimal},
    {Rule::kWqeFlushLength, SEGMENT(wqe_flush, length), RuleText::Number::kDecimal,
     " must be 0 with the level REGION", RuleText::Number::kNone},
    {Rule::kWqeUdReserved, SEGMENT(wqe_ud, reserved), RuleText::Number::kNone, " must be 0",
     RuleText::Number::kNone},
    {Rule::kWqeAvPort, AV(port), RuleText::Number::kDecimal, " must be the QP's port,",
     RuleText::Number::kDecimal},
    {Rule::kWqeDestQpn, SEGMENT(wqe_ud, dest_qpn), RuleText::Number::kHex, ", at most",
     RuleText::Number::kHex},
    {Rule::kWqeGroup, SEGMENT(wqe_ud, dest_qpn), RuleText::Number::kHex,
     " needs a GRH, and a multicast LID instead of", RuleText::Number::kHex},
    {Rule::kWqePkeyIndex, SEGMENT(wqe_ud, pkey_index), RuleText::Number::kDecimal, ", at most",
     RuleText::Number::kDecimal},
    {Rule::kWqeKeyReserved, SEGMENT(wqe_key, reserved), RuleText::Number::kNone, " must be 0",
     RuleText::Number::kNone},
    {Rule::kWqeBindReserved, SEGMENT(wqe_bind, reserved), RuleText::Number::kDecimal, " must be 0",
     RuleText::Number::kNone},
    {Rule::kWqeRegReserved, SEGMENT(wqe_reg, reserved), RuleText::Number::kDecimal, " must be 0",
     RuleText::Number::kNone},
    {Rule::kWqeInvalidate, SEGMENT(wqe_key, key), RuleText::Number::kHex,
     " must be a key that the QP may invalidate", RuleText::Number::kNone},
    {Rule::kWqeBind, SEGMENT(wqe_bind, rkey), RuleText::Number::kHex,
     " must be a new key of a window that may be bound so to the region with lkey",
     RuleText::Number::kHex},
    {Rule::kWqeRegister, SEGMENT(wqe_reg, key), RuleText::Number::kHex,
     " must be a new key of a Free region that takes these pages and rights",
     RuleText::Number::kNone},
    {Rule::kSgeKey, SGE(lkey), RuleText::Number::kHex,
     " must give the QP this access to all bytes of the SGE, from", RuleText::Number::kHex},
    {Rule::kSgeMemory, NO_FIELD, RuleText::Number::kNone, "the memory behind an SGE is not RAM",
     RuleText::Number::kNone},
    {Rule::kRecvReserved, WQE(recv_wqe, reserved), RuleText::Number::kNone, " must be 0",
     RuleText::Number::kNone},
    {Rule::kRecvId, WQE(recv_wqe, id), RuleText::Number::kDecimal,
     " must be 0, because the queue is the QP's own", RuleText::Number::kNone},
    {Rule::kRecvSges, WQE(recv_wqe, num_sge), RuleText::Number::kDecimal, ", at most",
     RuleText::Number::kDecimal},
    {Rule::kRecvShort, NUMBER(length), RuleText::Number::kDecimal,
     " of the receive buffer, for a message of", RuleText::Number::kDecimal},
    {Rule::kRecvInvalidate, NUMBER(imm_data), RuleText::Number::kHex,
     " of a SEND with invalidate must be an R_Key that the peer may invalidate",
     RuleText::Number::kNone},
    {Rule::kPeerResponse, NO_FIELD, RuleText::Number::kNone,
     "the peer's response does not match the request", RuleText::Number::kNone},
};

#undef FIELD_OF
#undef WQE
#undef SEGMENT
#undef AV
#undef SGE
#undef NUMBER
#undef NO_FIELD

}  // namespace pib::hca
