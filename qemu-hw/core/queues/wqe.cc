// SPDX-License-Identifier: GPL-2.0-or-later
#include "queues/wqe.h"

#include <algorithm>
#include <array>
#include <cstddef>
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

using Result = std::expected<void, WqeError>;

// Each function decodes a segment to `to.op`; `to.data` has been decoded before.
Result send_op(Bytes, SendWqe& to);
Result rdma_op(Bytes bytes, SendWqe& to);
Result atomic_op(Bytes bytes, SendWqe& to);
Result masked_op(Bytes bytes, SendWqe& to);
Result atomic_write_op(Bytes bytes, SendWqe& to);
Result flush_op(Bytes bytes, SendWqe& to);
Result invalidate_op(Bytes bytes, SendWqe& to);
Result bind_op(Bytes bytes, SendWqe& to);
Result register_op(Bytes bytes, SendWqe& to);

// The segment between control segment and data, on connected QPs.
struct Segment {
    uint16_t bytes;
    Result (*decode)(Bytes bytes, SendWqe& to);
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

// Bits of the services that offer an operation (IBA table 81).
enum : uint8_t { kOnRc = 1, kOnUc = 2, kOnUd = 4, kOnXrc = 8 };
constexpr uint8_t kReliable = kOnRc | kOnXrc;
constexpr uint8_t kConnected = kReliable | kOnUc;
constexpr uint8_t kAll = kConnected | kOnUd;

// One row for each opcode: its segment, and the services and the completion of the operation.
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
// The 8 bytes of an ATOMIC WRITE are an operand: they may be inline even if max_inline is less.
constexpr uint32_t kWordBytes = 8;

std::unexpected<WqeError> bad_op(const Verdict& broken) {
    return std::unexpected(WqeError{WcStatus::kLocQpOpErr, broken});
}
std::unexpected<WqeError> bad_op(Rule rule, uint64_t value = 0, uint64_t limit = 0) {
    return bad_op(refuse(rule, value, limit));
}
std::unexpected<WqeError> bad_length(Rule rule, uint64_t value, uint64_t limit) {
    return std::unexpected(WqeError{WcStatus::kLocLenErr, refuse(rule, value, limit)});
}

// The caller has checked that the structure fits. The smallest stride holds every segment, as the
// static_asserts below check.
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

constexpr uint32_t kMaxNumber = 0xffffff;  // SRQ numbers have 24 bits on the wire
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
    const uint64_t most = std::min<uint64_t>(max_inline, bytes.size() - offset);
    if (length > most) {
        return bad_length(Rule::kWqeInlineLong, length, most);
    }
    return DataSegment{
        .length = length, .offset = static_cast<uint16_t>(offset), .num_sge = 0, .is_inline = true};
}

// `rule`: the rule that limits num_sge.
DataResult sge_data(Bytes bytes, size_t offset, uint32_t num_sge, Rule rule) {
    const uint64_t most =
        std::min<uint64_t>(Limits::kSge, (bytes.size() - offset) / sizeof(pib_hca_sge));
    if (num_sge > most) {
        return bad_op(rule, num_sge, most);
    }
    uint64_t total = 0;
    for (unsigned i = 0; i < num_sge; ++i) {
        total += load<pib_hca_sge>(bytes, offset + i * sizeof(pib_hca_sge)).length;
    }
    // The sum of 32 lengths of 32 bits fits in 64 bits. A receive buffer may be longer than any
    // message, so its length is capped.
    return DataSegment{.length = static_cast<uint32_t>(std::min<uint64_t>(total, UINT32_MAX)),
                       .offset = static_cast<uint16_t>(offset),
                       .num_sge = static_cast<uint8_t>(num_sge),
                       .is_inline = false};
}

DataResult send_data(Bytes bytes, const pib_hca_wqe_control& control, const OpcodeRow& row,
                     const SendRules& rules) {
    const size_t offset = data_offset(row, rules.type);
    if ((control.flags & PIB_HCA_WQE_INLINE) == 0) {
        if (control.inline_length != 0) {
            return bad_op(Rule::kWqeNotInline, control.inline_length);
        }
        auto data = sge_data(bytes, offset, control.num_sge, Rule::kWqeSges);
        if (data && data->length > Limits::kMaxMessage) {
            return bad_length(Rule::kWqeLong, data->length, Limits::kMaxMessage);
        }
        return data;
    }
    if (!row.allows_inline) {
        return bad_op(Rule::kWqeInlineOpcode, control.opcode);
    }
    if (control.num_sge != 0) {
        return bad_op(Rule::kWqeInlineSges, control.num_sge);
    }
    const uint32_t most = row.segment.decode == atomic_write_op
                              ? std::max(rules.max_inline, kWordBytes)
                              : rules.max_inline;
    return inline_data(bytes, offset, control.inline_length, most);
}

