// SPDX-License-Identifier: GPL-2.0-or-later
// A QP's turn to send: what it may cost, and how it ended.
#pragma once

#include <algorithm>
#include <cstdint>

#include "qp/qp.h"

namespace pib::hca {

// Work of a multicast's copy besides its payload, as bytes of payload: WQE, CQE and event.
inline constexpr uint64_t kCopyCost = 512;
// Work for each QP that a search through all QPs passes, as bytes of payload: its state is rarely
// in a cache.
inline constexpr uint64_t kLookCost = 256;

// Remaining work of a QP's turn: bytes bound the cost of payload, packets bound all other cost.
struct Budget {
    uint32_t packets;
    uint32_t bytes;
    // The VL that got the turn; packets on other VLs must not use it.
    uint8_t vl = kAnyVl;
    static constexpr uint8_t kAnyVl = 0xff;

    [[nodiscard]] bool spent() const { return packets == 0 || bytes == 0; }
    // Whether VL arbitration has granted the turn to one VL, for the bytes of its weight. Such a
    // turn sends no offers, which would exceed these bytes by far.
    [[nodiscard]] bool is_arbitrated() const { return vl != kAnyVl; }
    // Charges one packet, or one burst: a burst counts as one packet and `packets_sent` headers.
    void charge(uint32_t payload_bytes, uint32_t packets_sent = 1) {
        const uint32_t cost = payload_bytes + packets_sent * header_weight();
        packets -= packets != 0 ? 1 : 0;
        bytes -= cost < bytes ? cost : bytes;
    }
    // Charges `work_bytes` of work that sends no packet.
    void spend(uint64_t work_bytes) {
        bytes -= static_cast<uint32_t>(std::min<uint64_t>(work_bytes, bytes));
    }

    // Number of packets with a payload of `mtu` bytes that the budget permits; the last of them may
    // exceed it.
    uint32_t packets_of(uint32_t mtu) const { return packet_count(bytes, mtu + header_weight()); }
    // Bytes that an arbitrated turn is charged for a packet besides its payload: for its headers,
    // and for rounding up to 64 bytes, the unit of weights (IBA 7.6.9).
    uint32_t header_weight() const { return vl != kAnyVl ? 64 : 0; }
};

// How a turn ended.
enum class [[nodiscard]] Turn : uint8_t {
    kIdle,     // the QP has no work until an event
    kMore,     // the budget is spent
    kBlocked,  // the port has no room
};

}  // namespace pib::hca
