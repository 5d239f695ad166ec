// SPDX-License-Identifier: GPL-2.0-or-later
#include "wqe_encoder.h"

namespace pib::hca::test {

namespace {

template <typename T>
void append(std::vector<uint8_t>& to, const T& value) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    to.insert(to.end(), bytes, bytes + sizeof value);
}

bool is_datagram(pib_hca_qp_type type) {
    return type == PIB_HCA_QP_UD || type == PIB_HCA_QP_SMI || type == PIB_HCA_QP_GSI;
}

bool is_atomic(uint8_t opcode) {
    return opcode == PIB_HCA_WQE_CMP_SWAP || opcode == PIB_HCA_WQE_FETCH_ADD ||
           opcode == PIB_HCA_WQE_MASKED_CMP_SWAP || opcode == PIB_HCA_WQE_MASKED_FETCH_ADD;
}

bool has_rdma_segment(uint8_t opcode) {
    return (opcode >= PIB_HCA_WQE_RDMA_WRITE && opcode <= PIB_HCA_WQE_RDMA_READ) ||
           opcode == PIB_HCA_WQE_ATOMIC_WRITE;
}

void append_segment(std::vector<uint8_t>& wqe, pib_hca_qp_type type, const SendWr& wr) {
    if (!wr.segment.empty()) {
        wqe.insert(wqe.end(), wr.segment.begin(), wr.segment.end());
    } else if (is_datagram(type)) {
        append(wqe, pib_hca_wqe_ud{.av = wr.av,
                                   .dest_qpn = wr.dest_qpn,
                                   .qkey = wr.qkey,
                                   .pkey_index = wr.pkey_index,
                                   .reserved = {}});
    } else if (is_atomic(wr.opcode)) {
        append(wqe, pib_hca_wqe_atomic{.remote_addr = wr.remote_addr,
                                       .rkey = wr.rkey,
                                       .reserved = 0,
                                       .swap_or_add = wr.swap_or_add,
                                       .compare = wr.compare,
                                       .swap_mask = wr.swap_mask,
                                       .compare_mask = wr.compare_mask});
    } else if (has_rdma_segment(wr.opcode)) {
        append(wqe,
               pib_hca_wqe_rdma{.remote_addr = wr.remote_addr, .rkey = wr.rkey, .reserved = 0});
    }
}

}  // namespace

std::vector<uint8_t> encode_send(pib_hca_qp_type type, const SendWr& wr) {
    const bool is_inline = !wr.inline_data.empty();
    std::vector<uint8_t> wqe;
    append(wqe, pib_hca_wqe_control{
                    .opcode = wr.opcode,
                    .flags = static_cast<uint8_t>(wr.flags | (is_inline ? PIB_HCA_WQE_INLINE : 0)),
                    .num_sge = static_cast<uint8_t>(is_inline ? 0 : wr.sges.size()),
                    .reserved = 0,
                    .imm_data = wr.imm,
                    .inline_length = static_cast<uint32_t>(wr.inline_data.size()),
                    .srqn = wr.srqn});
    append_segment(wqe, type, wr);
    for (size_t i = 0; i < wr.sges.size() && !is_inline; ++i) {
        append(wqe, wr.sges[i]);
    }
    wqe.insert(wqe.end(), wr.inline_data.begin(), wr.inline_data.end());
    return wqe;
}

std::vector<uint8_t> encode_recv(std::span<const pib_hca_sge> sges, uint32_t id) {
    std::vector<uint8_t> wqe;
    append(wqe, pib_hca_recv_wqe{
                    .num_sge = static_cast<uint32_t>(sges.size()), .id = id, .reserved = {}});
    for (const pib_hca_sge& sge : sges) {
        append(wqe, sge);
    }
    return wqe;
}

}  // namespace pib::hca::test
