// SPDX-License-Identifier: GPL-2.0-or-later
// Request for room on a link: one request covers all packets of a message that may be sent now.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ib/wire/burst.h"
#include "ib/wire/link_frame.h"

namespace pib::link {

// The checksums that a packet is sent with.
enum class SendCrc : uint8_t {
    kElided,    // none: the link sends LRH to padding only
    kComputed,  // commit() computes both
    kGiven,     // the caller wrote both; fault injection writes wrong ones
};

// The packets to send: several of one message, or a single one.
struct BurstRequest {
    unsigned vl = 0;       // LRH:VL
    size_t longest = 0;    // longest packet, LRH to padding, in bytes; kGiven: plus checksums
    uint32_t packets = 1;  // upper bound
    uint32_t mtu = 0;      // several packets: payload of each but the last, in bytes
    SendCrc crc = SendCrc::kElided;  // single packet: its checksums
    bool is_offer = false;           // the payload stays in this side's memory
};
// Room for `packets` packets; 0: the link is down, or credits or space are lacking. The order of
// the members lets functions return the object in registers.
class BurstRoom {
  public:
    BurstRoom() = default;
    BurstRoom(std::span<uint8_t> bytes, uint32_t count)
        : packets(count), size_(static_cast<uint32_t>(bytes.size())), data_(bytes.data()) {}

    // The bytes that the caller writes. One packet: `longest` bytes. Several packets: as many as
    // ib::BurstBuilder needs at most. An offer: ib::kBurstPayload bytes, for its headers.
    [[nodiscard]] std::span<uint8_t> bytes() const { return {data_, size_}; }

    uint32_t packets = 0;

  private:
    uint32_t size_ = 0;
    uint8_t* data_ = nullptr;
};
// The memory that holds the payload of an offer. A switch gives only the handle, an adapter the
// segments as well.
struct OfferedPayload {
    uint64_t handle = 0;
    std::span<const link::BlockSegment> segments{};
};

}  // namespace pib::link
