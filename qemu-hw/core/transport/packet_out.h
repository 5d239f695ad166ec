// SPDX-License-Identifier: GPL-2.0-or-later
// Addresses a QP's packet, and writes it to room in the port's send buffer.
#pragma once

#include <algorithm>
#include <optional>

#include "ib/wire/burst.h"
#include "port/port.h"
#include "qp/qp.h"

namespace pib::hca {

// Result of an attempt to send a packet.
enum class [[nodiscard]] Sent : uint8_t {
    kYes,
    kBlocked,    // the port has no room; nothing happened, and port_ready() follows
    kNoPayload,  // the payload could not be read from guest memory; nothing was sent
};

// Fills LRH and GRH for a packet along `av` (IBA 7.7, 8.3).
void address_packet(ib::PacketHeaders& headers, const AddressVector& av, const Port& port);

// LRH, GRH and the BTH fields that every packet of a connected QP has. `operation`: the BTH opcode
// without the bits of the transport.
ib::PacketHeaders connected_headers(const QueuePair& qp, const Port& port, uint8_t operation,
                                    ib::Psn psn);

// The TxRequest for a packet with these headers and `bytes` from LRH to padding.
inline TxRequest tx_request(const Outlet& to, const ib::PacketHeaders& headers, size_t bytes,
                            bool vl15 = false) {
    return {.dlid = headers.lrh.dlid.value(),
            .sl = headers.lrh.sl.value(),
            .vl15 = vl15,
            .bytes = static_cast<uint32_t>(bytes),
            .static_rate = to.static_rate,
            .qpn = to.qpn};
}

// Writes one packet to `room`, which Port::begin() has returned, and sends it. `fill` writes the
// payload into its place and returns whether it could; `observe` gets the packet before it is sent.
template <typename Fill, typename Observe>
Sent write_packet(Port& port, std::span<uint8_t> room, const ib::PacketHeaders& headers,
                  uint32_t payload_bytes, Fill&& fill, Observe&& observe) {
    auto builder = ib::PacketBuilder::begin(room, headers, payload_bytes, ib::Crcs::kElided);
    if (!builder || (payload_bytes != 0 && !fill(builder->payload()))) {
        return Sent::kNoPayload;
    }
    const std::span<const uint8_t> packet = builder->finish();
    observe(packet);
    port.commit(ib::BurstSize::of(packet.size()));
    return Sent::kYes;
}

// Sends one packet; `fill` and `observe` as in write_packet().
template <typename Fill, typename Observe>
Sent send_packet(const Outlet& to, const ib::PacketHeaders& headers, uint32_t payload_bytes,
                 Fill&& fill, Observe&& observe, bool vl15 = false) {
    const auto size = ib::packet_size(headers, payload_bytes, ib::Crcs::kElided);
    if (!size) {
        return Sent::kNoPayload;
    }
    const link::BurstRoom room = to.port.begin(tx_request(to, headers, *size, vl15));
    return room.packets == 0
               ? Sent::kBlocked
               : write_packet(to.port, room.bytes(), headers, payload_bytes, fill, observe);
}

template <typename Fill>
Sent send_packet(const Outlet& to, const ib::PacketHeaders& headers, uint32_t payload_bytes,
                 Fill&& fill) {
    return send_packet(to, headers, payload_bytes, fill, [](auto) {});
}

// Packets of one message that are to be sent.
struct BurstOut {
    ib::PacketHeaders first{};
    uint32_t packets = 1;        // maximum number of packets to send
    uint32_t mtu = 0;            // payload of all packets but the last, in bytes
    uint32_t payload_bytes = 0;  // payload of all packets together

    // Bytes of the longest packet, from LRH to padding; 0: the headers or the payload are invalid.
    // LAST is longer than the first packet by an ImmDt, IETH or AETH at most: 4 bytes.
    uint32_t longest() const {
        const uint32_t payload = packets > 1 ? mtu : payload_bytes;
        const auto size = ib::packet_size(first, payload, ib::Crcs::kElided);
        const size_t more = packets > 1 ? ib::ImmDt::kSize : 0;
        return size ? static_cast<uint32_t>(*size + more) : 0;
    }
    uint32_t payload_of(uint32_t count) const {
        return static_cast<uint32_t>(std::min<uint64_t>(uint64_t{count} * mtu, payload_bytes));
    }
};

// Sends as many of the packets as the port takes now; `sent`: how many. last(n) returns the headers
// of the n-th packet, n > 1. `fill` writes the payload of all packets that are sent.
template <typename Last, typename Fill>
Sent send_burst(const Outlet& to, const BurstOut& out, Last&& last, Fill&& fill, uint32_t& sent) {
    const uint32_t longest = out.longest();
    if (longest == 0) {
        return Sent::kNoPayload;
    }
    TxRequest request = tx_request(to, out.first, longest);
    request.packets = out.packets;
    request.mtu = out.mtu;
    const link::BurstRoom room = to.port.begin(request);
    sent = room.packets;
    if (sent == 0) {
        return Sent::kBlocked;
    }
    const uint32_t bytes = out.payload_of(sent);
    if (sent == 1) {
        return write_packet(to.port, room.bytes(), out.first, bytes, fill, [](auto) {});
    }
    const ib::PacketHeaders end = last(sent);
    const auto size = ib::BurstBuilder::size(out.first, end, sent, out.mtu, bytes);
    if (size && fill(ib::BurstBuilder::begin(room.bytes().first(size->body()), *size, out.first,
                                             end, bytes))) {
        to.port.commit(*size);
        return Sent::kYes;
    }
    // A page of a later packet may be absent: try the first packet alone.
    const BurstOut one{.first = out.first, .mtu = out.mtu, .payload_bytes = out.payload_of(1)};
    return send_burst(to, one, last, fill, sent);
}

// Sends a packet without payload.
inline Sent send_packet(const Outlet& to, const ib::PacketHeaders& headers) {
    return send_packet(to, headers, 0, [](auto) { return true; });
}

}  // namespace pib::hca
