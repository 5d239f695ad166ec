// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/stream_cut.h"

#include <algorithm>

#include "ib/wire/packet.h"
#include "record/record_format.h"

namespace pib::hca::record {

namespace {

// Bytes that are kept of a packet longer than kWholePayload: all headers, which the device checks.
constexpr size_t kKeptHead = 128;
static_assert(kKeptHead >= ib::kMaxHeaders);

}  // namespace

size_t kept_bytes(const link::FrameHeader& header) {
    const bool is_packet = header.type == link::FrameType::kPacket;
    const bool elided = (header.flags & link::kFlagCrcElided) != 0;
    return is_packet && elided && header.length > kWholePayload ? kKeptHead : header.length;
}

// Adds bytes to the frame's header; returns how many belong to the header.
size_t StreamCut::take_header(std::span<const uint8_t> bytes) {
    const size_t n = std::min(bytes.size(), header_.size() - header_bytes_);
    std::copy_n(bytes.begin(), n, header_.begin() + static_cast<ptrdiff_t>(header_bytes_));
    header_bytes_ += n;
    if (header_bytes_ == header_.size()) {
        header_bytes_ = 0;
        const auto header = link::parse_frame_header(header_);
        lost_ = !header;
        keep_ = header ? kept_bytes(*header) : 0;
        leave_ = header ? header->length - keep_ : 0;
    }
    return n;
}

StreamCut::Piece StreamCut::next(std::span<const uint8_t> bytes) {
    Piece piece;
    while (piece.kept < bytes.size()) {
        const auto rest = bytes.subspan(piece.kept);
        if (lost_) {
            piece.kept = bytes.size();
        } else if (keep_ != 0) {
            const size_t n = std::min(keep_, rest.size());
            keep_ -= n;
            piece.kept += n;
        } else if (leave_ != 0) {
            piece.left_out = std::min(leave_, rest.size());
            leave_ -= piece.left_out;
            return piece;
        } else {
            piece.kept += take_header(rest);
        }
    }
    return piece;
}

}  // namespace pib::hca::record
