// SPDX-License-Identifier: GPL-2.0-or-later
// Memory and rights that a request packet needs of the responder.
#pragma once

#include <optional>

#include "ib/wire/packet.h"
#include "memory/mpt.h"

namespace pib::hca {

// The rights that the operation needs of the QP (IBA 10.2.4.2 qualifiers) and of the R_Key:
// access::k..., 0 for a SEND.
uint32_t access_of(const ib::PacketView& packet);

// The range of a RETH or AtomicETH, with those rights; no value if the packet has neither.
std::optional<KeyedRange> named_range(const ib::PacketView& packet);

// The operands of an atomic. A plain atomic gets the masks with which the masked atomic does the
// same.
struct AtomicRequest {
    ib::AtomicEth eth;
    uint64_t swap_mask;
    uint64_t compare_mask;
    bool swap;

    // The new value of a word.
    uint64_t apply(uint64_t word) const;
};
// Requires a packet of an atomic.
AtomicRequest atomic_request(const ib::PacketView& packet);

}  // namespace pib::hca
