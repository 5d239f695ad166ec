// SPDX-License-Identifier: GPL-2.0-or-later
// Parses packets in the order of their headers, with each check before the first use of the checked
// value; builds packets in the same order.
#include "ib/wire/packet.h"

#include <algorithm>
#include <array>

#include "ib/wire/crc.h"

namespace pib::ib {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr size_t pad_to_word(size_t bytes) {
    return (4 - bytes % 4) % 4;
}

// The CRCs' bytes are sent low byte first (see crc.h).
template <typename T>
T load_le(Bytes from) {
    T value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
        value = static_cast<T>(value | static_cast<T>(from[i]) << (8 * i));
    }
    return value;
}

template <typename T>
void store_le(std::span<uint8_t> to, T value) {
    for (size_t i = 0; i < sizeof(T); ++i) {
        to[i] = static_cast<uint8_t>(value >> (8 * i));
    }
}

// Whether a payload of this length is valid for any MTU; the exact rule depends on the path's MTU.
// Every length passes in a reliable connection, whose responder answers a wrong one with a NAK.
bool payload_possible(const OpcodeInfo& info, size_t bytes, size_t pad) {
    if (info.is_reliable() && (info.is_request() || info.payload != PayloadRule::kNone)) {
        return bytes <= kMaxPayload;
    }
    if (info.payload == PayloadRule::kFullMtu) {
        // Every MTU is a power of two from 256 on, so a full payload has no pad.
        return bytes >= 256 && bytes <= kMaxPayload && (bytes & (bytes - 1)) == 0 && pad == 0;
    }
    return info.admits_payload(bytes, kMaxPayload);
}

// The GRH of a packet whose ICRC would begin at `end`.
std::expected<Grh, ParseError> parse_grh(const PacketBytes& bytes, size_t end) {
    if (std::min(end, bytes.head().size()) < Lrh::kSize + Grh::kSize) {
        return std::unexpected(ParseError::kTruncated);
    }
    const Grh grh = Grh::parse(bytes.head().subspan<Lrh::kSize, Grh::kSize>());
    if (grh.ip_ver != Grh::kIpVer) {
        return std::unexpected(ParseError::kIpVersion);
    }
    if (grh.nxt_hdr != Grh::kNxtHdrIba) {
        return std::unexpected(ParseError::kNextHeader);
    }
    if (grh.pay_len != end + kIcrcSize - Lrh::kSize - Grh::kSize) {
        return std::unexpected(ParseError::kGrhPayloadLength);
    }
    return grh;
}

}  // namespace

const char* to_string(ParseError error) {
    static constexpr std::array<const char*, 11> kNames = {
        "truncated",   "link version",       "packet length",     "IP version",
        "next header", "GRH payload length", "transport version", "reserved opcode",
        "pad count",   "payload for opcode", "raw packet"};
    const auto index = static_cast<size_t>(error);
    return index < kNames.size() ? kNames[index] : "unknown";
}

std::expected<Lrh, ParseError> parse_lrh(const PacketBytes& bytes, Crcs crcs) {
    if (bytes.head().size() < Lrh::kSize) {
        return std::unexpected(ParseError::kTruncated);
    }
    const Lrh lrh = Lrh::parse(bytes.head().first<Lrh::kSize>());
    if (const auto error = lrh_error(lrh, bytes.size(), crcs)) {
        return std::unexpected(*error);
    }
    return lrh;
}

std::expected<PacketView, ParseError> PacketView::parse(const PacketBytes& bytes, Crcs crcs) {
    const auto lrh = parse_lrh(bytes, crcs);
    if (!lrh) {
        return std::unexpected(lrh.error());
    }
    PacketView view(Key{}, bytes);
    if (const auto checked = view.parse_rest(*lrh, crcs); !checked) {
        return std::unexpected(checked.error());
    }
    return view;
}

std::expected<void, ParseError> PacketView::parse_to(std::optional<PacketView>& to,
                                                     const PacketBytes& bytes, const Lrh& lrh) {
    const auto checked = to.emplace(Key{}, bytes).parse_rest(lrh, Crcs::kElided);
    if (!checked) {
        to.reset();
    }
    return checked;
}

