// SPDX-License-Identifier: GPL-2.0-or-later
// Reads and writes whole packets. PacketView::parse() checks every length before it uses a header;
// PacketBuilder builds a packet in the caller's buffer. Neither allocates memory.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <expected>
#include <optional>
#include <span>

#include "ib/wire/headers.h"
#include "ib/wire/opcode.h"

namespace pib::ib {

// The checksums that follow the packet in memory. Frames in shared memory have neither (the fabric
// protocol's CRC_ELIDED) unless fault injection changes them; LRH:PktLen always counts the ICRC.
enum class Crcs : uint8_t {
    kElided,
    kIcrc,
    kIcrcAndVcrc,
};

inline constexpr size_t kIcrcSize = 4;
inline constexpr size_t kVcrcSize = 2;

// Bytes of the checksums. A raw packet has no ICRC (IBA 7.8.1).
constexpr size_t crc_bytes(Crcs crcs, bool raw) {
    const size_t icrc_size = raw ? 0 : kIcrcSize;
    switch (crcs) {
        case Crcs::kElided:
            return 0;
        case Crcs::kIcrc:
            return icrc_size;
        case Crcs::kIcrcAndVcrc:
            return icrc_size + kVcrcSize;
    }
    return 0;
}

// Largest MTU plus 126 bytes of headers and checksums (IBA 7.7.8 permits this PktLen).
inline constexpr size_t kMaxPayload = 4096;
inline constexpr size_t kMaxPacket = kMaxPayload + 126;
// Most bytes of a packet's headers: LRH, GRH, BTH and MaskedAtomicETH.
inline constexpr size_t kMaxHeaders = 104;

// Reasons to reject a packet. The receiver drops and counts it, and never answers (IBA 9.6.1).
enum class ParseError : uint8_t {
    kTruncated,         // fewer bytes than the headers need
    kLinkVersion,       // LRH:LVer is not 0
    kPacketLength,      // LRH:PktLen differs from the number of bytes, or is too small
    kIpVersion,         // GRH:IPVer is not 6
    kNextHeader,        // GRH:NxtHdr is not IBA
    kGrhPayloadLength,  // GRH:PayLen disagrees with LRH:PktLen
    kTransportVersion,  // BTH:TVer is not 0
    kReservedOpcode,    // BTH:OpCode is reserved and not of RC or XRC, or packets form no burst
    kPadCount,          // BTH:PadCnt exceeds the payload, or is set without payload
    kPayload,           // a payload where the opcode has none, or of a length that no MTU allows
    kRaw,               // a raw packet where only IBA transport is accepted
};
[[nodiscard]] const char* to_string(ParseError error);

// A packet whose sender may still change its memory, as in the ring of a link in shared memory. The
// first bytes, with all headers, are a copy; the rest is read only by copying it once. A payload
// that changes meanwhile is permitted, as with DMA (IBA 9.4.1.1.1 promises nothing about a buffer
// that its owner writes to). Headers must not change after their checks, so checks use the copy.
class PacketBytes {
  public:
    // Bytes that no other thread or process writes.
    template <std::convertible_to<std::span<const uint8_t>> Bytes>
    PacketBytes(const Bytes& bytes)  // NOLINT: every private buffer converts
        : head_(bytes), whole_(head_) {}
    // `head` is a copy of the first bytes of `whole`. Either it is a copy of all of them, or it has
    // at least kMaxHeaders bytes.
    PacketBytes(std::span<const uint8_t> head, std::span<const uint8_t> whole)
        : head_(head), whole_(whole) {}

