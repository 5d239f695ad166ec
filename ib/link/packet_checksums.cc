// SPDX-License-Identifier: GPL-2.0-or-later
#include "ib/link/packet_checksums.h"

#include <cstring>

#include "ib/link/link_limits.h"
#include "ib/wire/crc.h"

namespace pib::link {
namespace {

// LRH and BTH: the shortest IBA packet.
constexpr size_t kMinPacket = ib::Lrh::kSize + ib::Bth::kSize;

// Whether the four bytes at `stored` are the ICRC of `packet` (LRH to padding).
bool icrc_is_good(std::span<const uint8_t> packet, const uint8_t* stored) {
    const uint32_t crc = ib::icrc(packet);
    const uint8_t wire[] = {static_cast<uint8_t>(crc), static_cast<uint8_t>(crc >> 8),
                            static_cast<uint8_t>(crc >> 16), static_cast<uint8_t>(crc >> 24)};
    return std::memcmp(wire, stored, sizeof(wire)) == 0;
}

}  // namespace

void append_crcs(std::span<uint8_t> packet_and_room) {
    const auto packet = packet_and_room.first(packet_and_room.size() - kCrcBytes);
    uint8_t* out = packet_and_room.data() + packet.size();
    const uint32_t icrc = ib::icrc(packet);
    for (unsigned i = 0; i < ib::kIcrcSize; ++i) {
        out[i] = static_cast<uint8_t>(icrc >> (8 * i));
    }
    const uint16_t vcrc = ib::vcrc(packet_and_room.first(packet.size() + ib::kIcrcSize));
    out[4] = static_cast<uint8_t>(vcrc);
    out[5] = static_cast<uint8_t>(vcrc >> 8);
}

std::expected<ib::Burst, PacketFault> check_packet(std::span<const uint8_t> head,
                                                   std::span<const uint8_t> whole, ib::Crcs crcs,
                                                   uint8_t mtu_cap) {
    const size_t crc_bytes = ib::crc_bytes(crcs, false);
    if (whole.size() < kMinPacket + crc_bytes) {
        return std::unexpected(PacketFault::kMalformed);
    }
    const ib::Lrh lrh = ib::Lrh::parse(head.first<ib::Lrh::kSize>());
    // Raw packets have no ICRC; this protocol does not carry them.
    if (ib::lrh_error(lrh, whole.size(), crcs) || ib::is_raw(lrh.lnh)) {
        return std::unexpected(PacketFault::kMalformed);
    }
    if (lrh.pkt_len * 4U > max_packet_bytes(mtu_cap)) {
        return std::unexpected(PacketFault::kTooLong);
    }
    if (crcs == ib::Crcs::kElided) {
        return std::expected<ib::Burst, PacketFault>(std::in_place, ib::PacketBytes(head, whole));
    }
    if (!ib::vcrc_is_good(head)) {
        return std::unexpected(PacketFault::kVcrc);
    }
    const auto packet = head.first(head.size() - crc_bytes);
    if (!icrc_is_good(packet, packet.data() + packet.size())) {
        return std::unexpected(PacketFault::kIcrc);
    }
    return std::expected<ib::Burst, PacketFault>(std::in_place, packet);
}

}  // namespace pib::link
