// SPDX-License-Identifier: GPL-2.0-or-later
// Work requests of tests and their encoding as WQEs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pib_hca_hw.h"

namespace pib::hca::test {

// A send work request; which fields count depends on the opcode and the QP's type.
struct SendWr {
    uint8_t opcode = PIB_HCA_WQE_SEND;
    uint8_t flags = PIB_HCA_WQE_SIGNALED;
    uint32_t imm = 0;  // big-endian (be32)
    std::vector<pib_hca_sge> sges = {};
    std::vector<uint8_t> inline_data = {};  // instead of SGEs
    uint64_t remote_addr = 0;
    uint32_t rkey = 0;
    uint64_t swap_or_add = 0;
    uint64_t compare = 0;
    uint64_t swap_mask = 0;
    uint64_t compare_mask = 0;
    pib_hca_av av = {};  // datagrams
    uint32_t dest_qpn = 0;
    uint32_t qkey = 0;
    uint16_t pkey_index = 0;
    uint32_t srqn = 0;                  // XRC
    std::vector<uint8_t> segment = {};  // replaces the opcode's segment after the control segment
};

// A send WQE for a QP of this type.
std::vector<uint8_t> encode_send(pib_hca_qp_type type, const SendWr& wr);
// A receive WQE. `id` is for an SRQ; 0 for a QP's own receive queue.
std::vector<uint8_t> encode_recv(std::span<const pib_hca_sge> sges, uint32_t id = 0);

}  // namespace pib::hca::test
