// SPDX-License-Identifier: GPL-2.0-or-later
// A completion (IBA vol. 1, 11.4.2.1), before it becomes an entry of a queue in guest memory.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "queues/wqe.h"

namespace pib::hca {

enum class CompletionOpcode : uint8_t {
    kSend = 0x00,
    kRdmaWrite = 0x01,
    kRdmaRead = 0x02,
    kCmpSwap = 0x03,
    kFetchAdd = 0x04,
    kLocalInv = 0x05,
    kBindMw = 0x06,
    kRegMr = 0x07,
    kFlush = 0x08,
    kAtomicWrite = 0x09,
    kMaskedCmpSwap = 0x0a,
    kMaskedFetchAdd = 0x0b,
    kRecv = 0x80,
    kRecvRdmaWithImm = 0x81,
};

namespace completion_flag {
inline constexpr uint8_t kGrh = 1u << 0;  // the first 40 bytes of the buffer hold a GRH
inline constexpr uint8_t kImm = 1u << 1;
inline constexpr uint8_t kSolicited = 1u << 2;
inline constexpr uint8_t kInvalidated = 1u << 3;  // imm_data is the R_Key that was invalidated
inline constexpr uint8_t kSrq = 1u << 4;          // the WQE came from an SRQ
}  // namespace completion_flag

// The opcode in the completion of a send WQE.
CompletionOpcode completion_opcode(SendOpcode opcode);

struct Completion {
    uint32_t qpn = 0;
    uint32_t wqe_counter = 0;  // counter of the WQE in its queue; of an SRQ: the WQE's id
    uint32_t byte_count = 0;   // received, read or exchanged bytes; of other operations 0
    uint32_t imm_data = 0;     // immediate data in wire order, or an R_Key
    uint32_t src_qp = 0;       // datagrams only, like the next fields up to `port`
    uint16_t slid = 0;
    uint16_t pkey_index = 0;  // GSI QPs only
    uint8_t sl = 0;
    uint8_t dlid_path_bits = 0;
    uint8_t port = 0;
    uint8_t flags = 0;  // completion_flag
    CompletionOpcode opcode = CompletionOpcode::kSend;
    WqeError error{};
    uint32_t srqn = 0;  // valid with completion_flag::kSrq
};

}  // namespace pib::hca
