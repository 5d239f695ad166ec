// SPDX-License-Identifier: GPL-2.0-or-later
// The BTH opcodes (IBA 9.2.1, tables 36 to 38, annexes A10, A14 and A19) as one table, which
// replaces switches over opcodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace pib::ib {

enum class Service : uint8_t { kRc, kUc, kRd, kUd, kXrc, kCnp };

// The operation of an opcode.
enum class OpKind : uint8_t {
    kSend,
    kRdmaWrite,
    kRdmaReadRequest,
    kRdmaReadResponse,
    kAcknowledge,
    kAtomicAcknowledge,
    kCmpSwap,
    kFetchAdd,
    kFlush,
    kAtomicWrite,
    kMaskedCmpSwap,
    kMaskedFetchAdd,
    kResync,
    kCongestionNotification,
    kReserved,  // the responder of a reliable connection refuses the request (IBA 9.7.4.1.4)
};

// Position of the packet in its message.
enum class Position : uint8_t { kFirst, kMiddle, kLast, kOnly };

// Payload lengths that an opcode admits (IBA 9.4, C9-47 and neighbours).
enum class PayloadRule : uint8_t {
    kNone,       // no payload
    kFullMtu,    // exactly the path MTU
    kOneToMtu,   // 1 byte up to the path MTU
    kZeroToMtu,  // zero to path MTU bytes
    kCnp,        // exactly 16 reserved bytes (annex A10)
};

// Extended transport headers, in the order in which they follow the BTH.
enum class Ext : uint8_t {
    kRdeth,
    kDeth,
    kXrceth,
    kFeth,
    kReth,
    kAtomicEth,
    kMaskedAtomicEth,
    kAeth,
    kAtomicAckEth,
    kImmDt,
    kIeth,
};
inline constexpr size_t kExtCount = 11;
[[nodiscard]] constexpr size_t index_of(Ext ext) {
    return static_cast<size_t>(ext);
}

// A set of extended headers.
class ExtSet {
  public:
    constexpr ExtSet() = default;
    constexpr ExtSet(std::initializer_list<Ext> exts) {
        for (const Ext ext : exts) {
            bits_ = static_cast<uint16_t>(bits_ | 1U << index_of(ext));
        }
    }
    [[nodiscard]] constexpr bool has(Ext ext) const { return (bits_ >> index_of(ext) & 1U) != 0; }
    [[nodiscard]] constexpr ExtSet operator|(ExtSet other) const {
        ExtSet both;
        both.bits_ = static_cast<uint16_t>(bits_ | other.bits_);
        return both;
    }
    constexpr bool operator==(const ExtSet&) const = default;

  private:
    uint16_t bits_ = 0;
};

// Bytes of one extended header on the wire.
[[nodiscard]] size_t ext_size(Ext ext);

struct OpcodeInfo {
    const char* name = nullptr;  // IBA name; nullptr marks a reserved opcode
    uint8_t opcode = 0;
    Service service{};
    OpKind kind{};
    Position position{};
    PayloadRule payload{};
    ExtSet exts{};
    uint8_t offset[kExtCount] = {};  // offset of each header from the first byte of the BTH
    uint8_t header_bytes = 0;        // BTH and extended headers together

