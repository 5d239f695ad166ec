// SPDX-License-Identifier: GPL-2.0-or-later
// Bursts of several packets: parses both end packets and compares them.
#include "ib/wire/burst.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "ib/wire/field.h"

namespace pib::ib {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr size_t kPktLen = 4;  // offset in the LRH
constexpr size_t kPayLen = 4;  // offset in the GRH
constexpr uint8_t kPktLenReserved = 0xF8;
// Bits of the second and the ninth byte of the BTH (IBA 9.2).
constexpr uint8_t kSolicited = 0x80;
constexpr uint8_t kPadCount = 0x30;
constexpr uint8_t kAckReq = 0x80;
// RETH or AETH, and all headers that may precede it.
static_assert(kBurstHeadersSize >=
              Lrh::kSize + Grh::kSize + Bth::kSize + Xrceth::kSize + Reth::kSize);

size_t bth_offset(const PacketView& packet) {
    return Lrh::kSize + (packet.grh() ? Grh::kSize : 0);
}

bool same(Bytes a, Bytes b, size_t from, size_t to) {
    return std::equal(a.begin() + static_cast<ptrdiff_t>(from),
                      a.begin() + static_cast<ptrdiff_t>(to),
                      b.begin() + static_cast<ptrdiff_t>(from));
}

// Whether `last` can follow `first` at `distance` packets in one burst: fields that are constant in
// a message are equal, and only the last packet may request an ACK or an event.
bool follows(const PacketView& first, const PacketView& last, uint32_t distance, bool xrc) {
    const Bytes a = first.bytes().head();
    const Bytes b = last.bytes().head();
    const size_t bth = bth_offset(first);
    const bool lrh = same(a, b, 0, kPktLen) && ((a[kPktLen] ^ b[kPktLen]) & kPktLenReserved) == 0 &&
                     same(a, b, kPktLen + 2, Lrh::kSize);
    const size_t grh = Lrh::kSize;
    const bool global = !first.grh() || (same(a, b, grh, grh + kPayLen) &&
                                         same(a, b, grh + kPayLen + 2, grh + Grh::kSize));
    if (!lrh || !global || bth_offset(last) != bth) {
        return false;
    }
    const auto differ = [&](size_t at) { return a[bth + at] ^ b[bth + at]; };
    return !first.bth().solicited_event && !first.bth().ack_req &&
           (differ(1) & ~(kSolicited | kPadCount)) == 0 && same(a, b, bth + 2, bth + 8) &&
           (differ(8) & ~kAckReq) == 0 && first.bth().psn + distance == last.bth().psn &&
           (!xrc || same(a, b, bth + Bth::kSize, bth + Bth::kSize + Xrceth::kSize));
}

}  // namespace

const OpcodeInfo* burst_middle(const OpcodeInfo& first) {
    const bool connected = first.service == Service::kRc || first.service == Service::kUc ||
                           first.service == Service::kXrc;
    if (!connected || first.payload != PayloadRule::kFullMtu) {
        return nullptr;
    }
    if (first.position == Position::kMiddle) {
        return &first;
    }
    // IBA table 38: MIDDLE follows FIRST.
    const OpcodeInfo* next = find_opcode(static_cast<uint8_t>(first.opcode + 1));
    const bool middle = next != nullptr && next->kind == first.kind &&
                        next->position == Position::kMiddle && next->service == first.service;
    return middle ? next : nullptr;
}

namespace {

// Parses the first or last packet of a burst: its headers are at `at` in `head`, its payload and
// pad are the `payload` bytes at `offset` in `whole`.
std::expected<PacketView, ParseError> parse_end(Bytes head, Bytes whole, size_t at, size_t offset,
                                                size_t payload) {
    const Lrh lrh = Lrh::parse(head.subspan(at).first<Lrh::kSize>());
    const size_t counted = size_t{lrh.pkt_len} * 4;
    if (counted < payload + kIcrcSize || counted - payload - kIcrcSize > kBurstHeadersSize) {
        return std::unexpected(ParseError::kPacketLength);
    }
    const size_t headers = counted - payload - kIcrcSize;
    if (headers < Lrh::kSize + Bth::kSize) {
        return std::unexpected(ParseError::kTruncated);
    }
    const PacketBytes bytes(head.subspan(at, headers),
                            whole.subspan(offset - headers, headers + payload));
    const auto view = PacketView::parse(bytes, Crcs::kElided);
    if (view && view->payload().size() + view->bth().pad_count != payload) {
        return std::unexpected(ParseError::kPayload);
    }
    return view;
}

}  // namespace

