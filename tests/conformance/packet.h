// SPDX-License-Identifier: GPL-2.0-or-later
// Packets as the conformance peer writes and reads them: by the figures of IBA chapters 7 to 9, and
// without the code of ib/, so that the checks can find errors in that code.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "checksum.h"

namespace pib::conformance {

using Bytes = std::vector<uint8_t>;
using Gid = std::array<uint8_t, 16>;

// Opcodes of a reliable connection (IBA table 38); a datagram's and an unreliable connection's have
// another service in the top three bits.
enum Opcode : uint8_t {
    kSendFirst = 0x00,
    kSendMiddle = 0x01,
    kSendLast = 0x02,
    kSendLastImm = 0x03,
    kSendOnly = 0x04,
    kSendOnlyImm = 0x05,
    kWriteFirst = 0x06,
    kWriteMiddle = 0x07,
    kWriteLast = 0x08,
    kWriteLastImm = 0x09,
    kWriteOnly = 0x0a,
    kWriteOnlyImm = 0x0b,
    kReadRequest = 0x0c,
    kReadFirst = 0x0d,
    kReadMiddle = 0x0e,
    kReadLast = 0x0f,
    kReadOnly = 0x10,
    kAcknowledge = 0x11,
    kAtomicAck = 0x12,
    kCmpSwap = 0x13,
    kFetchAdd = 0x14,
    kSendLastInv = 0x16,
    kSendOnlyInv = 0x17,
    kFlush = 0x1c,
    kAtomicWrite = 0x1d,
    kUc = 0x20,
    kRd = 0x40,
    kUd = 0x60,
    kCnp = 0x80,
    kXrc = 0xa0,
};
constexpr uint8_t kServiceMask = 0xe0;

struct Grh {
    uint8_t version = 6;
    uint8_t traffic_class = 0;
    uint32_t flow_label = 0;
    std::optional<uint16_t> payload_length = {};  // absent: the right one
    uint8_t next_header = 0x1b;
    uint8_t hop_limit = 64;
    Gid sgid = {};
    Gid dgid = {};
};

// The fields of a packet. The opcode decides which headers follow BTH; fields of others have no
// effect.
struct Packet {
    // LRH
    uint8_t vl = 0;
    uint8_t link_version = 0;
    uint8_t sl = 0;
    std::optional<uint8_t> lnh = {};      // absent: 2, or 3 with a GRH
    std::optional<uint16_t> length = {};  // PktLen in words; absent: the right one
    uint16_t dlid = 0;
    uint16_t slid = 0;
    std::optional<Grh> grh = {};
    // BTH
    uint8_t opcode = kSendOnly;
    bool solicited = false;
    bool migrated = true;
    std::optional<uint8_t> pad = {};  // absent: the right one
    uint8_t transport_version = 0;
    uint16_t pkey = 0xffff;
    uint8_t fecn_becn = 0;
    uint32_t dest_qp = 0;
    bool ack = true;  // AckReq
    uint32_t psn = 0;
    // extended headers
    uint32_t qkey = 0;  // DETH
    uint32_t source_qp = 0;
    uint32_t xrc_srq = 0;  // XRCETH
    uint64_t va = 0;       // RETH, AtomicETH
    uint32_t rkey = 0;
    uint32_t dma_length = 0;
    uint64_t swap_or_add = 0;  // AtomicETH
    uint64_t compare = 0;
    uint8_t syndrome = 0x1f;  // AETH
    uint32_t msn = 0;
    uint64_t original = 0;         // AtomicAckETH
    uint32_t immediate = 0;        // ImmDt, IETH
    uint32_t flush_type = 0x0001;  // FETH: global visibility of a range
    Bytes payload = {};

    bool is_answer() const;
};

// The packet's bytes with both checksums.
Bytes write(const Packet& packet);
// The packet's bytes without checksums, as on a link within one host.
Bytes write_elided(const Packet& packet);
// Parses a packet; absent if it is malformed or a checksum is wrong.
std::optional<Packet> read(ByteSpan bytes, bool elided);

}  // namespace pib::conformance
