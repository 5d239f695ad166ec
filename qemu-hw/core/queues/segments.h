// SPDX-License-Identifier: GPL-2.0-or-later
// A WQE's data segment as one sequence of bytes: gather for sent data, scatter for received data.
#pragma once

#include <cstdint>
#include <span>

#include "memory/mpt.h"
#include "queues/wqe.h"

namespace pib::hca {

// A copied WQE, its data segment, and the user of the keys in its SGEs.
struct SegmentView {
    std::span<const uint8_t> wqe;
    const DataSegment& data;
    KeyUser user;
};

// Success if the keys of all SGEs permit access with these rights (IBA 10.6.3.4).
WqeError check_segments(const Mpt& mpt, const SegmentView& segments, uint32_t access);
// The error for a failed access to the segments: a key does not permit the access, or the memory is
// not RAM.
WqeError protection_error(const Mpt& mpt, const SegmentView& segments, uint32_t access);

// Copies between the data segment at `offset` and a span that fits in it. False: an SGE is refused,
// or its memory is not RAM; a prefix may have been copied.
[[nodiscard]] bool gather(Mpt& mpt, const SegmentView& segments, uint64_t offset,
                          std::span<uint8_t> to);
[[nodiscard]] bool scatter(Mpt& mpt, const SegmentView& segments, uint64_t offset,
                           std::span<const uint8_t> from);

// Appends the location of `bytes` bytes of the data segment at `offset` to `out`, as Mpt::locate()
// does. Also false for inline data, which is part of the WQE.
[[nodiscard]] bool locate(const Mpt& mpt, const SegmentView& segments, uint64_t offset,
                          uint64_t bytes, uint32_t access, SgList& out);

}  // namespace pib::hca
