// SPDX-License-Identifier: GPL-2.0-or-later
// The packet headers of IBA volume 1 chapters 7 to 9 as plain values. `parse` reads exactly kSize
// big-endian bytes and cannot fail; packet.cc checks the values.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>

#include "ib/wire/field.h"
#include "ib/wire/types.h"

namespace pib::ib {

template <size_t N>
using HeaderBytes = std::span<const uint8_t, N>;
template <size_t N>
using HeaderSpace = std::span<uint8_t, N>;

// Link Next Header (IBA 7.7.5): which headers follow the LRH.
enum class Lnh : uint8_t {
    kRaw = 0,        // raw packet, ethertype follows
    kRawIpv6 = 1,    // raw packet, IPv6 follows
    kIbaLocal = 2,   // BTH follows
    kIbaGlobal = 3,  // GRH, then BTH
};
[[nodiscard]] constexpr bool is_raw(Lnh lnh) {
    return lnh == Lnh::kRaw || lnh == Lnh::kRawIpv6;
}

// Local Route Header (IBA 7.7).
struct Lrh {
    static constexpr size_t kSize = 8;

    Vl vl{};
    uint8_t lver = 0;
    Sl sl{};
    Lnh lnh = Lnh::kIbaLocal;
    Lid dlid{};
    uint16_t pkt_len = 0;  // 4-byte words from the LRH up to, not including, the VCRC
    Lid slid{};

    bool operator==(const Lrh&) const = default;
    [[nodiscard]] static constexpr Lrh parse(HeaderBytes<kSize> in) {
        return {.vl = Vl(static_cast<uint8_t>(in[0] >> 4)),
                .lver = static_cast<uint8_t>(in[0] & 0xF),
                .sl = Sl(static_cast<uint8_t>(in[1] >> 4)),
                .lnh = static_cast<Lnh>(in[1] & 0x3),
                .dlid = Lid(load_be<uint16_t>(&in[2])),
                .pkt_len = static_cast<uint16_t>(load_be<uint16_t>(&in[4]) & 0x7FF),
                .slid = Lid(load_be<uint16_t>(&in[6]))};
    }
    constexpr void write(HeaderSpace<kSize> out) const {
        out[0] = static_cast<uint8_t>(vl.value() << 4 | (lver & 0xF));
        out[1] = static_cast<uint8_t>(sl.value() << 4 | static_cast<unsigned>(lnh));
        store_be(&out[2], dlid.value());
        store_be(&out[4], static_cast<uint16_t>(pkt_len & 0x7FF));
        store_be(&out[6], slid.value());
    }
};

// Global Route Header (IBA 8.3), the layout of an IPv6 header.
struct Grh {
    static constexpr size_t kSize = 40;
    static constexpr uint8_t kIpVer = 6;
    static constexpr uint8_t kNxtHdrIba = 0x1B;

    uint8_t ip_ver = kIpVer;
    uint8_t tclass = 0;
    uint32_t flow_label = 0;  // 20 bits
    uint16_t pay_len = 0;     // bytes from the first after the GRH through the ICRC
    uint8_t nxt_hdr = kNxtHdrIba;
    uint8_t hop_lmt = 0;
    Gid sgid{};
    Gid dgid{};

    bool operator==(const Grh&) const = default;
    [[nodiscard]] static constexpr Grh parse(HeaderBytes<kSize> in) {
        const auto word = load_be<uint32_t>(&in[0]);
        Grh grh{.ip_ver = static_cast<uint8_t>(word >> 28),
                .tclass = static_cast<uint8_t>(word >> 20),
                .flow_label = word & 0xFFFFF,
                .pay_len = load_be<uint16_t>(&in[4]),
                .nxt_hdr = in[6],
                .hop_lmt = in[7],
                .sgid = {},
                .dgid = {}};
        for (size_t i = 0; i < 16; ++i) {
            grh.sgid.bytes[i] = in[8 + i];
            grh.dgid.bytes[i] = in[24 + i];
        }
        return grh;
    }
    constexpr void write(HeaderSpace<kSize> out) const {
        store_be(&out[0], uint32_t{ip_ver} << 28 | uint32_t{tclass} << 20 | (flow_label & 0xFFFFF));
        store_be(&out[4], pay_len);
        out[6] = nxt_hdr;
        out[7] = hop_lmt;
        for (size_t i = 0; i < 16; ++i) {
            out[8 + i] = sgid.bytes[i];
            out[24 + i] = dgid.bytes[i];
        }
    }
};

// Base Transport Header (IBA 9.2).
struct Bth {
    static constexpr size_t kSize = 12;