    [[nodiscard]] size_t size() const { return whole_.size(); }
    // Bytes that may be read repeatedly.
    [[nodiscard]] std::span<const uint8_t> head() const { return head_; }
    // All bytes of the packet, for copies only.
    [[nodiscard]] std::span<const uint8_t> whole() const { return whole_; }
    [[nodiscard]] bool is_stable() const { return head_.size() == whole_.size(); }
    // Bytes after the headers; the caller must copy them only once.
    [[nodiscard]] std::span<const uint8_t> part(size_t offset, size_t bytes) const {
        return offset + bytes <= head_.size() ? head_.subspan(offset, bytes)
                                              : whole_.subspan(offset, bytes);
    }
    // Copies the whole packet, with the checked headers. `to` has at least size() bytes.
    void copy_to(std::span<uint8_t> to) const {
        std::memcpy(to.data(), head_.data(), head_.size());
        std::memcpy(to.data() + head_.size(), whole_.data() + head_.size(),
                    whole_.size() - head_.size());
    }

  private:
    std::span<const uint8_t> head_;
    std::span<const uint8_t> whole_;
};

// Checks the link layer alone, as a switch needs it: version, and PktLen against the `bytes` from
// the LRH through the last checksum of `crcs`. nullopt: both are good.
[[nodiscard]] constexpr std::optional<ParseError> lrh_error(const Lrh& lrh, size_t bytes,
                                                            Crcs crcs) {
    if (lrh.lver != 0) {
        return ParseError::kLinkVersion;
    }
    const bool raw = is_raw(lrh.lnh);
    const size_t counted = size_t{lrh.pkt_len} * 4 - (raw ? 0 : kIcrcSize);
    return bytes == counted + crc_bytes(crcs, raw) ? std::nullopt
                                                   : std::optional(ParseError::kPacketLength);
}

// The LRH of exactly one packet, for which lrh_error() has no error.
[[nodiscard]] std::expected<Lrh, ParseError> parse_lrh(const PacketBytes& bytes, Crcs crcs);

// A packet that has been checked from LRH to pad (IBA 7.7, 8.3, 9.2, 9.6.1), except for the checks
// that depend on the port (MTU, LIDs, P_Key), and for checksums, which are checked on request. The
// view refers to the caller's bytes; accessors return copies of headers.
class PacketView {
    struct Key {};  // only this class can create views, also with std::optional::emplace()

  public:
    PacketView(Key, const PacketBytes& bytes) : bytes_(bytes) {}
    [[nodiscard]] static std::expected<PacketView, ParseError> parse(const PacketBytes& bytes,
                                                                     Crcs crcs);
    // Parses a packet without checksums, whose LRH lrh_error() or parse_lrh() has checked, into
    // `to`. After an error `to` is empty.
    [[nodiscard]] static std::expected<void, ParseError> parse_to(std::optional<PacketView>& to,
                                                                  const PacketBytes& bytes,
                                                                  const Lrh& lrh);

    [[nodiscard]] const Lrh& lrh() const { return lrh_; }
    [[nodiscard]] const std::optional<Grh>& grh() const { return grh_; }
    [[nodiscard]] const Bth& bth() const { return bth_; }
    [[nodiscard]] const OpcodeInfo& opcode() const { return *opcode_; }

    // The extended headers; nullopt if the opcode does not have them.
    [[nodiscard]] std::optional<Rdeth> rdeth() const { return ext<Rdeth>(Ext::kRdeth); }
    [[nodiscard]] std::optional<Deth> deth() const { return ext<Deth>(Ext::kDeth); }
    [[nodiscard]] std::optional<Xrceth> xrceth() const { return ext<Xrceth>(Ext::kXrceth); }
    [[nodiscard]] std::optional<Feth> feth() const { return ext<Feth>(Ext::kFeth); }
    [[nodiscard]] std::optional<Reth> reth() const { return ext<Reth>(Ext::kReth); }
    [[nodiscard]] std::optional<AtomicEth> atomic_eth() const {
        return ext<AtomicEth>(Ext::kAtomicEth);
    }
    [[nodiscard]] std::optional<MaskedAtomicEth> masked_atomic_eth() const {
        return ext<MaskedAtomicEth>(Ext::kMaskedAtomicEth);
    }
    [[nodiscard]] std::optional<Aeth> aeth() const { return ext<Aeth>(Ext::kAeth); }
    [[nodiscard]] std::optional<AtomicAckEth> atomic_ack_eth() const {
        return ext<AtomicAckEth>(Ext::kAtomicAckEth);
    }
    [[nodiscard]] std::optional<ImmDt> imm_dt() const { return ext<ImmDt>(Ext::kImmDt); }
    [[nodiscard]] std::optional<Ieth> ieth() const { return ext<Ieth>(Ext::kIeth); }

