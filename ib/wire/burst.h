// SPDX-License-Identifier: GPL-2.0-or-later
// A burst: consecutive packets of one message as one value (docs/fabric-protocol.md, RUN). Of
// several packets, a burst has the headers of the first and the last one, and the payloads of all;
// the headers between follow from the first. A receiver that wants single packets asks for each by
// its index and gets the bytes that would have come singly. One packet is a burst of one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>

#include "ib/wire/packet.h"

namespace pib::ib {

inline constexpr std::size_t kMaxBurstPayload = 64 * 1024;
inline constexpr std::uint32_t kMinBurstMtu = 256;
inline constexpr std::uint32_t kMaxBurstPackets = kMaxBurstPayload / kMinBurstMtu;

// Several packets in memory: their number and MTU, the headers of the first and of the last packet,
// all payloads, and the pad of the last one.
inline constexpr std::size_t kBurstHeadersSize = 88;
inline constexpr std::size_t kBurstFirst = 8;
inline constexpr std::size_t kBurstLast = kBurstFirst + kBurstHeadersSize;
inline constexpr std::size_t kBurstPayload = kBurstLast + kBurstHeadersSize;
using BurstHeaders = std::array<std::uint8_t, kBurstHeadersSize>;
using BurstHead = std::array<std::uint8_t, kBurstPayload>;

// Bytes of a burst's packets, LRH to padding, and of their payloads.
struct BurstSize {
    std::uint32_t packets = 0;  // 1..kMaxBurstPackets
    std::uint32_t mtu = 0;      // payload of each but the last; of a single packet not known
    std::size_t first = 0;
    std::size_t middle = 0;  // each packet between first and last
    std::size_t last = 0;
    std::size_t payload = 0;  // all payloads, the last one's pad included

    // A single packet's.
    [[nodiscard]] static BurstSize of(std::size_t bytes) {
        return {.packets = 1, .first = bytes, .last = bytes};
    }
    [[nodiscard]] std::size_t packet(std::uint32_t index) const {
        return index == 0 ? first : index + 1 == packets ? last : middle;
    }
    // The longest packet.
    [[nodiscard]] std::size_t longest() const { return first > last ? first : last; }
    // Sum over `count` packets from `from` on of what `of` makes of a packet's bytes.
    template <typename Of>
    [[nodiscard]] auto sum(std::uint32_t from, std::uint32_t count, Of&& of) const {
        if (packets == 1 && count == 1) [[likely]] {
            return of(first);
        }
        const std::uint32_t firsts = from == 0 && count != 0 ? 1 : 0;
        const std::uint32_t lasts = count > firsts && from + count == packets ? 1 : 0;
        return firsts * of(first) + (count - firsts - lasts) * of(middle) + lasts * of(last);
    }
    [[nodiscard]] std::size_t bytes(std::uint32_t from, std::uint32_t count) const {
        return sum(from, count, [](std::size_t bytes) { return bytes; });
    }
    // LRH:PktLen, which counts the ICRCs.
    [[nodiscard]] std::uint64_t words(std::uint32_t from, std::uint32_t count) const {
        return (bytes(from, count) + count * kIcrcSize) / 4;
    }
    [[nodiscard]] std::size_t bytes() const { return bytes(0, packets); }
    [[nodiscard]] std::uint64_t words() const { return words(0, packets); }
    // Bytes of several packets in memory.
    [[nodiscard]] std::size_t body() const { return kBurstPayload + payload; }
};

// The MIDDLE opcode of a burst that starts with this one; nullptr: no burst of several starts with
// it.
[[nodiscard]] const OpcodeInfo* burst_middle(const OpcodeInfo& first);

class Burst {
  public:
    // One packet, of which parse_lrh() has checked the LRH.
    Burst(const Lrh& lrh, const PacketBytes& packet)
        : lrh_(lrh), bytes_(packet), size_(BurstSize::of(packet.size())) {}
    // One packet that has been checked.
    explicit Burst(const PacketView& packet) : Burst(packet.lrh(), packet.bytes()) {
        first_ = packet;
    }
    // Several packets, checked as PacketView::parse() checks one, and for being a burst: the same
    // LRH, GRH, BTH and XRCETH in all packets but for what tells them apart. `head` is a copy of
    // the first kBurstPayload bytes of `whole`, which the sender may still write to. Both outlive
    // the burst. `most`: bytes of payload.
    [[nodiscard]] static std::expected<Burst, ParseError> parse(
        std::span<const std::uint8_t, kBurstPayload> head, std::span<const std::uint8_t> whole,
        std::size_t most = kMaxBurstPayload);
    // Some packets of several as a burst of their own; its head is written to `head`.
    [[nodiscard]] std::expected<Burst, ParseError> part(std::uint32_t from, std::uint32_t count,
                                                        BurstHead& head) const;

