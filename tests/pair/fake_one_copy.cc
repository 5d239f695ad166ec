// SPDX-License-Identifier: GPL-2.0-or-later
#include "fake_one_copy.h"

#include <algorithm>
#include <stdexcept>

namespace pib::hca::test {

bool FakeOneCopy::is_registered(const link::RamPiece& piece) const {
    if (piece.block != 0 || piece.length == 0 || piece.offset >= kSharedBytes ||
        piece.length > kSharedBytes - piece.offset) {
        throw std::runtime_error("a piece of no memory");
    }
    const uint64_t* bits = memory_.bitmaps();
    const uint64_t last = (piece.offset + piece.length - 1) / link::kPageBytes;
    for (uint64_t page = piece.offset / link::kPageBytes; page <= last; ++page) {
        if ((bits[page / 64] >> page % 64 & 1) == 0) {
            return false;
        }
    }
    return true;
}

std::vector<uint8_t> FakeOneCopy::gather(std::span<const link::RamPiece> pieces) const {
    std::vector<uint8_t> all;
    for (const link::RamPiece& piece : pieces) {
        if (!is_registered(piece)) {
            throw std::runtime_error("a reference to what is not registered");
        }
        const auto from = bytes(piece);
        all.insert(all.end(), from.begin(), from.end());
    }
    return all;
}

void FakeOneCopy::scatter(std::span<const link::RamPiece> pieces,
                          std::span<const uint8_t> from) const {
    for (const link::RamPiece& piece : pieces) {
        if (!is_registered(piece) || piece.length > from.size()) {
            throw std::runtime_error("a pull to where it must not go");
        }
        std::ranges::copy(from.first(piece.length), bytes(piece).begin());
        from = from.subspan(piece.length);
    }
    if (!from.empty()) {
        throw std::runtime_error("a pull to less than there is");
    }
}

}  // namespace pib::hca::test