    // Payload without pad bytes; copy it only once if the packet may change.
    [[nodiscard]] std::span<const uint8_t> payload() const { return payload_; }
    // The bytes that were parsed, with checksums.
    [[nodiscard]] const PacketBytes& bytes() const { return bytes_; }

    // Whether the present checksums are right; true for elided ones.
    [[nodiscard]] bool icrc_is_good() const;
    [[nodiscard]] bool vcrc_is_good() const;

  private:
    [[nodiscard]] std::expected<void, ParseError> parse_rest(const Lrh& lrh, Crcs crcs);

    template <typename Header>
    [[nodiscard]] std::optional<Header> ext(Ext which) const {
        if (!opcode_->has(which)) {
            return std::nullopt;
        }
        return Header::parse(bytes_.head()
                                 .subspan(bth_offset_ + opcode_->offset[index_of(which)])
                                 .template first<Header::kSize>());
    }
    [[nodiscard]] std::expected<void, ParseError> parse_transport();

    PacketBytes bytes_;
    std::span<const uint8_t> payload_;
    const OpcodeInfo* opcode_ = nullptr;
    size_t bth_offset_ = 0;
    size_t crc_offset_ = 0;  // first byte after the pad
    Crcs crcs_ = Crcs::kElided;
    Lrh lrh_{};
    std::optional<Grh> grh_{};
    Bth bth_{};
};

// Whether the VCRC at the end of `bytes` (a packet with both checksums) is right. For switches,
// which check the link layer only.
[[nodiscard]] bool vcrc_is_good(std::span<const uint8_t> bytes);

// All headers of a packet. The builder computes LRH:PktLen and LNH, GRH:PayLen and BTH:PadCnt; of
// the extended headers it uses those that BTH:OpCode has.
struct PacketHeaders {
    Lrh lrh{};
    std::optional<Grh> grh{};
    Bth bth{};
    Rdeth rdeth{};
    Deth deth{};
    Xrceth xrceth{};
    Feth feth{};
    Reth reth{};
    AtomicEth atomic_eth{};
    MaskedAtomicEth masked_atomic_eth{};
    Aeth aeth{};
    AtomicAckEth atomic_ack_eth{};
    ImmDt imm_dt{};
    Ieth ieth{};
};

enum class BuildError : uint8_t {
    kReservedOpcode,
    kPayload,  // more than kMaxPayload, or a payload that the opcode does not have
    kNoRoom,   // the buffer is too small
};

// Bytes that begin() will need, or the error that it will return.
[[nodiscard]] std::expected<size_t, BuildError> packet_size(const PacketHeaders& headers,
                                                            size_t payload_bytes, Crcs crcs);

// Builds one packet in two steps, so that the payload can be fetched directly into its place:
// begin() writes the headers and the pad, the caller fills payload(), finish() adds checksums.
class PacketBuilder {
  public:
    [[nodiscard]] static std::expected<PacketBuilder, BuildError> begin(
        std::span<uint8_t> buffer, const PacketHeaders& headers, size_t payload_bytes, Crcs crcs);

    // Room for the payload: the `payload_bytes` bytes of begin().
    [[nodiscard]] std::span<uint8_t> payload() const {
        return buffer_.subspan(payload_offset_, payload_bytes_);
    }
    // Copies the parts one after the other to payload(), up to its size.
    PacketBuilder& gather(std::span<const std::span<const uint8_t>> parts);
    // Computes the checksums of the buffer's contents; returns the finished packet.
    std::span<uint8_t> finish();

  private:
    PacketBuilder() = default;

    std::span<uint8_t> buffer_;  // exactly the packet
    size_t payload_offset_ = 0;
    size_t payload_bytes_ = 0;
    Crcs crcs_ = Crcs::kElided;
};

}  // namespace pib::ib