    // The LRH of the first packet; those of the others differ in PktLen alone.
    [[nodiscard]] const Lrh& lrh() const { return lrh_; }
    [[nodiscard]] const BurstSize& size() const { return size_; }
    [[nodiscard]] std::uint32_t count() const { return size_.packets; }
    [[nodiscard]] bool is_single() const { return size_.packets == 1; }
    // As it came: to be copied on.
    [[nodiscard]] const PacketBytes& bytes() const { return bytes_; }

    // Checks what follows the LRH, unless that has been done: first() and last() are there then.
    [[nodiscard]] std::expected<void, ParseError> check() {
        return first_ ? std::expected<void, ParseError>()
                      : PacketView::parse_to(first_, bytes_, lrh_);
    }
    [[nodiscard]] const PacketView& first() const { return *first_; }
    [[nodiscard]] const PacketView& last() const { return last_ ? *last_ : *first_; }
    [[nodiscard]] Psn psn(std::uint32_t index) const { return first().bth().psn + index; }
    // The payloads of all packets, without pad; to be copied once.
    [[nodiscard]] std::span<const std::uint8_t> payload() const {
        return is_single() ? first().payload() : bytes_.part(kBurstPayload, payload_bytes());
    }
    [[nodiscard]] std::size_t payload_bytes() const {
        return std::size_t{size_.packets - 1} * size_.mtu + last().payload().size();
    }
    // One packet; its headers are written to `room`, which outlives it.
    [[nodiscard]] PacketBytes packet(std::uint32_t index, BurstHeaders& room) const;
    // All are MIDDLE packets that ask for nothing: no ACK, no event.
    [[nodiscard]] bool is_middle() const;

  private:
    Burst(const PacketBytes& bytes, const PacketView& first, const PacketView& last)
        : lrh_(first.lrh()), bytes_(bytes), first_(first), last_(last) {}

    Lrh lrh_;
    PacketBytes bytes_;
    std::optional<PacketView> first_;
    std::optional<PacketView> last_;  // a single packet has none
    BurstSize size_;
    std::size_t middle_headers_ = 0;
};

// Lays out bursts in their place, all but the payload.
class BurstBuilder {
  public:
    // Sizes of `packets` packets with these headers at both ends and `payload_bytes` without pad,
    // at most `most`; or why they form no burst.
    [[nodiscard]] static std::expected<BurstSize, BuildError> size(
        const PacketHeaders& first, const PacketHeaders& last, std::uint32_t packets,
        std::uint32_t mtu, std::size_t payload_bytes, std::size_t most = kMaxBurstPayload);
    // For several packets: writes what precedes the payload; `head` has at least kBurstPayload
    // bytes.
    static void headers(std::span<std::uint8_t> head, const BurstSize& size,
                        const PacketHeaders& first, const PacketHeaders& last,
                        std::size_t payload_bytes);
    // For several packets: writes everything but the payload to `body`, which has size.body()
    // bytes; where the payload goes.
    static std::span<std::uint8_t> begin(std::span<std::uint8_t> body, const BurstSize& size,
                                         const PacketHeaders& first, const PacketHeaders& last,
                                         std::size_t payload_bytes);
};

// Sets the VL of all packets of a burst in memory.
inline void set_burst_vl(std::span<std::uint8_t> body, std::uint32_t packets, std::uint8_t vl) {
    const auto set = [&](std::size_t at) {
        body[at] = static_cast<std::uint8_t>(vl << 4 | (body[at] & 0xF));
    };
    set(packets == 1 ? 0 : kBurstFirst);
    if (packets != 1) {
        set(kBurstLast);
    }
}

}  // namespace pib::ib