    uint8_t opcode = 0;
    bool solicited_event = false;
    bool mig_req = false;   // the sender's migration state is Migrated (17.2.8)
    uint8_t pad_count = 0;  // 0..3 bytes after the payload
    uint8_t tver = 0;
    PKey pkey{};
    bool fecn = false;
    bool becn = false;
    Qpn dest_qp{};
    bool ack_req = false;
    Psn psn{};

    bool operator==(const Bth&) const = default;
    [[nodiscard]] static constexpr Bth parse(HeaderBytes<kSize> in) {
        return {.opcode = in[0],
                .solicited_event = (in[1] & 0x80) != 0,
                .mig_req = (in[1] & 0x40) != 0,
                .pad_count = static_cast<uint8_t>(in[1] >> 4 & 0x3),
                .tver = static_cast<uint8_t>(in[1] & 0xF),
                .pkey = PKey(load_be<uint16_t>(&in[2])),
                .fecn = (in[4] & 0x80) != 0,
                .becn = (in[4] & 0x40) != 0,
                .dest_qp = Qpn(load_be24(&in[5])),
                .ack_req = (in[8] & 0x80) != 0,
                .psn = Psn(load_be24(&in[9]))};
    }
    constexpr void write(HeaderSpace<kSize> out) const {
        out[0] = opcode;
        out[1] = static_cast<uint8_t>((solicited_event ? 0x80 : 0) | (mig_req ? 0x40 : 0) |
                                      (pad_count & 0x3) << 4 | (tver & 0xF));
        store_be(&out[2], pkey.value());
        out[4] = static_cast<uint8_t>((fecn ? 0x80 : 0) | (becn ? 0x40 : 0));
        store_be24(&out[5], dest_qp.value());
        out[8] = ack_req ? 0x80 : 0;
        store_be24(&out[9], psn.value());
    }
};

// Reliable Datagram Extended Transport Header (IBA 9.3.1). RD packets are recognised and dropped.
struct Rdeth {
    static constexpr size_t kSize = 4;

    uint32_t ee_context = 0;  // 24 bits

    bool operator==(const Rdeth&) const = default;
    [[nodiscard]] static constexpr Rdeth parse(HeaderBytes<kSize> in) {
        return {.ee_context = load_be24(&in[1])};
    }
    constexpr void write(HeaderSpace<kSize> out) const { store_be(&out[0], ee_context & 0xFFFFFF); }
};

// Datagram Extended Transport Header (IBA 9.3.2).
struct Deth {
    static constexpr size_t kSize = 8;

    QKey qkey{};
    Qpn src_qp{};

    bool operator==(const Deth&) const = default;
    [[nodiscard]] static constexpr Deth parse(HeaderBytes<kSize> in) {
        return {.qkey = QKey(load_be<uint32_t>(&in[0])), .src_qp = Qpn(load_be24(&in[5]))};
    }
    constexpr void write(HeaderSpace<kSize> out) const {
        store_be(&out[0], qkey.value());
        store_be(&out[4], src_qp.value());
    }
};

// RDMA Extended Transport Header (IBA 9.3.3).
struct Reth {
    static constexpr size_t kSize = 16;

    uint64_t va = 0;
    RKey rkey{};
    uint32_t dma_len = 0;  // bytes, of the whole message

    bool operator==(const Reth&) const = default;
    [[nodiscard]] static constexpr Reth parse(HeaderBytes<kSize> in) {
        return {.va = load_be<uint64_t>(&in[0]),
                .rkey = RKey(load_be<uint32_t>(&in[8])),
                .dma_len = load_be<uint32_t>(&in[12])};
    }
    constexpr void write(HeaderSpace<kSize> out) const {
        store_be(&out[0], va);
        store_be(&out[8], rkey.value());
        store_be(&out[12], dma_len);
    }
};

// FLUSH Extended Transport Header (annex A19).
struct Feth {
    static constexpr size_t kSize = 4;
    // Placement types; one request may ask for both.
    static constexpr uint8_t kGlobalVisibility = 1U << 0;
    static constexpr uint8_t kPersistence = 1U << 1;
    // Selectivity levels; others are reserved.
    static constexpr uint8_t kRange = 0;
    static constexpr uint8_t kRegion = 1;