std::expected<void, ParseError> PacketView::parse_rest(const Lrh& lrh, Crcs crcs) {
    if (is_raw(lrh.lnh)) {
        return std::unexpected(ParseError::kRaw);
    }
    crcs_ = crcs;
    lrh_ = lrh;
    bth_offset_ = Lrh::kSize;
    if (bytes_.size() < Lrh::kSize + crc_bytes(crcs, false)) {
        return std::unexpected(ParseError::kTruncated);
    }
    crc_offset_ = bytes_.size() - crc_bytes(crcs, false);
    if (lrh.lnh == Lnh::kIbaGlobal) {
        const auto grh = parse_grh(bytes_, crc_offset_);
        if (!grh) {
            return std::unexpected(grh.error());
        }
        grh_ = *grh;
        bth_offset_ += Grh::kSize;
    }
    return parse_transport();
}

std::expected<void, ParseError> PacketView::parse_transport() {
    const size_t transport_bytes = crc_offset_ - bth_offset_;
    if (transport_bytes < Bth::kSize) {
        return std::unexpected(ParseError::kTruncated);
    }
    if (bytes_.head().size() < bth_offset_ + Bth::kSize) {
        return std::unexpected(ParseError::kTruncated);
    }
    bth_ = Bth::parse(bytes_.head().subspan(bth_offset_).first<Bth::kSize>());
    if (bth_.tver != 0) {
        return std::unexpected(ParseError::kTransportVersion);
    }
    opcode_ = find_received_opcode(bth_.opcode);
    if (opcode_ == nullptr) {
        return std::unexpected(ParseError::kReservedOpcode);
    }
    if (transport_bytes < opcode_->header_bytes ||
        bytes_.head().size() < bth_offset_ + opcode_->header_bytes) {
        return std::unexpected(ParseError::kTruncated);
    }
    const size_t padded = transport_bytes - opcode_->header_bytes;
    if (bth_.pad_count > padded) {
        return std::unexpected(ParseError::kPadCount);
    }
    const size_t payload_bytes = padded - bth_.pad_count;
    if (payload_bytes == 0 && bth_.pad_count != 0) {
        return std::unexpected(ParseError::kPadCount);
    }
    if (!payload_possible(*opcode_, payload_bytes, bth_.pad_count)) {
        return std::unexpected(ParseError::kPayload);
    }
    payload_ = bytes_.part(bth_offset_ + opcode_->header_bytes, payload_bytes);
    return {};
}

bool PacketView::icrc_is_good() const {
    // A caller that checks checksums has the whole packet in a private buffer.
    const Bytes all = bytes_.head();
    return crcs_ == Crcs::kElided ||
           (bytes_.is_stable() &&
            load_le<uint32_t>(all.subspan(crc_offset_)) == icrc(all.first(crc_offset_)));
}

bool PacketView::vcrc_is_good() const {
    return crcs_ != Crcs::kIcrcAndVcrc || (bytes_.is_stable() && ib::vcrc_is_good(bytes_.head()));
}

bool vcrc_is_good(Bytes bytes) {
    if (bytes.size() < Lrh::kSize + kVcrcSize) {
        return false;
    }
    const size_t covered = bytes.size() - kVcrcSize;
    return load_le<uint16_t>(bytes.subspan(covered)) == vcrc(bytes.first(covered));
}

std::expected<size_t, BuildError> packet_size(const PacketHeaders& headers, size_t payload_bytes,
                                              Crcs crcs) {
    const OpcodeInfo* info = find_opcode(headers.bth.opcode);
    if (info == nullptr) {
        return std::unexpected(BuildError::kReservedOpcode);
    }
    const bool wanted = payload_bytes == 0 || info->payload != PayloadRule::kNone;
    if (payload_bytes > kMaxPayload || !wanted) {
        return std::unexpected(BuildError::kPayload);
    }
    return Lrh::kSize + (headers.grh ? Grh::kSize : 0) + info->header_bytes + payload_bytes +
           pad_to_word(payload_bytes) + crc_bytes(crcs, false);
}

