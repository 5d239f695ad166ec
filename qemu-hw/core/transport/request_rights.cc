// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/request_rights.h"

#include "base/access.h"

namespace pib::hca {
namespace {

// FLUSH needs a right for each placement type that it requests (annex A19).
uint32_t flush_access(const ib::Feth& feth) {
    const bool global = (feth.placement & ib::Feth::kGlobalVisibility) != 0;
    const bool persistent = (feth.placement & ib::Feth::kPersistence) != 0;
    return (global ? access::kFlushGlobal : 0) | (persistent ? access::kFlushPersistent : 0);
}

}  // namespace

uint32_t access_of(const ib::PacketView& packet) {
    if (packet.opcode().is_atomic()) {
        return access::kRemoteAtomic;
    }
    switch (packet.opcode().kind) {
        case ib::OpKind::kRdmaWrite:
        case ib::OpKind::kAtomicWrite:
            return access::kRemoteWrite;
        case ib::OpKind::kRdmaReadRequest:
            return access::kRemoteRead;
        case ib::OpKind::kFlush:
            return flush_access(*packet.feth());
        default:
            return 0;
    }
}

std::optional<KeyedRange> named_range(const ib::PacketView& packet) {
    const uint32_t access = access_of(packet);
    if (const auto reth = packet.reth()) {
        return KeyedRange{
            .key = reth->rkey.value(), .addr = reth->va, .length = reth->dma_len, .access = access};
    }
    if (packet.opcode().is_atomic()) {
        const ib::AtomicEth eth = atomic_request(packet).eth;
        return KeyedRange{
            .key = eth.rkey.value(), .addr = eth.va, .length = sizeof(uint64_t), .access = access};
    }
    return std::nullopt;
}

AtomicRequest atomic_request(const ib::PacketView& packet) {
    const bool swap = packet.opcode().kind == ib::OpKind::kCmpSwap ||
                      packet.opcode().kind == ib::OpKind::kMaskedCmpSwap;
    if (const auto masked = packet.masked_atomic_eth()) {
        return {.eth = masked->atomic,
                .swap_mask = masked->swap_mask,
                .compare_mask = masked->compare_mask,
                .swap = swap};
    }
    return {.eth = *packet.atomic_eth(),
            .swap_mask = UINT64_MAX,
            .compare_mask = swap ? UINT64_MAX : 0,
            .swap = swap};
}

uint64_t AtomicRequest::apply(uint64_t word) const {
    if (swap) {
        const bool equal = ((word ^ eth.compare) & compare_mask) == 0;
        return equal ? (word & ~swap_mask) | (eth.swap_or_add & swap_mask) : word;
    }
    // The highest bit of each field is added without its carry, so that no field disturbs the next.
    const uint64_t tops = compare_mask;
    const uint64_t rest = (word & ~tops) + (eth.swap_or_add & ~tops);
    return rest ^ ((word ^ eth.swap_or_add) & tops);
}

}  // namespace pib::hca
