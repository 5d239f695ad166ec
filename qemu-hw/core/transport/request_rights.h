// SPDX-License-Identifier: GPL-2.0-or-later
// The access rights that a request packet needs, the memory that it names, and atomic operations.
#pragma once

#include <optional>

#include "ib/wire/packet.h"
#include "memory/mpt.h"

namespace pib::hca {

// The rights that the packet's operation needs from both the QP (IBA 10.2.4.2) and the R_Key:
// access::k..., 0 for a SEND.
uint32_t access_of(const ib::PacketView& packet);

// The range of a RETH or AtomicETH, with the rights of access_of(); no value if the packet has
// neither header.
[[nodiscard]] std::optional<KeyedRange> named_range(const ib::PacketView& packet);

// The operands of an atomic. The masks of a plain atomic are those with which the masked atomic has
// the same effect.
struct AtomicRequest {
    ib::AtomicEth eth;
    uint64_t swap_mask;
    uint64_t compare_mask;
    bool swap;

    // Returns the value that the operation gives to a word in memory whose value is `word`.
    uint64_t apply(uint64_t word) const;
};
// The operands of `packet`, which must be an atomic.
AtomicRequest atomic_request(const ib::PacketView& packet);

}  // namespace pib::hca