Result send_op(Bytes, SendWqe& to) {
    to.op = SendOp{};
    return {};
}

Result rdma_op(Bytes bytes, SendWqe& to) {
    const auto rdma = load<pib_hca_wqe_rdma>(bytes, kControlEnd);
    if (rdma.reserved != 0) {
        return bad_op(Rule::kWqeRdmaReserved, rdma.reserved);
    }
    to.op = RdmaOp{.remote_addr = rdma.remote_addr, .rkey = rdma.rkey};
    return {};
}

Result masked_op(Bytes bytes, SendWqe& to) {
    const auto atomic = load<pib_hca_wqe_atomic>(bytes, kControlEnd);
    if (atomic.reserved != 0) {
        return bad_op(Rule::kWqeAtomicReserved, atomic.reserved);
    }
    // IBA 9.4.5: an atomic exchanges exactly one 64-bit word.
    if (to.data.length != kWordBytes) {
        return bad_length(Rule::kWqeEightBytes, to.data.length, kWordBytes);
    }
    to.op = AtomicOp{.remote_addr = atomic.remote_addr,
                     .rkey = atomic.rkey,
                     .swap_or_add = atomic.swap_or_add,
                     .compare = atomic.compare,
                     .swap_mask = atomic.swap_mask,
                     .compare_mask = atomic.compare_mask};
    return {};
}

Result atomic_op(Bytes bytes, SendWqe& to) {
    const auto atomic = load<pib_hca_wqe_atomic>(bytes, kControlEnd);
    if (atomic.swap_mask != 0) {
        return bad_op(Rule::kWqeSwapMask, atomic.swap_mask);
    }
    return atomic.compare_mask == 0 ? masked_op(bytes, to)
                                    : bad_op(Rule::kWqeCompareMask, atomic.compare_mask);
}

Result atomic_write_op(Bytes bytes, SendWqe& to) {
    return to.data.length == kWordBytes
               ? rdma_op(bytes, to)
               : bad_length(Rule::kWqeEightBytes, to.data.length, kWordBytes);
}

static_assert(PIB_HCA_FLUSH_GLOBAL == ib::Feth::kGlobalVisibility &&
              PIB_HCA_FLUSH_PERSISTENT == ib::Feth::kPersistence &&
              PIB_HCA_FLUSH_REGION == ib::Feth::kRegion);

Result flush_op(Bytes bytes, SendWqe& to) {
    constexpr uint8_t kPlacements = PIB_HCA_FLUSH_GLOBAL | PIB_HCA_FLUSH_PERSISTENT;
    if (to.data.num_sge != 0) {
        return bad_op(Rule::kWqeNoSges, to.data.num_sge);
    }
    const auto flush = load<pib_hca_wqe_flush>(bytes, kControlEnd);
    if (!all_zero(flush.reserved)) {
        return bad_op(Rule::kWqeFlushReserved);
    }
    if (flush.placement == 0 || (flush.placement & ~kPlacements) != 0) {
        return bad_op(Rule::kWqePlacement, flush.placement, kPlacements);
    }
    if (flush.level > PIB_HCA_FLUSH_REGION) {
        return bad_op(Rule::kWqeLevel, flush.level, PIB_HCA_FLUSH_REGION);
    }
    if (flush.level == PIB_HCA_FLUSH_REGION && flush.length != 0) {
        return bad_op(Rule::kWqeFlushLength, flush.length);
    }
    to.op = FlushOp{.remote_addr = flush.remote_addr,
                    .rkey = flush.rkey,
                    .length = flush.length,
                    .placement = flush.placement,
                    .level = flush.level};
    return {};
}

Result datagram_op(Bytes bytes, SendWqe& to) {
    const auto ud = load<pib_hca_wqe_ud>(bytes, kControlEnd);
    if (!all_zero(ud.reserved)) {
        return bad_op(Rule::kWqeUdReserved);
    }
    if (!all_zero(ud.av.reserved)) {
        return bad_op(Rule::kVectorReserved);
    }
    if ((ud.av.flags & ~PIB_HCA_AV_GRH) != 0) {
        return bad_op(Rule::kVectorFlags, ud.av.flags, PIB_HCA_AV_GRH);
    }
    to.op = DatagramOp{.av = address_vector(ud.av),
                       .dest_qpn = ud.dest_qpn,
                       .qkey = ud.qkey,
                       .pkey_index = ud.pkey_index};
    return {};
}

// Operations on keys have no data.
template <typename T>
std::expected<T, WqeError> load_key_segment(Bytes bytes, const DataSegment& data) {
    if (data.num_sge != 0) {
        return bad_op(Rule::kWqeNoSges, data.num_sge);
    }
    return load<T>(bytes, kControlEnd);
}

