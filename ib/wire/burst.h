// SPDX-License-Identifier: GPL-2.0-or-later
// A burst: consecutive packets of one message as one value (docs/fabric-protocol.md, BURST). A
// burst of several packets has the headers of the first and the last packet and the payloads of
// all; packet() computes the headers of the packets in between from those of the first. A single
// packet is a burst of one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>

#include "ib/wire/packet.h"

namespace pib::ib {

inline constexpr size_t kMaxBurstPayload = 64 * 1024;
inline constexpr uint32_t kMinBurstMtu = 256;
inline constexpr uint32_t kMaxBurstPackets = kMaxBurstPayload / kMinBurstMtu;

// Layout of a burst of several packets, big-endian: number of packets (2 bytes), MTU (2), zero (4),
// the headers of the first and of the last packet, all payloads, and the last packet's pad.
inline constexpr size_t kBurstHeadersSize = 88;
inline constexpr size_t kBurstFirst = 8;
inline constexpr size_t kBurstLast = kBurstFirst + kBurstHeadersSize;
inline constexpr size_t kBurstPayload = kBurstLast + kBurstHeadersSize;
using BurstHeaders = std::array<uint8_t, kBurstHeadersSize>;
using BurstHead = std::array<uint8_t, kBurstPayload>;

// Sizes in bytes of a burst's packets, LRH to padding, and of their payloads.
struct BurstSize {
    uint32_t packets = 0;  // 1..kMaxBurstPackets
    uint32_t mtu = 0;      // payload of each packet but the last; 0 for a single packet
    size_t first = 0;
    size_t middle = 0;  // every packet between first and last
    size_t last = 0;
    size_t payload = 0;  // all payloads and the last packet's pad; 0 for a single packet

    // The size of a single packet.
    [[nodiscard]] static BurstSize of(size_t bytes) {
        return {.packets = 1, .first = bytes, .last = bytes};
    }
    [[nodiscard]] size_t packet(uint32_t index) const {
        return index == 0 ? first : index + 1 == packets ? last : middle;
    }
    // The longest packet.
    [[nodiscard]] size_t longest() const { return first > last ? first : last; }
    // Calls `of` with the size of each of `count` packets from packet `from` on, and returns the
    // sum of the results.
    template <typename Of>
    [[nodiscard]] auto sum(uint32_t from, uint32_t count, Of&& of) const {
        if (packets == 1 && count == 1) [[likely]] {
            return of(first);
        }
        const uint32_t firsts = from == 0 && count != 0 ? 1 : 0;
        const uint32_t lasts = count > firsts && from + count == packets ? 1 : 0;
        return firsts * of(first) + (count - firsts - lasts) * of(middle) + lasts * of(last);
    }
    [[nodiscard]] size_t bytes(uint32_t from, uint32_t count) const {
        return sum(from, count, [](size_t bytes) { return bytes; });
    }
    // Sum of LRH:PktLen, in 4-byte words, of `count` packets from packet `from` on. PktLen counts
    // the ICRC.
    [[nodiscard]] uint64_t words(uint32_t from, uint32_t count) const {
        return (bytes(from, count) + count * kIcrcSize) / 4;
    }
    [[nodiscard]] size_t bytes() const { return bytes(0, packets); }
    [[nodiscard]] uint64_t words() const { return words(0, packets); }
    // Bytes of a burst of several packets in the layout above.
    [[nodiscard]] size_t body() const { return kBurstPayload + payload; }
};

// The MIDDLE opcode of a burst that starts with this opcode; nullptr: no burst of several packets
// starts with it.
[[nodiscard]] const OpcodeInfo* burst_middle(const OpcodeInfo& first);

class Burst {
  public:
    // One packet whose LRH lrh_error() or parse_lrh() has checked.
    explicit Burst(const PacketBytes& packet)
        : lrh_(Lrh::parse(packet.head().first<Lrh::kSize>())),
          bytes_(packet),
          size_(BurstSize::of(packet.size())) {}
    // One packet that has been checked completely.
    explicit Burst(const PacketView& packet) : Burst(packet.bytes()) { first_ = packet; }
    // Several packets. Checks each end as PacketView::parse() checks a packet, and that they form a
    // burst: LRH, GRH, BTH and XRCETH are equal except for fields that differ within a message.
    // `head` is a copy of the first kBurstPayload bytes of `whole`, which the sender may still
    // change. Both outlive the burst. `most` limits the payload in bytes.
    [[nodiscard]] static std::expected<Burst, ParseError> parse(
        std::span<const uint8_t, kBurstPayload> head, std::span<const uint8_t> whole,
        size_t most = kMaxBurstPayload);
    // `count` packets of a burst of several, from packet `from` on, as a burst of their own. Writes
    // its headers to `head`, which must outlive it.
    [[nodiscard]] std::expected<Burst, ParseError> part(uint32_t from, uint32_t count,
                                                        BurstHead& head) const;