namespace {

template <typename Header>
void write_ext(std::span<uint8_t> transport, const OpcodeInfo& info, Ext which,
               const Header& header) {
    if (info.has(which)) {
        header.write(
            transport.subspan(info.offset[index_of(which)]).template first<Header::kSize>());
    }
}

void write_transport(std::span<uint8_t> transport, const OpcodeInfo& info,
                     const PacketHeaders& headers, size_t payload_bytes) {
    Bth bth = headers.bth;
    bth.pad_count = static_cast<uint8_t>(pad_to_word(payload_bytes));
    bth.write(transport.first<Bth::kSize>());
    write_ext(transport, info, Ext::kRdeth, headers.rdeth);
    write_ext(transport, info, Ext::kDeth, headers.deth);
    write_ext(transport, info, Ext::kXrceth, headers.xrceth);
    write_ext(transport, info, Ext::kFeth, headers.feth);
    write_ext(transport, info, Ext::kMaskedAtomicEth, headers.masked_atomic_eth);
    write_ext(transport, info, Ext::kReth, headers.reth);
    write_ext(transport, info, Ext::kAtomicEth, headers.atomic_eth);
    write_ext(transport, info, Ext::kAeth, headers.aeth);
    write_ext(transport, info, Ext::kAtomicAckEth, headers.atomic_ack_eth);
    write_ext(transport, info, Ext::kImmDt, headers.imm_dt);
    write_ext(transport, info, Ext::kIeth, headers.ieth);
    std::ranges::fill(transport.subspan(info.header_bytes + payload_bytes), uint8_t{0});
}

}  // namespace

std::expected<PacketBuilder, BuildError> PacketBuilder::begin(std::span<uint8_t> buffer,
                                                              const PacketHeaders& headers,
                                                              size_t payload_bytes, Crcs crcs) {
    const auto size = packet_size(headers, payload_bytes, crcs);
    if (!size) {
        return std::unexpected(size.error());
    }
    if (buffer.size() < *size) {
        return std::unexpected(BuildError::kNoRoom);
    }
    const OpcodeInfo& info = *find_opcode(headers.bth.opcode);
    const size_t bth_offset = Lrh::kSize + (headers.grh ? Grh::kSize : 0);
    const size_t crc_offset = *size - crc_bytes(crcs, false);

    Lrh lrh = headers.lrh;
    lrh.lnh = headers.grh ? Lnh::kIbaGlobal : Lnh::kIbaLocal;
    lrh.pkt_len = static_cast<uint16_t>((crc_offset + kIcrcSize) / 4);
    lrh.write(buffer.first<Lrh::kSize>());
    if (headers.grh) {
        Grh grh = *headers.grh;
        grh.pay_len = static_cast<uint16_t>(crc_offset + kIcrcSize - bth_offset);
        grh.write(buffer.subspan<Lrh::kSize, Grh::kSize>());
    }
    write_transport(buffer.subspan(bth_offset, crc_offset - bth_offset), info, headers,
                    payload_bytes);

    PacketBuilder builder;
    builder.buffer_ = buffer.first(*size);
    builder.payload_offset_ = bth_offset + info.header_bytes;
    builder.payload_bytes_ = payload_bytes;
    builder.crcs_ = crcs;
    return builder;
}

PacketBuilder& PacketBuilder::gather(std::span<const Bytes> parts) {
    std::span<uint8_t> room = payload();
    for (const Bytes part : parts) {
        const size_t count = std::min(part.size(), room.size());
        std::ranges::copy(part.first(count), room.begin());
        room = room.subspan(count);
    }
    return *this;
}

std::span<uint8_t> PacketBuilder::finish() {
    const size_t crc_offset = buffer_.size() - crc_bytes(crcs_, false);
    if (crcs_ != Crcs::kElided) {
        store_le(buffer_.subspan(crc_offset), icrc(buffer_.first(crc_offset)));
    }
    if (crcs_ == Crcs::kIcrcAndVcrc) {
        const size_t vcrc_offset = crc_offset + kIcrcSize;
        store_le(buffer_.subspan(vcrc_offset), vcrc(buffer_.first(vcrc_offset)));
    }
    return buffer_;
}

}  // namespace pib::ib
