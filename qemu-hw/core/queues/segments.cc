// SPDX-License-Identifier: GPL-2.0-or-later
#include "queues/segments.h"

#include <algorithm>

#include "pib_hca_hw.h"

namespace pib::hca {
namespace {

// Calls piece(key, addr, position in the span, bytes) for each SGE in the range, until a call
// returns false or the range ends.
template <typename Piece>
bool for_each_piece(const SegmentView& segments, uint64_t offset, uint64_t bytes, Piece&& piece) {
    uint64_t done = 0;
    for (unsigned i = 0; i < segments.data.num_sge && done < bytes; ++i) {
        const Sge sge = sge_at(segments.wqe, segments.data, i);
        if (offset >= sge.length) {
            offset -= sge.length;
            continue;
        }
        const uint64_t part = std::min<uint64_t>(sge.length - offset, bytes - done);
        if (!piece(sge.lkey, sge.addr + offset, done, part)) {
            return false;
        }
        done += part;
        offset = 0;
    }
    return done == bytes;
}

}  // namespace

WqeError check_segments(const Mpt& mpt, const SegmentView& segments, uint32_t access) {
    for (unsigned i = 0; i < segments.data.num_sge; ++i) {
        const Sge sge = sge_at(segments.wqe, segments.data, i);
        const KeyedRange range{
            .key = sge.lkey, .addr = sge.addr, .length = sge.length, .access = access};
        if (!mpt.check(segments.user, range)) {
            const size_t at = segments.data.offset + i * sizeof(pib_hca_sge);
            return {WcStatus::kLocProtErr,
                    refuse(Rule::kSgeKey, sge.lkey, sge.addr).within(static_cast<uint16_t>(at))};
        }
    }
    return {};
}

WqeError protection_error(const Mpt& mpt, const SegmentView& segments, uint32_t access) {
    const WqeError error = check_segments(mpt, segments, access);
    return error.status != WcStatus::kSuccess
               ? error
               : WqeError{WcStatus::kLocProtErr, refuse(Rule::kSgeMemory)};
}

bool gather(Mpt& mpt, const SegmentView& segments, uint64_t offset, std::span<uint8_t> to) {
    if (segments.data.is_inline) {
        if (offset > segments.data.length || to.size() > segments.data.length - offset) {
            return false;
        }
        std::ranges::copy(segments.wqe.subspan(segments.data.offset + offset, to.size()),
                          to.begin());
        return true;
    }
    return for_each_piece(
        segments, offset, to.size(), [&](uint32_t key, uint64_t addr, uint64_t at, uint64_t n) {
            const KeyedRange range{.key = key, .addr = addr, .length = n, .access = 0};
            return mpt.read(segments.user, range, to.subspan(at, n));
        });
}

bool scatter(Mpt& mpt, const SegmentView& segments, uint64_t offset,
             std::span<const uint8_t> from) {
    return for_each_piece(
        segments, offset, from.size(), [&](uint32_t key, uint64_t addr, uint64_t at, uint64_t n) {
            const KeyedRange range{
                .key = key, .addr = addr, .length = n, .access = access::kLocalWrite};
            return mpt.write(segments.user, range, from.subspan(at, n));
        });
}

bool locate(const Mpt& mpt, const SegmentView& segments, uint64_t offset, uint64_t bytes,
            uint32_t access, SgList& out) {
    return !segments.data.is_inline &&
           for_each_piece(
               segments, offset, bytes, [&](uint32_t key, uint64_t addr, uint64_t, uint64_t n) {
                   const KeyedRange range{.key = key, .addr = addr, .length = n, .access = access};
                   return mpt.locate(segments.user, range, out);
               });
}

}  // namespace pib::hca
