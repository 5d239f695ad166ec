// SPDX-License-Identifier: GPL-2.0-or-later
// Work queue elements: converts the copied bytes to checked values. This code does not read guest
// memory, so a WQE cannot change between check and use.
#pragma once

#include <cstdint>
#include <expected>
#include <span>
#include <variant>

#include "base/access.h"
#include "base/config.h"
#include "base/qp_kinds.h"
#include "base/status.h"
#include "base/verdict.h"
#include "memory/registration.h"

namespace pib::hca {

// The numbers are those of the register interface, as commands/interface_numbers.cc checks.
enum class SendOpcode : uint8_t {
    kSend = 0x00,
    kSendWithImm = 0x01,
    kRdmaWrite = 0x02,
    kRdmaWriteWithImm = 0x03,
    kRdmaRead = 0x04,
    kCmpSwap = 0x05,
    kFetchAdd = 0x06,
    kSendWithInv = 0x07,
    kLocalInv = 0x08,
    kBindMw = 0x09,
    kRegMr = 0x0a,
    kFlush = 0x0b,
    kAtomicWrite = 0x0c,
    kMaskedCmpSwap = 0x0d,
    kMaskedFetchAdd = 0x0e,
};

namespace send_flag {
inline constexpr uint8_t kSignaled = 1u << 0;
inline constexpr uint8_t kSolicited = 1u << 1;
inline constexpr uint8_t kFence = 1u << 2;
}  // namespace send_flag

struct Sge {
    uint64_t addr;
    uint32_t length;
    uint32_t lkey;
};

// The status of a WQE's completion, and the rule that the WQE breaks; kNone: it breaks none.
struct WqeError {
    WcStatus status = WcStatus::kSuccess;
    Verdict broken{};

    VendorError detail() const { return vendor_error_of(broken.rule); }
};

// The place of a WQE's data: SGEs, or inline bytes inside the copied WQE.
struct DataSegment {
    uint32_t length = 0;  // total number of bytes
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
    uint8_t placement;  // bits of ib::Feth
    uint8_t level;
};

struct DatagramOp {
    AddressVector av;
    uint32_t dest_qpn;
    uint32_t qkey;
    uint16_t pkey_index;
};

// Operations on keys, which send no packet (IBA 10.6.4, 10.6.7).
struct InvalidateOp {
    uint32_t key;
};
struct BindOp {
    WindowBinding bind;
};
struct RegisterOp {
    FastRegistration reg;
};

struct SendWqe {
    SendOpcode opcode = SendOpcode::kSend;
    uint8_t flags = 0;      // send_flag, and the interface's INLINE bit
    uint32_t srqn = 0;      // XRC: number of the SRQ at the destination
    uint32_t imm_data = 0;  // immediate data in wire order; SEND_WITH_INV: an R_Key
    DataSegment data;
    std::variant<SendOp, RdmaOp, AtomicOp, FlushOp, DatagramOp, InvalidateOp, BindOp, RegisterOp>
        op;

    [[nodiscard]] bool is_read() const { return opcode == SendOpcode::kRdmaRead; }
    [[nodiscard]] bool is_masked() const {
        return opcode == SendOpcode::kMaskedCmpSwap || opcode == SendOpcode::kMaskedFetchAdd;
    }
    [[nodiscard]] bool is_atomic() const {
        return opcode == SendOpcode::kCmpSwap || opcode == SendOpcode::kFetchAdd || is_masked();
    }
    [[nodiscard]] bool is_flush() const { return opcode == SendOpcode::kFlush; }
    [[nodiscard]] bool is_atomic_write() const { return opcode == SendOpcode::kAtomicWrite; }
    // The device writes response data to the SGEs.
    [[nodiscard]] bool fetches() const { return is_read() || is_atomic(); }
    // Only the response of the operation (READ response or ATOMIC Acknowledge) completes the
    // request; a plain ACK does not (IBA 9.7.5.1.1).
    [[nodiscard]] bool needs_response() const {
        return fetches() || is_flush() || is_atomic_write();
    }
    // The operation changes a key and sends no packet.
    [[nodiscard]] bool is_local() const {
        return opcode == SendOpcode::kLocalInv || opcode == SendOpcode::kBindMw ||
               opcode == SendOpcode::kRegMr;
    }
    // The rights that the device needs on the WQE's SGEs.
    uint32_t local_access() const { return fetches() ? access::kLocalWrite : 0; }
};

// Attributes of the QP that limit its send WQEs.
struct SendRules {
    QpType type;
    uint32_t max_inline;
};

// Decodes and checks a send WQE; `bytes` is as long as the queue's stride. Writes each field of
// `to`; after an error `to` is SendWqe{}.
[[nodiscard]] std::expected<void, WqeError> decode_send_wqe(std::span<const uint8_t> bytes,
                                                            const SendRules& rules, SendWqe& to);

// The receive WQE's data segment. `shared`: a WQE of an SRQ, which has an id.
[[nodiscard]] std::expected<DataSegment, WqeError> decode_recv_wqe(std::span<const uint8_t> bytes,
                                                                   bool shared);
uint32_t recv_wqe_id(std::span<const uint8_t> bytes);

// SGE `index` of a decoded WQE.
Sge sge_at(std::span<const uint8_t> wqe, const DataSegment& data, unsigned index);

}  // namespace pib::hca