std::expected<Burst, ParseError> Burst::parse(std::span<const uint8_t, kBurstPayload> head,
                                              Bytes whole, size_t most) {
    BurstSize size{.packets = load_be<uint16_t>(&head[0]), .mtu = load_be<uint16_t>(&head[2])};
    const bool shape = size.packets >= 2 && size.packets <= kMaxBurstPackets &&
                       std::has_single_bit(size.mtu) && size.mtu >= kMinBurstMtu &&
                       size.mtu <= kMaxPayload && load_be<uint32_t>(&head[4]) == 0;
    const size_t before_last = size_t{size.packets - 1} * size.mtu;
    if (!shape || whole.size() <= kBurstPayload + before_last ||
        whole.size() > kBurstPayload + before_last + size.mtu ||
        whole.size() > kBurstPayload + most) {
        return std::unexpected(ParseError::kPacketLength);
    }
    size.payload = whole.size() - kBurstPayload;
    const auto first = parse_end(head, whole, kBurstFirst, kBurstPayload, size.mtu);
    if (!first) {
        return std::unexpected(first.error());
    }
    const size_t rest = size.payload - before_last;
    const auto last = parse_end(head, whole, kBurstLast, kBurstPayload + before_last, rest);
    if (!last) {
        return std::unexpected(last.error());
    }
    const OpcodeInfo* middle = burst_middle(first->opcode());
    const OpcodeInfo& end = last->opcode();
    if (middle == nullptr || end.kind != middle->kind || end.service != middle->service ||
        !(end.position == Position::kLast ||
          (end.position == Position::kMiddle && rest == size.mtu)) ||
        !follows(*first, *last, size.packets - 1, middle->has(Ext::kXrceth))) {
        return std::unexpected(ParseError::kReservedOpcode);
    }
    if (first->payload().size() != size.mtu ||
        !end.admits_payload(last->payload().size(), size.mtu)) {
        return std::unexpected(ParseError::kPayload);
    }
    Burst burst(PacketBytes(head, whole), *first, *last);
    burst.middle_headers_ = bth_offset(*first) + middle->header_bytes;
    size.first = first->bytes().size();
    size.middle = burst.middle_headers_ + size.mtu;
    size.last = last->bytes().size();
    burst.size_ = size;
    return burst;
}

PacketBytes Burst::packet(uint32_t index, BurstHeaders& room) const {
    if (is_single()) {
        return bytes_;
    }
    if (index == 0) {
        return first_->bytes();
    }
    if (index + 1 == size_.packets) {
        return last_->bytes();
    }
    std::ranges::copy(first_->bytes().head().first(middle_headers_), room.begin());
    const size_t bth = bth_offset(*first_);
    const auto counted = static_cast<uint16_t>(size_.middle + kIcrcSize);
    const auto reserved = static_cast<uint8_t>(room[kPktLen] & kPktLenReserved);
    store_be(&room[kPktLen], static_cast<uint16_t>(counted / 4));
    room[kPktLen] = static_cast<uint8_t>(room[kPktLen] | reserved);
    if (first_->grh()) {
        store_be(&room[Lrh::kSize + kPayLen], static_cast<uint16_t>(counted - bth));
    }
    room[bth] = burst_middle(first_->opcode())->opcode;
    store_be24(&room[bth + 9], psn(index).value());
    const size_t payload = kBurstPayload + size_t{index} * size_.mtu;
    return {std::span(room).first(middle_headers_),
            bytes_.part(payload - middle_headers_, middle_headers_ + size_.mtu)};
}

