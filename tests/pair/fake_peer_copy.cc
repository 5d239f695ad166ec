// SPDX-License-Identifier: GPL-2.0-or-later
#include "fake_peer_copy.h"

#include <algorithm>
#include <stdexcept>

namespace pib::hca::test {

bool FakePeerCopy::is_registered(const link::BlockSegment& segment) const {
    if (segment.block != 0 || segment.length == 0 || segment.offset >= kSharedBytes ||
        segment.length > kSharedBytes - segment.offset) {
        throw std::runtime_error("a segment of no memory");
    }
    const uint64_t* bits = memory_.bitmaps();
    const uint64_t last = (segment.offset + segment.length - 1) / link::kPageBytes;
    for (uint64_t page = segment.offset / link::kPageBytes; page <= last; ++page) {
        if ((bits[page / 64] >> page % 64 & 1) == 0) {
            return false;
        }
    }
    return true;
}

std::vector<uint8_t> FakePeerCopy::gather(std::span<const link::BlockSegment> segments) const {
    std::vector<uint8_t> all;
    for (const link::BlockSegment& segment : segments) {
        if (!is_registered(segment)) {
            throw std::runtime_error("an offer to what is not registered");
        }
        const auto from = bytes(segment);
        all.insert(all.end(), from.begin(), from.end());
    }
    return all;
}

void FakePeerCopy::scatter(std::span<const link::BlockSegment> segments,
                           std::span<const uint8_t> from) const {
    for (const link::BlockSegment& segment : segments) {
        if (!is_registered(segment) || segment.length > from.size()) {
            throw std::runtime_error("a pull to where it must not go");
        }
        std::ranges::copy(from.first(segment.length), bytes(segment).begin());
        from = from.subspan(segment.length);
    }
    if (!from.empty()) {
        throw std::runtime_error("a pull to less than there is");
    }
}

}  // namespace pib::hca::test
