// SPDX-License-Identifier: GPL-2.0-or-later
// An RDMA WRITE of many packets, sent over a link as one burst or packet by packet.
#pragma once

#include "link_pair.h"

namespace pib::test {

inline constexpr uint32_t kMtu = 1024;
inline constexpr uint32_t kLastPayload = 5;

struct Way {
    uint8_t vl = 0;
    uint8_t sl = 0;
    uint16_t dlid = 5;
    uint16_t slid = 1;
    uint16_t pkey = 0xFFFF;
};

inline ib::PacketHeaders headers_of(uint8_t opcode, uint32_t psn, const Way& way) {
    ib::PacketHeaders headers{};
    headers.lrh = {.vl = ib::Vl(way.vl),
                   .sl = ib::Sl(way.sl),
                   .dlid = ib::Lid(way.dlid),
                   .slid = ib::Lid(way.slid)};
    headers.bth = {
        .opcode = opcode, .pkey = ib::PKey(way.pkey), .dest_qp = ib::Qpn(9), .psn = ib::Psn(psn)};
    return headers;
}

// Sends an RDMA WRITE of `packets` packets as one burst; false if the link has no room or credit.
// Each payload byte is the number of its packet, modulo 256.
inline bool send_burst(link::LinkEndpoint& from, uint32_t packets, const Way& way = {}) {
    const auto first = headers_of(ib::opcode::kRdmaWriteFirst, 0, way);
    const auto last = headers_of(ib::opcode::kRdmaWriteLast, packets - 1, way);
    const size_t payload = size_t{packets - 1} * kMtu + kLastPayload;
    const auto size = ib::BurstBuilder::size(first, last, packets, kMtu, payload).value();
    const auto room =
        from.begin({.vl = way.vl, .longest = size.longest(), .packets = packets, .mtu = kMtu});
    if (room.packets < packets) {
        return false;
    }
    const auto place =
        ib::BurstBuilder::begin(room.bytes().first(size.body()), size, first, last, payload);
    for (size_t i = 0; i < place.size(); ++i) {
        place[i] = static_cast<uint8_t>(i / kMtu);
    }
    from.commit(size);
    return true;
}

// Sends `packets` RDMA WRITE MIDDLE packets as one offer; false if the link has no room or credit.
inline bool send_offer(link::LinkEndpoint& from, uint64_t handle,
                       std::span<const link::BlockSegment> segments, uint32_t packets,
                       const Way& way = {}) {
    const auto first = headers_of(ib::opcode::kRdmaWriteMiddle, 7, way);
    const auto last = headers_of(ib::opcode::kRdmaWriteMiddle, 6 + packets, way);
    const size_t bytes = size_t{packets} * kMtu;
    const auto size =
        ib::BurstBuilder::size(first, last, packets, kMtu, bytes, link::kMaxOfferBytes);
    const auto room = from.begin({.vl = way.vl,
                                  .longest = size.value().longest(),
                                  .packets = packets,
                                  .mtu = kMtu,
                                  .is_offer = true});
    if (room.packets < packets) {
        return false;
    }
    ib::BurstBuilder::headers(room.bytes(), *size, first, last, bytes);
    from.commit(*size, {.handle = handle, .segments = segments});
    return true;
}

// The packets of the message that send_burst() sends.
inline std::vector<Bytes> single_packets(uint32_t packets, const Way& way = {}) {
    std::vector<Bytes> all;
    for (uint32_t i = 0; i < packets; ++i) {
        const bool last = i + 1 == packets;
        const auto opcode = i == 0 ? ib::opcode::kRdmaWriteFirst
                            : last ? ib::opcode::kRdmaWriteLast
                                   : ib::opcode::kRdmaWriteMiddle;
        Bytes packet(ib::kMaxPacket);
        auto builder = ib::PacketBuilder::begin(packet, headers_of(opcode, i, way),
                                                last ? kLastPayload : kMtu, ib::Crcs::kElided)
                           .value();
        std::ranges::fill(builder.payload(), static_cast<uint8_t>(i));
        packet.resize(builder.finish().size());
        all.push_back(packet);
    }
    return all;
}

inline bool send_singly(link::LinkEndpoint& from, uint32_t packets, const Way& way = {}) {
    const auto all = single_packets(packets, way);
    return std::ranges::all_of(all, [&](const Bytes& packet) { return send(from, packet); });
}

}  // namespace pib::test