Result invalidate_op(Bytes bytes, SendWqe& to) {
    const auto key = load_key_segment<pib_hca_wqe_key>(bytes, to.data);
    if (!key) {
        return std::unexpected(key.error());
    }
    if (!all_zero(key->reserved)) {
        return bad_op(Rule::kWqeKeyReserved);
    }
    to.op = InvalidateOp{.key = key->key};
    return {};
}

Result bind_op(Bytes bytes, SendWqe& to) {
    const auto bind = load_key_segment<pib_hca_wqe_bind>(bytes, to.data);
    if (!bind) {
        return std::unexpected(bind.error());
    }
    if (bind->reserved != 0) {
        return bad_op(Rule::kWqeBindReserved, bind->reserved);
    }
    to.op = BindOp{{.rkey = bind->rkey,
                    .lkey = bind->lkey,
                    .access = bind->access,
                    .addr = bind->addr,
                    .length = bind->length}};
    return {};
}

Result register_op(Bytes bytes, SendWqe& to) {
    const auto reg = load_key_segment<pib_hca_wqe_reg>(bytes, to.data);
    if (!reg) {
        return std::unexpected(reg.error());
    }
    if (reg->reserved != 0) {
        return bad_op(Rule::kWqeRegReserved, reg->reserved);
    }
    if (const Verdict verdict = check_reserved(reg->pages); verdict != CmdStatus::kOk) {
        return bad_op(verdict.within(kControlEnd + offsetof(pib_hca_wqe_reg, pages)));
    }
    to.op = RegisterOp{{.key = reg->key,
                        .access = reg->access,
                        .iova = reg->iova,
                        .length = reg->length,
                        .pages = page_list(reg->pages),
                        .page_offset = reg->page_offset}};
    return {};
}

Result decode_op(Bytes bytes, const OpcodeRow& row, QpType type, SendWqe& to) {
    return is_datagram(type) ? datagram_op(bytes, to) : row.segment.decode(bytes, to);
}

// Checks the rules of the control segment that hold for all operations.
Verdict check_control(const pib_hca_wqe_control& control, const OpcodeRow& row, QpType type) {
    if ((row.services & service_of(type)) == 0) {
        return refuse(Rule::kWqeService, control.opcode, static_cast<uint8_t>(type));
    }
    if (control.reserved != 0) {
        return refuse(Rule::kWqeReserved, control.reserved);
    }
    if ((control.flags & ~kAllFlags) != 0) {
        return refuse(Rule::kWqeFlags, control.flags, kAllFlags);
    }
    const uint32_t max_srqn = type == QpType::kXrcIni ? kMaxNumber : 0;
    return control.srqn <= max_srqn ? CmdStatus::kOk
                                    : refuse(Rule::kWqeSrqn, control.srqn, max_srqn);
}

Result decode(Bytes bytes, const SendRules& rules, SendWqe& to) {
    const auto control = load<pib_hca_wqe_control>(bytes, 0);
    if (control.opcode >= kOpcodes.size()) {
        return bad_op(Rule::kWqeOpcode, control.opcode);
    }
    const OpcodeRow& row = kOpcodes[control.opcode];
    if (const Verdict verdict = check_control(control, row, rules.type);
        verdict != CmdStatus::kOk) {
        return bad_op(verdict);
    }
    const auto data = send_data(bytes, control, row, rules);
    if (!data) {
        return std::unexpected(data.error());
    }
    to.opcode = static_cast<SendOpcode>(control.opcode);
    to.flags = control.flags;
    to.srqn = control.srqn;
    to.imm_data = control.imm_data;
    to.data = *data;
    return decode_op(bytes, row, rules.type, to);
}

}  // namespace

Sge sge_at(Bytes wqe, const DataSegment& data, unsigned index) {
    const auto sge = load<pib_hca_sge>(wqe, data.offset + index * sizeof(pib_hca_sge));
    return {.addr = sge.addr, .length = sge.length, .lkey = sge.lkey};
}

CompletionOpcode completion_opcode(SendOpcode opcode) {
    return kOpcodes[static_cast<size_t>(opcode)].completion;
}

std::expected<void, WqeError> decode_send_wqe(Bytes bytes, const SendRules& rules, SendWqe& to) {
    auto result = decode(bytes, rules, to);
    if (!result) {
        to = {};
    }
    return result;
}

uint32_t recv_wqe_id(Bytes bytes) {
    return load<pib_hca_recv_wqe>(bytes, 0).id;
}

std::expected<DataSegment, WqeError> decode_recv_wqe(Bytes bytes, bool shared) {
    const auto header = load<pib_hca_recv_wqe>(bytes, 0);
    if (!all_zero(header.reserved)) {
        return bad_op(Rule::kRecvReserved);
    }
    if (header.id != 0 && !shared) {
        return bad_op(Rule::kRecvId, header.id);
    }
    return sge_data(bytes, sizeof header, header.num_sge, Rule::kRecvSges);
}

}  // namespace pib::hca
