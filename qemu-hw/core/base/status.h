// SPDX-License-Identifier: GPL-2.0-or-later
// Statuses of verbs and of completions. The register interface has the same numbers
// (commands/interface_numbers.cc).
#pragma once

#include <bit>
#include <cstdint>

namespace pib::hca {

// The core uses the interface's little-endian structures without conversion.
static_assert(std::endian::native == std::endian::little, "big-endian hosts are not supported");

enum class [[nodiscard]] CmdStatus : uint8_t {
    kOk = 0,
    kBadOpcode = 1,      // unknown or not supported
    kBadLength = 2,      // a structure's length is wrong
    kBadParam = 3,       // a field's value is out of range, or contradicts another field
    kBadReserved = 4,    // a reserved field or flag is not zero
    kBadResource = 5,    // a named object does not exist
    kBusy = 6,           // other objects use the object, or one of its kind exists already
    kNoResources = 7,    // a limit of the device is reached
    kBadState = 8,       // not allowed in the object's state
    kBadMemory = 9,      // an address is not readable or writable guest RAM
    kNotSupported = 10,  // a known command or attribute that this device does not offer
    kFatal = 11,         // the device has stopped
};

// Status of a completion (IBA vol. 1, 11.6.2).
enum class WcStatus {
    kSuccess = 0,
    kLocLenErr = 1,
    kLocQpOpErr = 2,
    kLocProtErr = 4,
    kWrFlushErr = 5,
    kMwBindErr = 6,
    kBadRespErr = 7,
    kRemInvReqErr = 9,
    kRemAccessErr = 10,
    kRemOpErr = 11,
    kRetryExcErr = 12,
    kRnrRetryExcErr = 13,
    kGeneralErr = 21,
};

// Values of Completion.vendor_error: the kind of the rule that a refused WQE broke.
// docs/device-spec.md lists them.
enum class VendorError : uint8_t {
    kNone = 0,
    kReserved = 1,       // a reserved field or flag is not zero
    kOpcode = 2,         // no such opcode, or not on this QP type
    kSgeCount = 3,       // num_sge exceeds max_sge, does not fit in the WQE, or must be 0
    kInline = 4,         // inline data where it is not allowed, or more than max_inline
    kLength = 5,         // the message has a wrong length, or the receive buffer is too short
    kAddressVector = 6,  // a field of the address vector, or dest_qpn
    kPkeyIndex = 7,
    kLocalKey = 8,   // an SGE's L_Key, bounds or rights
    kRdAtomic = 9,   // READ, atomic, FLUSH or ATOMIC WRITE, and max_rd_atomic is 0
    kResponse = 10,  // the peer's response does not match the request
    kMemory = 11,    // a bind, fast registration or invalidation that its key does not allow
};

}  // namespace pib::hca
