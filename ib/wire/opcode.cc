// SPDX-License-Identifier: GPL-2.0-or-later
// The opcode table, computed at compile time from the operations (which every connected transport
// shares) and the headers that each transport adds to them.
#include "ib/wire/opcode.h"

#include <array>

#include "ib/wire/headers.h"

namespace pib::ib {
namespace {

constexpr std::array<uint8_t, kExtCount> kExtSizes = {Rdeth::kSize,
                                                      Deth::kSize,
                                                      Xrceth::kSize,
                                                      Feth::kSize,
                                                      Reth::kSize,
                                                      AtomicEth::kSize,
                                                      MaskedAtomicEth::kSize,
                                                      Aeth::kSize,
                                                      AtomicAckEth::kSize,
                                                      ImmDt::kSize,
                                                      Ieth::kSize};

struct Operation {
    uint8_t code;  // low five bits of the opcode
    OpKind kind;
    Position position;
    PayloadRule payload;
    ExtSet exts;
};

constexpr auto kNo = PayloadRule::kNone;
constexpr auto kFull = PayloadRule::kFullMtu;
constexpr auto kSome = PayloadRule::kOneToMtu;
constexpr auto kAny = PayloadRule::kZeroToMtu;

// Operations in opcode order (IBA table 38). PIB_OPERATION_NAMES has their names in this order.
constexpr Operation kOperations[] = {
    {opcode::kSendFirst, OpKind::kSend, Position::kFirst, kFull, {}},
    {opcode::kSendMiddle, OpKind::kSend, Position::kMiddle, kFull, {}},
    {opcode::kSendLast, OpKind::kSend, Position::kLast, kSome, {}},
    {opcode::kSendLastImm, OpKind::kSend, Position::kLast, kSome, {Ext::kImmDt}},
    {opcode::kSendOnly, OpKind::kSend, Position::kOnly, kAny, {}},
    {opcode::kSendOnlyImm, OpKind::kSend, Position::kOnly, kAny, {Ext::kImmDt}},
    {opcode::kRdmaWriteFirst, OpKind::kRdmaWrite, Position::kFirst, kFull, {Ext::kReth}},
    {opcode::kRdmaWriteMiddle, OpKind::kRdmaWrite, Position::kMiddle, kFull, {}},
    {opcode::kRdmaWriteLast, OpKind::kRdmaWrite, Position::kLast, kSome, {}},
    {opcode::kRdmaWriteLastImm, OpKind::kRdmaWrite, Position::kLast, kSome, {Ext::kImmDt}},
    {opcode::kRdmaWriteOnly, OpKind::kRdmaWrite, Position::kOnly, kAny, {Ext::kReth}},
    {opcode::kRdmaWriteOnlyImm,
     OpKind::kRdmaWrite,
     Position::kOnly,
     kAny,
     {Ext::kReth, Ext::kImmDt}},
    {opcode::kRdmaReadRequest, OpKind::kRdmaReadRequest, Position::kOnly, kNo, {Ext::kReth}},
    {opcode::kRdmaReadResponseFirst,
     OpKind::kRdmaReadResponse,
     Position::kFirst,
     kFull,
     {Ext::kAeth}},
    {opcode::kRdmaReadResponseMiddle, OpKind::kRdmaReadResponse, Position::kMiddle, kFull, {}},
    {opcode::kRdmaReadResponseLast,
     OpKind::kRdmaReadResponse,
     Position::kLast,
     kSome,
     {Ext::kAeth}},
    {opcode::kRdmaReadResponseOnly, OpKind::kRdmaReadResponse, Position::kOnly, kAny, {Ext::kAeth}},
    {opcode::kAcknowledge, OpKind::kAcknowledge, Position::kOnly, kNo, {Ext::kAeth}},
    {opcode::kAtomicAcknowledge,
     OpKind::kAtomicAcknowledge,
     Position::kOnly,
     kNo,
     {Ext::kAeth, Ext::kAtomicAckEth}},
    {opcode::kCmpSwap, OpKind::kCmpSwap, Position::kOnly, kNo, {Ext::kAtomicEth}},
    {opcode::kFetchAdd, OpKind::kFetchAdd, Position::kOnly, kNo, {Ext::kAtomicEth}},
    {opcode::kResync, OpKind::kResync, Position::kOnly, kNo, {}},
    {opcode::kSendLastInvalidate, OpKind::kSend, Position::kLast, kSome, {Ext::kIeth}},
    {opcode::kSendOnlyInvalidate, OpKind::kSend, Position::kOnly, kAny, {Ext::kIeth}},
    {opcode::kFlush, OpKind::kFlush, Position::kOnly, kNo, {Ext::kFeth, Ext::kReth}},
    {opcode::kAtomicWrite,
     OpKind::kAtomicWrite,
     Position::kOnly,
     kAny,  // 8 bytes; the responder refuses other sizes
     {Ext::kReth}},
};

#define PIB_OPERATION_NAMES(t)            \
    {t " SEND First",                     \
     t " SEND Middle",                    \
     t " SEND Last",                      \
     t " SEND Last with Immediate",       \
     t " SEND Only",                      \
     t " SEND Only with Immediate",       \
     t " RDMA WRITE First",               \
     t " RDMA WRITE Middle",              \
     t " RDMA WRITE Last",                \
     t " RDMA WRITE Last with Immediate", \
     t " RDMA WRITE Only",                \
     t " RDMA WRITE Only with Immediate", \
     t " RDMA READ Request",              \
     t " RDMA READ response First",       \
     t " RDMA READ response Middle",      \
     t " RDMA READ response Last",        \
     t " RDMA READ response Only",        \
     t " Acknowledge",                    \
     t " ATOMIC Acknowledge",             \
     t " CmpSwap",                        \
     t " FetchAdd",                       \
     t " RESYNC",                         \
     t " SEND Last with Invalidate",      \
     t " SEND Only with Invalidate",      \
     t " FLUSH",                          \
     t " ATOMIC WRITE"}

using Names = std::array<const char*, std::size(kOperations)>;
constexpr Names kRcNames = PIB_OPERATION_NAMES("RC");
constexpr Names kUcNames = PIB_OPERATION_NAMES("UC");
constexpr Names kRdNames = PIB_OPERATION_NAMES("RD");
constexpr Names kUdNames = PIB_OPERATION_NAMES("UD");
constexpr Names kXrcNames = PIB_OPERATION_NAMES("XRC");
#undef PIB_OPERATION_NAMES

using Table = std::array<OpcodeInfo, 256>;

constexpr void place(Table& table, OpcodeInfo row) {
    size_t offset = Bth::kSize;
    for (size_t i = 0; i < kExtCount; ++i) {
        if (row.exts.has(static_cast<Ext>(i))) {
            row.offset[i] = static_cast<uint8_t>(offset);
            offset += kExtSizes[i];
        }
    }
    row.header_bytes = static_cast<uint8_t>(offset);
    table[row.opcode] = row;
}

constexpr bool is_response(OpKind kind) {
    return kind == OpKind::kRdmaReadResponse || kind == OpKind::kAcknowledge ||
           kind == OpKind::kAtomicAcknowledge;
}

// Headers that a transport adds to an operation: RDETH to all packets of RD, DETH to requests of RD
// and UD, XRCETH to requests of XRC.
constexpr ExtSet service_exts(Service service, OpKind kind) {
    switch (service) {
        case Service::kRd:
            return is_response(kind) ? ExtSet{Ext::kRdeth} : ExtSet{Ext::kRdeth, Ext::kDeth};
        case Service::kUd:
            return {Ext::kDeth};
        case Service::kXrc:
            return is_response(kind) ? ExtSet{} : ExtSet{Ext::kXrceth};
        default:
            return {};
    }
}

// Whether a transport has an operation (IBA table 35, annex A14).
constexpr bool offers(Service service, const Operation& op) {
    const bool invalidates = op.exts.has(Ext::kIeth);
    switch (service) {
        case Service::kRc:
        case Service::kXrc:
            return op.kind != OpKind::kResync;
        case Service::kRd:
            return !invalidates;
        case Service::kUc:
            return !invalidates && (op.kind == OpKind::kSend || op.kind == OpKind::kRdmaWrite);
        case Service::kUd:
            return !invalidates && op.kind == OpKind::kSend && op.position == Position::kOnly;
        default:
            return false;
    }
}

constexpr void place_all(Table& table, uint8_t base, Service service, const Names& names) {
    for (size_t i = 0; i < std::size(kOperations); ++i) {
        const Operation& op = kOperations[i];
        if (!offers(service, op)) {
            continue;
        }
        place(table, {.name = names[i],
                      .opcode = static_cast<uint8_t>(base | op.code),
                      .service = service,
                      .kind = op.kind,
                      .position = op.position,
                      .payload = op.payload,
                      .exts = op.exts | service_exts(service, op.kind)});
    }
}

constexpr Table make_table() {
    Table table{};
    place_all(table, opcode::kRc, Service::kRc, kRcNames);
    place_all(table, opcode::kUc, Service::kUc, kUcNames);
    place_all(table, opcode::kRd, Service::kRd, kRdNames);
    place_all(table, opcode::kUd, Service::kUd, kUdNames);
    place_all(table, opcode::kXrc, Service::kXrc, kXrcNames);
    place(table, {.name = "RC masked CmpSwap",
                  .opcode = opcode::kMaskedCmpSwap,
                  .service = Service::kRc,
                  .kind = OpKind::kMaskedCmpSwap,
                  .position = Position::kOnly,
                  .payload = kNo,
                  .exts = {Ext::kMaskedAtomicEth}});
    place(table, {.name = "RC masked FetchAdd",
                  .opcode = opcode::kMaskedFetchAdd,
                  .service = Service::kRc,
                  .kind = OpKind::kMaskedFetchAdd,
                  .position = Position::kOnly,
                  .payload = kNo,
                  .exts = {Ext::kMaskedAtomicEth}});
    place(table, {.name = "CNP",
                  .opcode = opcode::kCnp,
                  .service = Service::kCnp,
                  .kind = OpKind::kCongestionNotification,
                  .position = Position::kOnly,
                  .payload = PayloadRule::kCnp,
                  .exts = {}});
    return table;
}

constexpr Table kTable = make_table();

}  // namespace

size_t ext_size(Ext ext) {
    return kExtSizes[index_of(ext)];
}

const OpcodeInfo* find_opcode(uint8_t opcode) {
    const OpcodeInfo& row = kTable[opcode];
    return row.name == nullptr ? nullptr : &row;
}

namespace {

constexpr OpcodeInfo reserved_row(const char* name, Service service) {
    return {.name = name,
            .service = service,
            .kind = OpKind::kReserved,
            .position = Position::kOnly,
            .payload = kAny,
            .header_bytes = Bth::kSize};
}
constexpr OpcodeInfo kReservedOfRc = reserved_row("RC reserved", Service::kRc);
constexpr OpcodeInfo kReservedOfXrc = reserved_row("XRC reserved", Service::kXrc);

}  // namespace

const OpcodeInfo* find_received_opcode(uint8_t opcode) {
    if (const OpcodeInfo* info = find_opcode(opcode)) [[likely]] {
        return info;
    }
    const unsigned transport = opcode & opcode::kTransportMask;
    return transport == opcode::kRc    ? &kReservedOfRc
           : transport == opcode::kXrc ? &kReservedOfXrc
                                       : nullptr;
}

}  // namespace pib::ib
