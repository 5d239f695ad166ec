// SPDX-License-Identifier: GPL-2.0-or-later
// InfiniBand's numbers, each as a separate type, so that a LID cannot be passed for a QPN. All are
// plain values: trivially copyable, comparable, without invariants except their width. Values are
// in host order; headers.h and mad.h convert them to wire order.
#pragma once

#include <array>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace pib::ib {

// An unsigned number of `Bits` bits; construction drops higher bits, as a wire field does.
template <typename Tag, std::unsigned_integral Rep, unsigned Bits = sizeof(Rep) * 8>
class Number {
  public:
    using rep = Rep;
    static constexpr Rep kMask = static_cast<Rep>(~uint64_t{0} >> (64 - Bits));

    constexpr Number() = default;
    constexpr explicit Number(Rep value) : value_(static_cast<Rep>(value & kMask)) {}

    [[nodiscard]] constexpr Rep value() const { return value_; }
    constexpr auto operator<=>(const Number&) const = default;

  private:
    Rep value_ = 0;
};

using Qpn = Number<struct QpnTag, uint32_t, 24>;
using QKey = Number<struct QKeyTag, uint32_t>;
using RKey = Number<struct RKeyTag, uint32_t>;
using Sl = Number<struct SlTag, uint8_t, 4>;
using Vl = Number<struct VlTag, uint8_t, 4>;
using Guid = Number<struct GuidTag, uint64_t>;

// Well-known queue pairs (IBA 3.9, 10.2.4.1), the Q_Key of QP1, and the VL of subnet management.
inline constexpr Qpn kQp0{0};
inline constexpr Qpn kQp1{1};
inline constexpr Qpn kMulticastQpn{0xFFFFFF};
inline constexpr QKey kGsiQKey{0x80010000};
inline constexpr Vl kVl15{15};

// Local identifier (IBA 4.1.3): 0 unassigned, then unicast, multicast and the permissive LID.
class Lid : public Number<struct LidTag, uint16_t> {
  public:
    using Number::Number;
    static constexpr uint16_t kMulticastFirst = 0xC000;
    static constexpr uint16_t kPermissiveValue = 0xFFFF;

    [[nodiscard]] constexpr bool is_unicast() const {
        return value() != 0 && value() < kMulticastFirst;
    }
    [[nodiscard]] constexpr bool is_multicast() const {
        return value() >= kMulticastFirst && value() != kPermissiveValue;
    }
    [[nodiscard]] constexpr bool is_permissive() const { return value() == kPermissiveValue; }
};

inline constexpr Lid kPermissiveLid{Lid::kPermissiveValue};

// Packet sequence number: 24 bits of serial arithmetic, so it has no total order (IBA 9.7.1).
class Psn {
  public:
    static constexpr uint32_t kMask = 0xFFFFFF;

    constexpr Psn() = default;
    constexpr explicit Psn(uint32_t value) : value_(value & kMask) {}

    [[nodiscard]] constexpr uint32_t value() const { return value_; }
    constexpr bool operator==(const Psn&) const = default;

    [[nodiscard]] constexpr Psn operator+(uint32_t packets) const { return Psn{value_ + packets}; }
    [[nodiscard]] constexpr Psn operator-(uint32_t packets) const { return Psn{value_ - packets}; }
    constexpr Psn& operator++() { return *this = *this + 1; }

    // Distance from `other` to this PSN, negative if this PSN is earlier. Range -2^23 .. 2^23 - 1.
    [[nodiscard]] constexpr int32_t distance_from(Psn other) const {
        return static_cast<int32_t>((value_ - other.value_) << 8) >> 8;
    }
    [[nodiscard]] constexpr bool before(Psn other) const { return distance_from(other) < 0; }
    [[nodiscard]] constexpr bool after(Psn other) const { return distance_from(other) > 0; }

  private:
    uint32_t value_ = 0;
};

// Partition key (IBA 10.9.1.1): bit 15 is set for a full member, the other 15 bits identify the
// partition.
class PKey : public Number<struct PKeyTag, uint16_t> {
  public:
    using Number::Number;

    [[nodiscard]] constexpr uint16_t base() const { return value() & 0x7FFF; }
    [[nodiscard]] constexpr bool is_full_member() const { return (value() & 0x8000) != 0; }
    // 0x0000 and 0x8000 mark an unused table entry and never match (10.9.1.2).
    [[nodiscard]] constexpr bool is_valid() const { return base() != 0; }
};

inline constexpr PKey kDefaultPKey{0xFFFF};

// The membership rule of IBA 10.9.3: same partition, and not both of them limited members.
[[nodiscard]] constexpr bool pkeys_match(PKey packet, PKey table) {
    return packet.is_valid() && packet.base() == table.base() &&
           (packet.is_full_member() || table.is_full_member());
}

// Global identifier, kept in wire (big-endian) order because it is mostly copied and compared.
struct Gid {
    std::array<uint8_t, 16> bytes{};

    [[nodiscard]] static constexpr Gid from(uint64_t subnet_prefix, Guid guid) {
        Gid gid;
        for (unsigned i = 0; i < 8; ++i) {
            gid.bytes[i] = static_cast<uint8_t>(subnet_prefix >> (56 - 8 * i));
            gid.bytes[8 + i] = static_cast<uint8_t>(guid.value() >> (56 - 8 * i));
        }
        return gid;
    }
    [[nodiscard]] constexpr uint64_t subnet_prefix() const { return half(0); }
    [[nodiscard]] constexpr Guid guid() const { return Guid{half(8)}; }
    [[nodiscard]] constexpr bool is_multicast() const { return bytes[0] == 0xFF; }
    [[nodiscard]] constexpr bool is_zero() const { return bytes == Gid{}.bytes; }
    constexpr auto operator<=>(const Gid&) const = default;

  private:
    [[nodiscard]] constexpr uint64_t half(size_t first) const {
        uint64_t value = 0;
        for (size_t i = first; i < first + 8; ++i) {
            value = value << 8 | bytes[i];
        }
        return value;
    }
};

// Every port accepts this prefix in addition to its own (IBA 4.1.1).
inline constexpr uint64_t kDefaultGidPrefix = 0xFE80000000000000;

// MTU codes of PortInfo and path records (IBA table 146); 0 and 6..15 are reserved.
enum class Mtu : uint8_t { k256 = 1, k512 = 2, k1024 = 3, k2048 = 4, k4096 = 5 };

[[nodiscard]] constexpr bool is_valid_mtu_code(unsigned code) {
    return code >= 1 && code <= 5;
}
// Payload bytes of an MTU.
[[nodiscard]] constexpr uint32_t mtu_bytes(Mtu mtu) {
    return 128U << static_cast<unsigned>(mtu);
}

}  // namespace pib::ib

template <typename Tag, std::unsigned_integral Rep, unsigned Bits>
struct std::hash<pib::ib::Number<Tag, Rep, Bits>> {
    size_t operator()(pib::ib::Number<Tag, Rep, Bits> n) const noexcept {
        return std::hash<Rep>{}(n.value());
    }
};
template <>
struct std::hash<pib::ib::Lid> {
    size_t operator()(pib::ib::Lid lid) const noexcept { return lid.value(); }
};
template <>
struct std::hash<pib::ib::PKey> {
    size_t operator()(pib::ib::PKey pkey) const noexcept { return pkey.value(); }
};
template <>
struct std::hash<pib::ib::Gid> {
    size_t operator()(const pib::ib::Gid& gid) const noexcept {
        return std::hash<uint64_t>{}(gid.subnet_prefix() * 0x9E3779B97F4A7C15 ^ gid.guid().value());
    }
};