// Copies the headers of both end packets as packet() builds them, up to the payload.
std::expected<Burst, ParseError> Burst::part(uint32_t from, uint32_t count, BurstHead& head) const {
    BurstHeaders room;
    if (count == 1) {
        const PacketBytes single = packet(from, room);
        std::ranges::copy(single.head(), head.begin());
        const PacketBytes bytes(Bytes(head).first(single.head().size()), single.whole());
        const auto lrh = parse_lrh(bytes, Crcs::kElided);
        if (!lrh) {
            return std::unexpected(lrh.error());
        }
        return Burst(bytes);
    }
    head.fill(0);
    store_be(&head[0], static_cast<uint16_t>(count));
    store_be(&head[2], static_cast<uint16_t>(size_.mtu));
    for (const auto& [index, at] :
         {std::pair(from, kBurstFirst), std::pair(from + count - 1, kBurstLast)}) {
        std::ranges::copy(packet(index, room).head(), &head[at]);
    }
    const size_t payload =
        std::min(size_t{count} * size_.mtu, size_.payload - size_t{from} * size_.mtu);
    return parse(head, bytes_.part(size_t{from} * size_.mtu, kBurstPayload + payload));
}

bool Burst::is_middle() const {
    return first_->opcode().position == Position::kMiddle &&
           last().opcode().position == Position::kMiddle && !last().bth().ack_req &&
           !last().bth().solicited_event;
}

std::expected<BurstSize, BuildError> BurstBuilder::size(const PacketHeaders& first,
                                                        const PacketHeaders& last, uint32_t packets,
                                                        uint32_t mtu, size_t payload_bytes,
                                                        size_t most) {
    if (packets == 1) {
        const auto bytes = packet_size(first, payload_bytes, Crcs::kElided);
        if (!bytes) {
            return std::unexpected(bytes.error());
        }
        return BurstSize::of(*bytes);
    }
    const OpcodeInfo* info = find_opcode(first.bth.opcode);
    const OpcodeInfo* middle = info != nullptr ? burst_middle(*info) : nullptr;
    if (middle == nullptr) {
        return std::unexpected(BuildError::kReservedOpcode);
    }
    const size_t before_last = size_t{packets - 1} * mtu;
    if (packets < 2 || payload_bytes <= before_last || payload_bytes > before_last + mtu ||
        payload_bytes > most) {
        return std::unexpected(BuildError::kPayload);
    }
    const auto first_size = packet_size(first, mtu, Crcs::kElided);
    const auto last_size = packet_size(last, payload_bytes - before_last, Crcs::kElided);
    if (!first_size || !last_size) {
        return std::unexpected(first_size ? last_size.error() : first_size.error());
    }
    const size_t route = Lrh::kSize + (first.grh ? Grh::kSize : 0);
    return BurstSize{.packets = packets,
                     .mtu = mtu,
                     .first = *first_size,
                     .middle = route + middle->header_bytes + mtu,
                     .last = *last_size,
                     .payload = (payload_bytes + 3) / 4 * 4};
}

namespace {

void write_headers(std::span<uint8_t> to, const PacketHeaders& headers, size_t payload) {
    // begin() writes only headers and the pad to this array.
    std::array<uint8_t, kMaxPacket> packet;
    const auto builder = PacketBuilder::begin(packet, headers, payload, Crcs::kElided);
    const auto bytes = builder->payload().data() - packet.data();
    std::copy_n(packet.begin(), bytes, to.begin());
}

}  // namespace

void BurstBuilder::headers(std::span<uint8_t> head, const BurstSize& size,
                           const PacketHeaders& first, const PacketHeaders& last,
                           size_t payload_bytes) {
    std::ranges::fill(head.first(kBurstPayload), uint8_t{0});
    store_be(&head[0], static_cast<uint16_t>(size.packets));
    store_be(&head[2], static_cast<uint16_t>(size.mtu));
    write_headers(head.subspan(kBurstFirst), first, size.mtu);
    write_headers(head.subspan(kBurstLast), last,
                  payload_bytes - size_t{size.packets - 1} * size.mtu);
}

std::span<uint8_t> BurstBuilder::begin(std::span<uint8_t> body, const BurstSize& size,
                                       const PacketHeaders& first, const PacketHeaders& last,
                                       size_t payload_bytes) {
    headers(body, size, first, last, payload_bytes);
    std::ranges::fill(body.subspan(kBurstPayload + payload_bytes), uint8_t{0});
    return body.subspan(kBurstPayload, payload_bytes);
}

}  // namespace pib::ib
