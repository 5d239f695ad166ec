// SPDX-License-Identifier: GPL-2.0-or-later
#include "wqe.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace pib::hca {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr uint8_t kAllFlags =
    PIB_HCA_WQE_SIGNALED | PIB_HCA_WQE_SOLICITED | PIB_HCA_WQE_FENCE | PIB_HCA_WQE_INLINE;

enum class Segment : uint8_t { kNone, kRdma, kAtomic };

// One row an opcode: what it is made of, and what of it exists on datagram QPs.
struct OpcodeRow {
    Segment segment;
    bool allows_inline;
    bool on_datagram;
    uint8_t cqe_opcode;
};

constexpr std::array<OpcodeRow, 7> kOpcodes = {{
    {Segment::kNone, true, true, PIB_HCA_CQE_SEND},           // SEND
    {Segment::kNone, true, true, PIB_HCA_CQE_SEND},           // SEND_WITH_IMM
    {Segment::kRdma, true, false, PIB_HCA_CQE_RDMA_WRITE},    // RDMA_WRITE
    {Segment::kRdma, true, false, PIB_HCA_CQE_RDMA_WRITE},    // RDMA_WRITE_WITH_IMM
    {Segment::kRdma, false, false, PIB_HCA_CQE_RDMA_READ},    // RDMA_READ
    {Segment::kAtomic, false, false, PIB_HCA_CQE_CMP_SWAP},   // CMP_SWAP
    {Segment::kAtomic, false, false, PIB_HCA_CQE_FETCH_ADD},  // FETCH_ADD
}};

std::unexpected<WqeError> bad_op(VendorError detail) {
    return std::unexpected(WqeError{PIB_HCA_WC_LOC_QP_OP_ERR, detail});
}
std::unexpected<WqeError> bad_length() {
    return std::unexpected(WqeError{PIB_HCA_WC_LOC_LEN_ERR, VendorError::kLength});
}

// The caller has checked that the structure fits: every stride does, see kSegmentEnd below.
template <typename T>
T load(Bytes bytes, size_t offset) {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}

template <typename T>
bool all_zero(const T& reserved) {
    return std::ranges::all_of(reserved, [](auto x) { return x == 0; });
}

constexpr size_t kControlEnd = sizeof(pib_hca_wqe_control);

bool is_datagram(QpType type) {
    return type == PIB_HCA_QP_UD || type == PIB_HCA_QP_SMI || type == PIB_HCA_QP_GSI;
}

size_t data_offset(const OpcodeRow& row, QpType type) {
    if (is_datagram(type)) {
        return kControlEnd + sizeof(pib_hca_wqe_ud);
    }
    switch (row.segment) {
        case Segment::kNone:
            return kControlEnd;
        case Segment::kRdma:
            return kControlEnd + sizeof(pib_hca_wqe_rdma);
        case Segment::kAtomic:
            return kControlEnd + sizeof(pib_hca_wqe_atomic);
    }
    return kControlEnd;
}
static_assert(kControlEnd + sizeof(pib_hca_wqe_atomic) <= 1u << PIB_HCA_MIN_LOG_SQ_STRIDE);
static_assert(kControlEnd + sizeof(pib_hca_wqe_ud) <= 1u << PIB_HCA_MIN_LOG_SQ_STRIDE);

using DataResult = std::expected<DataSegment, WqeError>;

DataResult inline_data(Bytes bytes, size_t offset, uint32_t length, uint32_t max_inline) {
    if (length > max_inline || length > bytes.size() - offset) {
        return std::unexpected(WqeError{PIB_HCA_WC_LOC_LEN_ERR, VendorError::kInline});
    }
    return DataSegment{
        .length = length, .offset = static_cast<uint16_t>(offset), .num_sge = 0, .is_inline = true};
}

DataResult sge_data(Bytes bytes, size_t offset, uint32_t num_sge) {
    if (num_sge > Limits::kSge || num_sge * sizeof(pib_hca_sge) > bytes.size() - offset) {
        return bad_op(VendorError::kSgeCount);
    }
    DataSegment data{.length = 0,
                     .offset = static_cast<uint16_t>(offset),
                     .num_sge = static_cast<uint8_t>(num_sge),
                     .is_inline = false};
    uint64_t total = 0;
    for (unsigned i = 0; i < num_sge; ++i) {
        total += sge_at(bytes, data, i).length;
    }
    // 32 lengths of 32 bits cannot overflow the sum; a receive buffer may be larger than any
    // message.
    data.length = static_cast<uint32_t>(std::min<uint64_t>(total, UINT32_MAX));
    return data;
}