    uint8_t placement = 0;    // 4 bits
    uint8_t selectivity = 0;  // 2 bits

    bool operator==(const Feth&) const = default;
    [[nodiscard]] static constexpr Feth parse(HeaderBytes<kSize> in) {
        return {.placement = static_cast<uint8_t>(in[3] & 0xF),
                .selectivity = static_cast<uint8_t>(in[3] >> 4 & 0x3)};
    }
    constexpr void write(HeaderSpace<kSize> out) const {
        store_be(&out[0], (selectivity & 0x3U) << 4 | (placement & 0xFU));
    }
};

// ATOMIC Extended Transport Header (IBA 9.3.4).
struct AtomicEth {
    static constexpr size_t kSize = 28;

    uint64_t va = 0;
    RKey rkey{};
    uint64_t swap_or_add = 0;
    uint64_t compare = 0;

    bool operator==(const AtomicEth&) const = default;
    [[nodiscard]] static constexpr AtomicEth parse(HeaderBytes<kSize> in) {
        return {.va = load_be<uint64_t>(&in[0]),
                .rkey = RKey(load_be<uint32_t>(&in[8])),
                .swap_or_add = load_be<uint64_t>(&in[12]),
                .compare = load_be<uint64_t>(&in[20])};
    }
    constexpr void write(HeaderSpace<kSize> out) const {
        store_be(&out[0], va);
        store_be(&out[8], rkey.value());
        store_be(&out[12], swap_or_add);
        store_be(&out[20], compare);
    }
};

// AtomicETH of masked atomics. A CmpSwap compares and swaps only the bits of its masks. In the
// compare mask of a FetchAdd, each bit marks the highest bit of a field, whose carry is lost.
struct MaskedAtomicEth {
    static constexpr size_t kSize = 44;

    AtomicEth atomic{};
    uint64_t swap_mask = 0;
    uint64_t compare_mask = 0;

    bool operator==(const MaskedAtomicEth&) const = default;
    [[nodiscard]] static constexpr MaskedAtomicEth parse(HeaderBytes<kSize> in) {
        return {.atomic = AtomicEth::parse(in.first<AtomicEth::kSize>()),
                .swap_mask = load_be<uint64_t>(&in[28]),
                .compare_mask = load_be<uint64_t>(&in[36])};
    }
    constexpr void write(HeaderSpace<kSize> out) const {
        atomic.write(out.first<AtomicEth::kSize>());
        store_be(&out[28], swap_mask);
        store_be(&out[36], compare_mask);
    }
};

// Bits 6 and 5 of the AETH syndrome (IBA 9.3.5).
enum class AethKind : uint8_t { kAck = 0, kRnrNak = 1, kReserved = 2, kNak = 3 };

// NAK codes (IBA 9.7.5.2); 5..31 are reserved.
enum class NakCode : uint8_t {
    kPsnSequenceError = 0,
    kInvalidRequest = 1,
    kRemoteAccessError = 2,
    kRemoteOperationalError = 3,
    kInvalidRdRequest = 4,
};

// ACK Extended Transport Header (IBA 9.3.5).
struct Aeth {
    static constexpr size_t kSize = 4;
    // Credit count 31: the responder gives no end-to-end credits (IBA 9.7.7.2).
    static constexpr uint8_t kInvalidCreditCount = 31;

    uint8_t syndrome = 0;
    uint32_t msn = 0;  // 24 bits

    bool operator==(const Aeth&) const = default;
    [[nodiscard]] static constexpr Aeth ack(uint8_t credit_code, uint32_t msn) {
        return {.syndrome = static_cast<uint8_t>(credit_code & 0x1F), .msn = msn};
    }
    [[nodiscard]] static constexpr Aeth rnr_nak(uint8_t timer_code, uint32_t msn) {
        return {.syndrome = static_cast<uint8_t>(0x20 | (timer_code & 0x1F)), .msn = msn};
    }
    [[nodiscard]] static constexpr Aeth nak(NakCode code, uint32_t msn) {
        return {.syndrome = static_cast<uint8_t>(0x60 | static_cast<unsigned>(code)), .msn = msn};
    }

    [[nodiscard]] constexpr AethKind kind() const {
        return static_cast<AethKind>(syndrome >> 5 & 0x3);
    }
    // Low five bits: credit code of an ACK, timer code of an RNR NAK, code of a NAK.
    [[nodiscard]] constexpr uint8_t code() const { return syndrome & 0x1F; }