    // The LRH of the first packet; in the others only PktLen differs.
    [[nodiscard]] const Lrh& lrh() const { return lrh_; }
    [[nodiscard]] const BurstSize& size() const { return size_; }
    [[nodiscard]] uint32_t count() const { return size_.packets; }
    [[nodiscard]] bool is_single() const { return size_.packets == 1; }
    // The received bytes. The payload in them must be read only once, by a copy.
    [[nodiscard]] const PacketBytes& bytes() const { return bytes_; }

    // Checks the headers after the LRH if that has not been done; then first() and last() are
    // valid.
    [[nodiscard]] std::expected<void, ParseError> check() {
        return first_ ? std::expected<void, ParseError>()
                      : PacketView::parse_to(first_, bytes_, lrh_);
    }
    [[nodiscard]] const PacketView& first() const { return *first_; }
    [[nodiscard]] const PacketView& last() const { return last_ ? *last_ : *first_; }
    [[nodiscard]] Psn psn(uint32_t index) const { return first().bth().psn + index; }
    // The payloads of all packets, without pad. Copy them only once: the sender may change them.
    [[nodiscard]] std::span<const uint8_t> payload() const {
        return is_single() ? first().payload() : bytes_.part(kBurstPayload, payload_bytes());
    }
    [[nodiscard]] size_t payload_bytes() const {
        return size_t{size_.packets - 1} * size_.mtu + last().payload().size();
    }
    // Packet `index`. The headers of a packet between first and last are written to `room`, which
    // must outlive the result.
    [[nodiscard]] PacketBytes packet(uint32_t index, BurstHeaders& room) const;
    // Whether all packets are MIDDLE packets that request neither an ACK nor an event.
    [[nodiscard]] bool is_middle() const;

  private:
    Burst(const PacketBytes& bytes, const PacketView& first, const PacketView& last)
        : lrh_(first.lrh()), bytes_(bytes), first_(first), last_(last) {}

    Lrh lrh_;
    PacketBytes bytes_;
    std::optional<PacketView> first_;
    std::optional<PacketView> last_;  // a single packet has none
    BurstSize size_;
    size_t middle_headers_ = 0;
};

// Lays out bursts in their final place, without the payload.
class BurstBuilder {
  public:
    // The size of a burst of `packets` packets with these headers of the first and the last packet
    // and `payload_bytes` bytes of payload without pad; an error if they form no burst. `most`
    // limits the payload of several packets.
    [[nodiscard]] static std::expected<BurstSize, BuildError> size(const PacketHeaders& first,
                                                                   const PacketHeaders& last,
                                                                   uint32_t packets, uint32_t mtu,
                                                                   size_t payload_bytes,
                                                                   size_t most = kMaxBurstPayload);
    // For several packets: writes the part before the payload; `head` has at least kBurstPayload
    // bytes.
    static void headers(std::span<uint8_t> head, const BurstSize& size, const PacketHeaders& first,
                        const PacketHeaders& last, size_t payload_bytes);
    // For several packets: writes everything except the payload to `body`, which has size.body()
    // bytes. Returns the place of the payload.
    static std::span<uint8_t> begin(std::span<uint8_t> body, const BurstSize& size,
                                    const PacketHeaders& first, const PacketHeaders& last,
                                    size_t payload_bytes);
};

// Sets LRH:VL of all packets of the burst in `body`.
inline void set_burst_vl(std::span<uint8_t> body, uint32_t packets, uint8_t vl) {
    const auto set = [&](size_t at) {
        body[at] = static_cast<uint8_t>(vl << 4 | (body[at] & 0xF));
    };
    set(packets == 1 ? 0 : kBurstFirst);
    if (packets != 1) {
        set(kBurstLast);
    }
}

}  // namespace pib::ib
