// SPDX-License-Identifier: GPL-2.0-or-later
#include "queues/wqe.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ib/wire/packet.h"
#include "queues/completion.h"
#include "queues/interface_av.h"
#include "queues/interface_pages.h"

namespace pib::hca {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr uint8_t kAllFlags =
    PIB_HCA_WQE_SIGNALED | PIB_HCA_WQE_SOLICITED | PIB_HCA_WQE_FENCE | PIB_HCA_WQE_INLINE;

using Operation = decltype(SendWqe::op);
using OpResult = std::expected<Operation, WqeError>;

OpResult send_op(Bytes, const DataSegment&);
OpResult rdma_op(Bytes bytes, const DataSegment&);
OpResult atomic_op(Bytes bytes, const DataSegment& data);
OpResult masked_op(Bytes bytes, const DataSegment& data);
OpResult atomic_write_op(Bytes bytes, const DataSegment& data);
OpResult flush_op(Bytes bytes, const DataSegment& data);
OpResult invalidate_op(Bytes bytes, const DataSegment& data);
OpResult bind_op(Bytes bytes, const DataSegment& data);
OpResult register_op(Bytes bytes, const DataSegment& data);

// Segments between control segment and data, on connected QPs.
struct Segment {
    uint16_t bytes;
    OpResult (*decode)(Bytes bytes, const DataSegment& data);
};
constexpr Segment kNone{0, send_op};
constexpr Segment kRdma{sizeof(pib_hca_wqe_rdma), rdma_op};
constexpr Segment kAtomic{sizeof(pib_hca_wqe_atomic), atomic_op};
constexpr Segment kMasked{sizeof(pib_hca_wqe_atomic), masked_op};
constexpr Segment kWord{sizeof(pib_hca_wqe_rdma), atomic_write_op};
constexpr Segment kFlush{sizeof(pib_hca_wqe_flush), flush_op};
constexpr Segment kKey{sizeof(pib_hca_wqe_key), invalidate_op};
constexpr Segment kBind{sizeof(pib_hca_wqe_bind), bind_op};
constexpr Segment kReg{sizeof(pib_hca_wqe_reg), register_op};

// Services that have an operation (IBA table 81).
enum : uint8_t { kOnRc = 1, kOnUc = 2, kOnUd = 4, kOnXrc = 8 };
constexpr uint8_t kReliable = kOnRc | kOnXrc;
constexpr uint8_t kConnected = kReliable | kOnUc;
constexpr uint8_t kAll = kConnected | kOnUd;

// One row for each opcode: its segments, and the services that have it.
struct OpcodeRow {
    Segment segment;
    bool allows_inline;
    uint8_t services;
    CompletionOpcode completion;
};

constexpr std::array<OpcodeRow, 15> kOpcodes = {{
    {kNone, true, kAll, CompletionOpcode::kSend},              // SEND
    {kNone, true, kAll, CompletionOpcode::kSend},              // SEND_WITH_IMM
    {kRdma, true, kConnected, CompletionOpcode::kRdmaWrite},   // RDMA_WRITE
    {kRdma, true, kConnected, CompletionOpcode::kRdmaWrite},   // RDMA_WRITE_WITH_IMM
    {kRdma, false, kReliable, CompletionOpcode::kRdmaRead},    // RDMA_READ
    {kAtomic, false, kReliable, CompletionOpcode::kCmpSwap},   // CMP_SWAP
    {kAtomic, false, kReliable, CompletionOpcode::kFetchAdd},  // FETCH_ADD
    {kNone, true, kReliable, CompletionOpcode::kSend},         // SEND_WITH_INV
    {kKey, false, kConnected, CompletionOpcode::kLocalInv},    // LOCAL_INV
    {kBind, false, kConnected, CompletionOpcode::kBindMw},     // BIND_MW
    {kReg, false, kConnected, CompletionOpcode::kRegMr},       // REG_MR
    {kFlush, false, kReliable, CompletionOpcode::kFlush},
    {kWord, true, kReliable, CompletionOpcode::kAtomicWrite},
    {kMasked, false, kOnRc, CompletionOpcode::kMaskedCmpSwap},
    {kMasked, false, kOnRc, CompletionOpcode::kMaskedFetchAdd},
}};
static_assert(PIB_HCA_WQE_MASKED_FETCH_ADD + 1 == kOpcodes.size());
// The data of an ATOMIC WRITE is an operand, so it may be inline on every QP.
constexpr uint32_t kWordBytes = 8;

std::unexpected<WqeError> bad_op(VendorError detail) {
    return std::unexpected(WqeError{WcStatus::kLocQpOpErr, detail});
}
std::unexpected<WqeError> bad_length() {
    return std::unexpected(WqeError{WcStatus::kLocLenErr, VendorError::kLength});
}

// The caller has checked that the structure fits. Every stride suffices: see kSegmentEnd below.
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

constexpr uint32_t kMaxNumber = 0xffffff;  // an SRQ's number on the wire
constexpr size_t kControlEnd = sizeof(pib_hca_wqe_control);

bool is_datagram(QpType type) {
    return type == QpType::kUd || type == QpType::kSmi || type == QpType::kGsi;
}

uint8_t service_of(QpType type) {
    if (is_datagram(type)) {
        return kOnUd;
    }
    return type == QpType::kUc ? kOnUc : type == QpType::kRc ? kOnRc : kOnXrc;
}

size_t data_offset(const OpcodeRow& row, QpType type) {
    return kControlEnd + (is_datagram(type) ? sizeof(pib_hca_wqe_ud) : row.segment.bytes);
}
static_assert(std::ranges::all_of(kOpcodes, [](const OpcodeRow& row) {
    return kControlEnd + row.segment.bytes <= 1u << PIB_HCA_MIN_LOG_SQ_STRIDE;
}));
static_assert(kControlEnd + sizeof(pib_hca_wqe_ud) <= 1u << PIB_HCA_MIN_LOG_SQ_STRIDE);

using DataResult = std::expected<DataSegment, WqeError>;

DataResult inline_data(Bytes bytes, size_t offset, uint32_t length, uint32_t max_inline) {
    if (length > max_inline || length > bytes.size() - offset) {
        return std::unexpected(WqeError{WcStatus::kLocLenErr, VendorError::kInline});
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
    // The sum of 32 lengths of 32 bits fits in 64 bits. A receive buffer may be longer than any
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
    const uint32_t most = row.segment.decode == atomic_write_op
                              ? std::max(rules.max_inline, kWordBytes)
                              : rules.max_inline;
    return inline_data(bytes, offset, control.inline_length, most);
}

OpResult send_op(Bytes, const DataSegment&) {
    return SendOp{};
}

OpResult rdma_op(Bytes bytes, const DataSegment&) {
    const auto rdma = load<pib_hca_wqe_rdma>(bytes, kControlEnd);
    if (rdma.reserved != 0) {
        return bad_op(VendorError::kReserved);
    }
    return RdmaOp{.remote_addr = rdma.remote_addr, .rkey = rdma.rkey};
}

OpResult masked_op(Bytes bytes, const DataSegment& data) {
    const auto atomic = load<pib_hca_wqe_atomic>(bytes, kControlEnd);
    if (atomic.reserved != 0) {
        return bad_op(VendorError::kReserved);
    }
    // IBA 9.4.5: an atomic exchanges exactly one 64-bit word.
    if (data.length != kWordBytes) {
        return bad_length();
    }
    return AtomicOp{.remote_addr = atomic.remote_addr,
                    .rkey = atomic.rkey,
                    .swap_or_add = atomic.swap_or_add,
                    .compare = atomic.compare,
                    .swap_mask = atomic.swap_mask,
                    .compare_mask = atomic.compare_mask};
}

OpResult atomic_op(Bytes bytes, const DataSegment& data) {
    const auto atomic = load<pib_hca_wqe_atomic>(bytes, kControlEnd);
    if (atomic.swap_mask != 0 || atomic.compare_mask != 0) {
        return bad_op(VendorError::kReserved);
    }
    return masked_op(bytes, data);
}

OpResult atomic_write_op(Bytes bytes, const DataSegment& data) {
    return data.length == kWordBytes ? rdma_op(bytes, data) : bad_length();
}

static_assert(PIB_HCA_FLUSH_GLOBAL == ib::Feth::kGlobalVisibility &&
              PIB_HCA_FLUSH_PERSISTENT == ib::Feth::kPersistence &&
              PIB_HCA_FLUSH_REGION == ib::Feth::kRegion);

OpResult flush_op(Bytes bytes, const DataSegment& data) {
    constexpr uint8_t kPlacements = PIB_HCA_FLUSH_GLOBAL | PIB_HCA_FLUSH_PERSISTENT;
    if (data.num_sge != 0) {
        return bad_op(VendorError::kSgeCount);
    }
    const auto flush = load<pib_hca_wqe_flush>(bytes, kControlEnd);
    if (!all_zero(flush.reserved) || (flush.placement & ~kPlacements) != 0 ||
        flush.placement == 0 || flush.level > PIB_HCA_FLUSH_REGION ||
        (flush.level == PIB_HCA_FLUSH_REGION && flush.length != 0)) {
        return bad_op(VendorError::kReserved);
    }
    return FlushOp{.remote_addr = flush.remote_addr,
                   .rkey = flush.rkey,
                   .length = flush.length,
                   .placement = flush.placement,
                   .level = flush.level};
}

OpResult datagram_op(Bytes bytes) {
    const auto ud = load<pib_hca_wqe_ud>(bytes, kControlEnd);
    if (!all_zero(ud.reserved) || !all_zero(ud.av.reserved) ||
        (ud.av.flags & ~PIB_HCA_AV_GRH) != 0) {
        return bad_op(VendorError::kReserved);
    }
    return DatagramOp{.av = address_vector(ud.av),
                      .dest_qpn = ud.dest_qpn,
                      .qkey = ud.qkey,
                      .pkey_index = ud.pkey_index};
}

// Operations on keys have no data.
template <typename T>
std::expected<T, WqeError> load_key_segment(Bytes bytes, const DataSegment& data) {
    if (data.num_sge != 0) {
        return bad_op(VendorError::kSgeCount);
    }
    return load<T>(bytes, kControlEnd);
}

OpResult invalidate_op(Bytes bytes, const DataSegment& data) {
    const auto key = load_key_segment<pib_hca_wqe_key>(bytes, data);
    if (!key) {
        return std::unexpected(key.error());
    }
    if (!all_zero(key->reserved)) {
        return bad_op(VendorError::kReserved);
    }
    return InvalidateOp{.key = key->key};
}

OpResult bind_op(Bytes bytes, const DataSegment& data) {
    const auto bind = load_key_segment<pib_hca_wqe_bind>(bytes, data);
    if (!bind) {
        return std::unexpected(bind.error());
    }
    if (bind->reserved != 0) {
        return bad_op(VendorError::kReserved);
    }
    return BindOp{{.rkey = bind->rkey,
                   .lkey = bind->lkey,
                   .access = bind->access,
                   .addr = bind->addr,
                   .length = bind->length}};
}

OpResult register_op(Bytes bytes, const DataSegment& data) {
    const auto reg = load_key_segment<pib_hca_wqe_reg>(bytes, data);
    if (!reg) {
        return std::unexpected(reg.error());
    }
    if (reg->reserved != 0 || reg->pages.reserved != 0) {
        return bad_op(VendorError::kReserved);
    }
    return RegisterOp{{.key = reg->key,
                       .access = reg->access,
                       .iova = reg->iova,
                       .length = reg->length,
                       .pages = page_list(reg->pages),
                       .page_offset = reg->page_offset}};
}

OpResult decode_op(Bytes bytes, const OpcodeRow& row, QpType type, const DataSegment& data) {
    return is_datagram(type) ? datagram_op(bytes) : row.segment.decode(bytes, data);
}

}  // namespace

Sge sge_at(Bytes wqe, const DataSegment& data, unsigned index) {
    const auto sge = load<pib_hca_sge>(wqe, data.offset + index * sizeof(pib_hca_sge));
    return {.addr = sge.addr, .length = sge.length, .lkey = sge.lkey};
}

CompletionOpcode completion_opcode(SendOpcode opcode) {
    return kOpcodes[static_cast<size_t>(opcode)].completion;
}

std::expected<SendWqe, WqeError> decode_send_wqe(Bytes bytes, const SendRules& rules) {
    const auto control = load<pib_hca_wqe_control>(bytes, 0);
    if (control.opcode >= kOpcodes.size()) {
        return bad_op(VendorError::kOpcode);
    }
    const OpcodeRow& row = kOpcodes[control.opcode];
    if ((row.services & service_of(rules.type)) == 0) {
        return bad_op(VendorError::kOpcode);
    }
    const uint32_t max_srqn = rules.type == QpType::kXrcIni ? kMaxNumber : 0;
    if (control.reserved != 0 || control.srqn > max_srqn || (control.flags & ~kAllFlags) != 0) {
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
    return SendWqe{.opcode = static_cast<SendOpcode>(control.opcode),
                   .flags = control.flags,
                   .srqn = control.srqn,
                   .imm_data = control.imm_data,
                   .data = *data,
                   .op = *op};
}

uint32_t recv_wqe_id(Bytes bytes) {
    return load<pib_hca_recv_wqe>(bytes, 0).id;
}

std::expected<DataSegment, WqeError> decode_recv_wqe(Bytes bytes, bool shared) {
    const auto header = load<pib_hca_recv_wqe>(bytes, 0);
    if (!all_zero(header.reserved) || (header.id != 0 && !shared)) {
        return bad_op(VendorError::kReserved);
    }
    return sge_data(bytes, sizeof header, header.num_sge);
}

}  // namespace pib::hca
