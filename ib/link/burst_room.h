// SPDX-License-Identifier: GPL-2.0-or-later
// Asking a link for room: once for as many packets of a message as may go now, in one form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ib/wire/burst.h"
#include "ib/wire/link_frame.h"

namespace pib::link {

// Which checksums a packet is sent with.
enum class SendCrc : std::uint8_t {
    kElided,    // none: LRH to padding goes on the wire as it is
    kComputed,  // both are computed when the packet is committed
    kGiven,     // the caller wrote both (or damaged ones: fault injection)
};

// Packets of one message, or a single packet, that are to be sent.
struct BurstRequest {
    unsigned vl = 0;          // as in LRH:VL
    std::size_t longest = 0;  // bytes of the longest packet, LRH to padding; kGiven: and checksums
    std::uint32_t packets = 1;       // at most
    std::uint32_t mtu = 0;           // of several: payload of each but the last
    SendCrc crc = SendCrc::kElided;  // of a single packet
    bool is_offer = false;           // the payload stays where it is
};
// Room for so many of them; for none, if there is no credit or no room. Small enough to be returned
// in registers.
class BurstRoom {
  public:
    BurstRoom() = default;
    BurstRoom(std::span<std::uint8_t> bytes, std::uint32_t count)
        : packets(count), size_(static_cast<std::uint32_t>(bytes.size())), data_(bytes.data()) {}

    // For one packet `longest` bytes; for several what ib::BurstBuilder lays out, at most; for an
    // offer its first ib::kBurstPayload bytes.
    [[nodiscard]] std::span<std::uint8_t> bytes() const { return {data_, size_}; }

    std::uint32_t packets = 0;

  private:
    std::uint32_t size_ = 0;
    std::uint8_t* data_ = nullptr;
};
// Where the payload of an offer is: a switch says that by the handle alone.
struct OfferedPayload {
    std::uint64_t handle = 0;
    std::span<const ib::link::RamPiece> pieces{};
};

}  // namespace pib::link