    [[nodiscard]] constexpr bool has(Ext ext) const { return exts.has(ext); }
    [[nodiscard]] constexpr bool starts_message() const {
        return position == Position::kFirst || position == Position::kOnly;
    }
    [[nodiscard]] constexpr bool ends_message() const {
        return position == Position::kLast || position == Position::kOnly;
    }
    // Whether the opcode is of a reliable connection, whose responder answers an invalid request
    // with a NAK. Other services drop invalid packets without an answer.
    [[nodiscard]] constexpr bool is_reliable() const {
        return service == Service::kRc || service == Service::kXrc;
    }
    [[nodiscard]] constexpr bool has_immediate() const { return has(Ext::kImmDt); }
    [[nodiscard]] constexpr bool is_atomic() const {
        return kind == OpKind::kCmpSwap || kind == OpKind::kFetchAdd ||
               kind == OpKind::kMaskedCmpSwap || kind == OpKind::kMaskedFetchAdd;
    }
    // Whether the responder keeps a responder resource of the request, to answer duplicates (IBA
    // 9.7.5.1.4).
    [[nodiscard]] constexpr bool takes_responder_resource() const {
        return kind == OpKind::kRdmaReadRequest || is_atomic() || kind == OpKind::kFlush ||
               kind == OpKind::kAtomicWrite;
    }
    // Whether the responder sends the packet to the requester.
    [[nodiscard]] constexpr bool is_response() const {
        return kind == OpKind::kRdmaReadResponse || kind == OpKind::kAcknowledge ||
               kind == OpKind::kAtomicAcknowledge;
    }
    [[nodiscard]] constexpr bool is_request() const {
        return !is_response() && kind != OpKind::kCongestionNotification;
    }
    [[nodiscard]] constexpr bool carries_ack() const { return has(Ext::kAeth); }
    // Whether the message consumes a receive WQE, which completes at the message's last packet.
    [[nodiscard]] constexpr bool consumes_receive() const {
        return kind == OpKind::kSend || (kind == OpKind::kRdmaWrite && has_immediate());
    }
    // Whether the opcode permits `bytes` of payload without pad at a path MTU of `mtu` bytes.
    [[nodiscard]] constexpr bool admits_payload(size_t bytes, size_t mtu) const {
        switch (payload) {
            case PayloadRule::kNone:
                return bytes == 0;
            case PayloadRule::kFullMtu:
                return bytes == mtu;
            case PayloadRule::kOneToMtu:
                return bytes >= 1 && bytes <= mtu;
            case PayloadRule::kZeroToMtu:
                return bytes <= mtu;
            case PayloadRule::kCnp:
                return bytes == 16;
        }
        return false;
    }
};

// The row of a BTH opcode, or nullptr for a reserved one.
[[nodiscard]] const OpcodeInfo* find_opcode(uint8_t opcode);
// As find_opcode(), but a reserved opcode of a reliable connection has a row of kind kReserved.
[[nodiscard]] const OpcodeInfo* find_received_opcode(uint8_t opcode);

// The BTH opcodes by name, for code that builds packets.
namespace opcode {

inline constexpr uint8_t kTransportMask = 0xE0;
inline constexpr uint8_t kRc = 0x00;
inline constexpr uint8_t kUc = 0x20;
inline constexpr uint8_t kRd = 0x40;
inline constexpr uint8_t kUd = 0x60;
inline constexpr uint8_t kXrc = 0xA0;

// The low five bits; combine them with one of the transports above.
inline constexpr uint8_t kSendFirst = 0x00;
inline constexpr uint8_t kSendMiddle = 0x01;
inline constexpr uint8_t kSendLast = 0x02;
inline constexpr uint8_t kSendLastImm = 0x03;
inline constexpr uint8_t kSendOnly = 0x04;
inline constexpr uint8_t kSendOnlyImm = 0x05;
inline constexpr uint8_t kRdmaWriteFirst = 0x06;
inline constexpr uint8_t kRdmaWriteMiddle = 0x07;
inline constexpr uint8_t kRdmaWriteLast = 0x08;
inline constexpr uint8_t kRdmaWriteLastImm = 0x09;
inline constexpr uint8_t kRdmaWriteOnly = 0x0A;
inline constexpr uint8_t kRdmaWriteOnlyImm = 0x0B;
inline constexpr uint8_t kRdmaReadRequest = 0x0C;
inline constexpr uint8_t kRdmaReadResponseFirst = 0x0D;
inline constexpr uint8_t kRdmaReadResponseMiddle = 0x0E;
inline constexpr uint8_t kRdmaReadResponseLast = 0x0F;
inline constexpr uint8_t kRdmaReadResponseOnly = 0x10;
inline constexpr uint8_t kAcknowledge = 0x11;
inline constexpr uint8_t kAtomicAcknowledge = 0x12;
inline constexpr uint8_t kCmpSwap = 0x13;
inline constexpr uint8_t kFetchAdd = 0x14;
inline constexpr uint8_t kResync = 0x15;
inline constexpr uint8_t kSendLastInvalidate = 0x16;
inline constexpr uint8_t kSendOnlyInvalidate = 0x17;
inline constexpr uint8_t kFlush = 0x1C;
inline constexpr uint8_t kAtomicWrite = 0x1D;

inline constexpr uint8_t kUdSendOnly = kUd | kSendOnly;
inline constexpr uint8_t kUdSendOnlyImm = kUd | kSendOnlyImm;
inline constexpr uint8_t kCnp = 0x80;

// RC only, with manufacturer-specific codes, because the IBA has no masked atomics.
inline constexpr uint8_t kMaskedCmpSwap = 0xD3;
inline constexpr uint8_t kMaskedFetchAdd = 0xD4;

}  // namespace opcode

}  // namespace pib::ib
