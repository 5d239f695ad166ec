// SPDX-License-Identifier: GPL-2.0-or-later
// Work queue elements: converts the copied bytes to checked values. This code does not read guest
// memory, so a WQE cannot change between check and use.
#pragma once

#include <cstdint>
#include <expected>
#include <span>
#include <variant>

#include "base/config.h"
#include "base/status.h"

namespace pib::hca {

// Values of pib_hca_cqe.vendor_error: the rule that a refused WQE broke. docs/device-spec.md lists
// them.
enum class VendorError : uint8_t {
    kNone = 0,
    kReserved = 1,       // a reserved field or flag is not zero
    kOpcode = 2,         // no such opcode, or not on this QP type
    kSgeCount = 3,       // num_sge exceeds the limit or the WQE
    kInline = 4,         // inline data where it is not allowed, or more than max_inline
    kLength = 5,         // the message is too long
    kAddressVector = 6,  // port, LID, SL or GID index
    kPkeyIndex = 7,
    kLocalKey = 8,   // an SGE's L_Key, bounds or rights
    kRdAtomic = 9,   // a READ or atomic on a QP whose max_rd_atomic is 0
    kResponse = 10,  // the peer's response does not match the request
    kMemory = 11,    // a bind, fast registration or invalidation that the key does not allow
};

struct WqeError {
    WcStatus status;
    VendorError detail;
};

// The place of a WQE's data: SGEs, or inline bytes inside the copied WQE.
struct DataSegment {
    uint32_t length = 0;  // bytes in all
    uint16_t offset = 0;  // offset of the first SGE or inline byte in the WQE
    uint8_t num_sge = 0;
    bool is_inline = false;
};

struct SendOp {};  // SEND on a connected QP

struct RdmaOp {
    uint64_t remote_addr;
    uint32_t rkey;
};

struct AtomicOp {
    uint64_t remote_addr;
    uint32_t rkey;
    uint64_t swap_or_add;
    uint64_t compare;
    uint64_t swap_mask;
    uint64_t compare_mask;
};

struct FlushOp {
    uint64_t remote_addr;
    uint32_t rkey;
    uint32_t length;
    uint8_t placement;  // PIB_HCA_FLUSH_*
    uint8_t level;
};

struct DatagramOp {
    pib_hca_av av;
    uint32_t dest_qpn;
    uint32_t qkey;
    uint16_t pkey_index;
};

// True for operations within the device, on keys (IBA 10.6.4, 10.6.7).
struct InvalidateOp {
    uint32_t key;
};
struct BindOp {
    pib_hca_wqe_bind bind;
};
struct RegisterOp {
    pib_hca_wqe_reg reg;
};

struct SendWqe {
    pib_hca_wqe_opcode opcode = PIB_HCA_WQE_SEND;
    uint8_t flags = 0;      // PIB_HCA_WQE_*
    uint32_t srqn = 0;      // XRC: at the destination
    uint32_t imm_data = 0;  // wire order, as in memory
    DataSegment data;
    std::variant<SendOp, RdmaOp, AtomicOp, FlushOp, DatagramOp, InvalidateOp, BindOp, RegisterOp>
        op;

    bool is_read() const { return opcode == PIB_HCA_WQE_RDMA_READ; }
    bool is_masked() const {
        return opcode == PIB_HCA_WQE_MASKED_CMP_SWAP || opcode == PIB_HCA_WQE_MASKED_FETCH_ADD;
    }
    bool is_atomic() const {
        return opcode == PIB_HCA_WQE_CMP_SWAP || opcode == PIB_HCA_WQE_FETCH_ADD || is_masked();
    }
    bool is_flush() const { return opcode == PIB_HCA_WQE_FLUSH; }
    bool is_atomic_write() const { return opcode == PIB_HCA_WQE_ATOMIC_WRITE; }
    // The device writes response data to the SGEs.
    bool fetches() const { return is_read() || is_atomic(); }
    // The responder returns data, so an ACK alone does not complete the request (IBA 9.7.5.1.1).
    bool needs_response() const { return fetches() || is_flush() || is_atomic_write(); }
    // The operation changes a key and sends no packet.
    bool is_local() const {
        return opcode == PIB_HCA_WQE_LOCAL_INV || opcode == PIB_HCA_WQE_BIND_MW ||
               opcode == PIB_HCA_WQE_REG_MR;
    }
    // The rights that the device needs on the WQE's SGEs.
    uint32_t local_access() const { return fetches() ? PIB_HCA_ACCESS_LOCAL_WRITE : 0; }
};

// Limits of the QP.
struct SendRules {
    QpType type;
    uint32_t max_inline;
};

// `bytes` is one WQE of the queue's stride.
std::expected<SendWqe, WqeError> decode_send_wqe(std::span<const uint8_t> bytes,
                                                 const SendRules& rules);

// The receive WQE's data segment. `shared`: a WQE of an SRQ, which has an id.
std::expected<DataSegment, WqeError> decode_recv_wqe(std::span<const uint8_t> bytes, bool shared);
uint32_t recv_wqe_id(std::span<const uint8_t> bytes);

// SGE `index` of a decoded WQE.
pib_hca_sge sge_at(std::span<const uint8_t> wqe, const DataSegment& data, unsigned index);

// The send completion's opcode.
uint8_t cqe_opcode(pib_hca_wqe_opcode opcode);

}  // namespace pib::hca