    [[nodiscard]] static constexpr Aeth parse(HeaderBytes<kSize> in) {
        return {.syndrome = in[0], .msn = load_be24(&in[1])};
    }
    constexpr void write(HeaderSpace<kSize> out) const {
        out[0] = syndrome;
        store_be24(&out[1], msn);
    }
};

// RNR NAK timer field (IBA 9.7.5.2.8), in nanoseconds; code 0 is the longest.
inline constexpr std::array<uint64_t, 32> kRnrTimerNs = {
    655'360'000, 10'000,      20'000,      30'000,     40'000,     60'000,     80'000,
    120'000,     160'000,     240'000,     320'000,    480'000,    640'000,    960'000,
    1'280'000,   1'920'000,   2'560'000,   3'840'000,  5'120'000,  7'680'000,  10'240'000,
    15'360'000,  20'480'000,  30'720'000,  40'960'000, 61'440'000, 81'920'000, 122'880'000,
    163'840'000, 245'760'000, 327'680'000, 491'520'000};

[[nodiscard]] constexpr uint64_t rnr_timer_ns(uint8_t code) {
    return kRnrTimerNs[code & 0x1F];
}

// End-to-end credits of an ACK (IBA 9.7.7.2); nullopt for code 31, which carries none.
[[nodiscard]] constexpr std::optional<uint32_t> credit_count(uint8_t code) {
    code &= 0x1F;
    if (code == Aeth::kInvalidCreditCount) {
        return std::nullopt;
    }
    if (code < 2) {
        return code;
    }
    return code % 2 == 0 ? 1U << code / 2 : 3U << (code / 2 - 1);
}

// The largest code whose count does not exceed `credits`, because a responder must not promise
// more.
[[nodiscard]] constexpr uint8_t credit_code(uint32_t credits) {
    if (credits < 2) {
        return static_cast<uint8_t>(credits);
    }
    const auto log = static_cast<unsigned>(std::bit_width(credits)) - 1;
    const unsigned half = credits >= 3U << (log - 1) ? 1 : 0;
    return static_cast<uint8_t>(std::min(2 * log + half, Aeth::kInvalidCreditCount - 1U));
}

// ATOMIC ACK Extended Transport Header (IBA 9.5.3).
struct AtomicAckEth {
    static constexpr size_t kSize = 8;

    uint64_t original_data = 0;

    bool operator==(const AtomicAckEth&) const = default;
    [[nodiscard]] static constexpr AtomicAckEth parse(HeaderBytes<kSize> in) {
        return {.original_data = load_be<uint64_t>(&in[0])};
    }
    constexpr void write(HeaderSpace<kSize> out) const { store_be(&out[0], original_data); }
};

// Immediate data (IBA 9.3.6): four bytes that the device passes on unchanged.
struct ImmDt {
    static constexpr size_t kSize = 4;

    std::array<uint8_t, 4> data{};  // wire order

    bool operator==(const ImmDt&) const = default;
    [[nodiscard]] static constexpr ImmDt parse(HeaderBytes<kSize> in) {
        return {.data = {in[0], in[1], in[2], in[3]}};
    }
    constexpr void write(HeaderSpace<kSize> out) const {
        for (size_t i = 0; i < data.size(); ++i) {
            out[i] = data[i];
        }
    }
};

// Invalidate Extended Transport Header (IBA 9.3.7).
struct Ieth {
    static constexpr size_t kSize = 4;

    RKey rkey{};

    bool operator==(const Ieth&) const = default;
    [[nodiscard]] static constexpr Ieth parse(HeaderBytes<kSize> in) {
        return {.rkey = RKey(load_be<uint32_t>(&in[0]))};
    }
    constexpr void write(HeaderSpace<kSize> out) const { store_be(&out[0], rkey.value()); }
};

// XRC Extended Transport Header (IBA annex A14).
struct Xrceth {
    static constexpr size_t kSize = 4;

    uint32_t xrc_srq = 0;  // 24 bits

    bool operator==(const Xrceth&) const = default;
    [[nodiscard]] static constexpr Xrceth parse(HeaderBytes<kSize> in) {
        return {.xrc_srq = load_be24(&in[1])};
    }
    constexpr void write(HeaderSpace<kSize> out) const { store_be(&out[0], xrc_srq & 0xFFFFFF); }
};

}  // namespace pib::ib