DataResult send_data(Bytes bytes, const pib_hca_wqe_control& control, const OpcodeRow& row,
                     const SendRules& rules) {
    const size_t offset = data_offset(row, rules.type);
    if ((control.flags & PIB_HCA_WQE_INLINE) == 0) {
        if (control.inline_length != 0) {
            return bad_op(VendorError::kReserved);
        }
        auto data = sge_data(bytes, offset, control.num_sge);
        return data && data->length > Limits::kMaxMessage ? DataResult(bad_length()) : data;
    }
    if (!row.allows_inline || control.num_sge != 0) {
        return bad_op(VendorError::kInline);
    }
    return inline_data(bytes, offset, control.inline_length, rules.max_inline);
}

using OpResult = std::expected<decltype(SendWqe::op), WqeError>;

OpResult rdma_op(Bytes bytes) {
    const auto rdma = load<pib_hca_wqe_rdma>(bytes, kControlEnd);
    if (rdma.reserved != 0) {
        return bad_op(VendorError::kReserved);
    }
    return RdmaOp{.remote_addr = rdma.remote_addr, .rkey = rdma.rkey};
}

OpResult atomic_op(Bytes bytes, const DataSegment& data) {
    const auto atomic = load<pib_hca_wqe_atomic>(bytes, kControlEnd);
    if (atomic.reserved != 0 || !all_zero(atomic.reserved2)) {
        return bad_op(VendorError::kReserved);
    }
    // IBA 9.4.5: an atomic exchanges exactly one 64-bit word.
    if (data.length != 8) {
        return bad_length();
    }
    return AtomicOp{.remote_addr = atomic.remote_addr,
                    .rkey = atomic.rkey,
                    .swap_or_add = atomic.swap_or_add,
                    .compare = atomic.compare};
}

OpResult datagram_op(Bytes bytes) {
    const auto ud = load<pib_hca_wqe_ud>(bytes, kControlEnd);
    if (!all_zero(ud.reserved) || !all_zero(ud.av.reserved) ||
        (ud.av.flags & ~PIB_HCA_AV_GRH) != 0) {
        return bad_op(VendorError::kReserved);
    }
    return DatagramOp{
        .av = ud.av, .dest_qpn = ud.dest_qpn, .qkey = ud.qkey, .pkey_index = ud.pkey_index};
}

OpResult decode_op(Bytes bytes, const OpcodeRow& row, QpType type, const DataSegment& data) {
    if (is_datagram(type)) {
        return datagram_op(bytes);
    }
    switch (row.segment) {
        case Segment::kNone:
            return SendOp{};
        case Segment::kRdma:
            return rdma_op(bytes);
        case Segment::kAtomic:
            return atomic_op(bytes, data);
    }
    return bad_op(VendorError::kOpcode);
}

}  // namespace

pib_hca_sge sge_at(Bytes wqe, const DataSegment& data, unsigned index) {
    return load<pib_hca_sge>(wqe, data.offset + index * sizeof(pib_hca_sge));
}

uint8_t cqe_opcode(pib_hca_wqe_opcode opcode) {
    return kOpcodes[opcode].cqe_opcode;
}

std::expected<SendWqe, WqeError> decode_send_wqe(Bytes bytes, const SendRules& rules) {
    const auto control = load<pib_hca_wqe_control>(bytes, 0);
    if (control.opcode >= kOpcodes.size()) {
        return bad_op(VendorError::kOpcode);
    }
    const OpcodeRow& row = kOpcodes[control.opcode];
    if (is_datagram(rules.type) && !row.on_datagram) {
        return bad_op(VendorError::kOpcode);
    }
    if (control.reserved != 0 || control.reserved2 != 0 || (control.flags & ~kAllFlags) != 0) {
        return bad_op(VendorError::kReserved);
    }
    const auto data = send_data(bytes, control, row, rules);
    if (!data) {
        return std::unexpected(data.error());
    }
    auto op = decode_op(bytes, row, rules.type, *data);
    if (!op) {
        return std::unexpected(op.error());
    }
    return SendWqe{.opcode = static_cast<pib_hca_wqe_opcode>(control.opcode),
                   .flags = control.flags,
                   .imm_data = control.imm_data,
                   .data = *data,
                   .op = *op};
}

std::expected<DataSegment, WqeError> decode_recv_wqe(Bytes bytes) {
    const auto header = load<pib_hca_recv_wqe>(bytes, 0);
    if (!all_zero(header.reserved)) {
        return bad_op(VendorError::kReserved);
    }
    return sge_data(bytes, sizeof header, header.num_sge);
}

}  // namespace pib::hca
