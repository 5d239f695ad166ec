// SPDX-License-Identifier: GPL-2.0-or-later
#include "queues/cqe_poison.h"

#include <cstdint>

namespace pib::hca {

namespace {

// Values that no length, QPN, LID or index of a working program has.
constexpr uint32_t kWord = 0xa5a5a5a5;
constexpr uint16_t kHalf = 0xa5a5;
constexpr uint8_t kByte = 0xa5;

bool has_immediate(const pib_hca_cqe& cqe) {
    return (cqe.flags & (PIB_HCA_CQE_FLAG_IMM | PIB_HCA_CQE_FLAG_INVALIDATED)) != 0;
}

// byte_count is defined for received, read or exchanged bytes, not for SEND and WRITE.
bool has_byte_count(const pib_hca_cqe& cqe) {
    switch (cqe.opcode) {
        case PIB_HCA_CQE_RDMA_READ:
        case PIB_HCA_CQE_CMP_SWAP:
        case PIB_HCA_CQE_FETCH_ADD:
        case PIB_HCA_CQE_MASKED_CMP_SWAP:
        case PIB_HCA_CQE_MASKED_FETCH_ADD:
            return true;
        default:
            return (cqe.opcode & PIB_HCA_CQE_IS_RECV) != 0;
    }
}

// Only CQEs of received datagrams have a source and a port.
bool has_source(const pib_hca_cqe& cqe) {
    return (cqe.opcode & PIB_HCA_CQE_IS_RECV) != 0 && cqe.port != 0;
}

void poison_source(pib_hca_cqe& cqe) {
    cqe.src_qp = kWord & 0xffffff;
    cqe.slid = kHalf;
    cqe.pkey_index = kHalf;
    cqe.sl = kByte & 0xf;
    cqe.dlid_path_bits = kByte & 0x7f;
}

}  // namespace

void poison_unspecified(pib_hca_cqe& cqe) {
    const bool failed = cqe.status != PIB_HCA_WC_SUCCESS;
    if (failed || !has_source(cqe)) {
        poison_source(cqe);
    }
    if (failed || !has_byte_count(cqe)) {
        cqe.byte_count = kWord;
    }
    if (failed || !has_immediate(cqe)) {
        cqe.imm_data = kWord;
    }
    if (failed) {
        // The flag SRQ stays: it means that the WQE came from an SRQ. INVALIDATED is not set,
        // because a kernel driver may act on it.
        cqe.flags =
            (cqe.flags & PIB_HCA_CQE_FLAG_SRQ) | PIB_HCA_CQE_FLAG_GRH | PIB_HCA_CQE_FLAG_IMM;
    } else {
        cqe.vendor_error = kByte;
    }
}

}  // namespace pib::hca
