// SPDX-License-Identifier: GPL-2.0-or-later
// The target of a burst's payload in guest memory. The responder or completer copies the payload
// there, or has it pulled there.
#pragma once

#include "ib/wire/burst.h"
#include "ib/wire/placement.h"
#include "memory/peer_copy.h"
#include "qp/qp_services.h"
#include "queues/segments.h"

namespace pib::hca {

// A target in the data segments of a WQE, from an offset on.
struct WqeTarget {
    SegmentView segments;
    uint64_t offset;

    [[nodiscard]] bool copy(Mpt& mpt, std::span<const uint8_t> payload) const {
        return scatter(mpt, segments, offset, payload);
    }
    [[nodiscard]] bool locate(const Mpt& mpt, uint64_t bytes, SgList& out) const {
        return hca::locate(mpt, segments, offset, bytes, access::kLocalWrite, out);
    }
};

// A target in a memory region, from an address on.
struct KeyTarget {
    KeyUser user;
    uint32_t key;
    uint64_t addr;

    KeyedRange range(uint64_t bytes) const {
        return {.key = key, .addr = addr, .length = bytes, .access = access::kRemoteWrite};
    }
    [[nodiscard]] bool copy(Mpt& mpt, std::span<const uint8_t> payload) const {
        return mpt.write(user, range(payload.size()), payload);
    }
    [[nodiscard]] bool locate(const Mpt& mpt, uint64_t bytes, SgList& out) const {
        return mpt.locate(user, range(bytes), out);
    }
};

// Copies a payload that is in the burst, begins the pull of an offered payload, or checks that a
// pulled payload is at its target. False: a key or memory does not allow the access, a page is
// absent, the switch cannot access the target, or the target has changed since the pull began.
template <typename Target>
[[nodiscard]] bool place_payload(QpServices& services, const QueuePair& qp, const Target& target,
                                 const ib::Burst& burst, ib::Placement& payload) {
    if (payload.is_here()) [[likely]] {
        return target.copy(services.mpt(), burst.payload());
    }
    SgList sg_list;
    if (services.peer_copy() == nullptr ||
        !target.locate(services.mpt(), burst.payload_bytes(), sg_list)) {
        return false;
    }
    return payload.is_offered()
               ? services.peer_copy()->begin_pull(qp.port(), qp.qpn, sg_list, payload.where)
               : services.peer_copy()->end_pull(qp.port(), sg_list, payload.where);
}

}  // namespace pib::hca
