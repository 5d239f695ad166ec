// SPDX-License-Identifier: GPL-2.0-or-later
// Runs: consecutive packets of one message as one piece (docs/fabric-protocol.md, RUN). Headers of
// the first and the last packet, then the payloads of all, one after the other; the headers in
// between follow from the first. Callers can extract single packets, with the same bytes as if they
// had been sent singly.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>

#include "ib/wire/packet.h"

namespace pib::ib {

inline constexpr std::size_t kMaxRunPayload = 64 * 1024;
inline constexpr std::uint32_t kMinRunMtu = 256;
inline constexpr std::uint32_t kMaxRunPackets = kMaxRunPayload / kMinRunMtu;

// Layout of a run in memory: numbers, headers of the first and of the last packet, each with room
// for any, payloads and the last one's pad.
inline constexpr std::size_t kRunHeadersSize = 88;
inline constexpr std::size_t kRunFirst = 8;
inline constexpr std::size_t kRunLast = kRunFirst + kRunHeadersSize;
inline constexpr std::size_t kRunPayload = kRunLast + kRunHeadersSize;
using RunHeaders = std::array<std::uint8_t, kRunHeadersSize>;
using RunHead = std::array<std::uint8_t, kRunPayload>;

// Bytes of a run's packets, LRH to padding, and of their payloads.
struct RunSize {
    std::uint32_t packets = 0;  // 2..kMaxRunPackets
    std::uint32_t mtu = 0;      // payload of each but the last
    std::size_t first = 0;
    std::size_t middle = 0;  // each packet between first and last
    std::size_t last = 0;
    std::size_t payload = 0;  // all payloads, the last one's pad included

    [[nodiscard]] std::size_t packet(std::uint32_t index) const {
        return index == 0 ? first : index + 1 == packets ? last : middle;
    }
    // The longest packet.
    [[nodiscard]] std::size_t longest() const { return first > last ? first : last; }
    // Sum of `of`(bytes of a packet) over `count` packets from `from` on.
    template <typename Of>
    [[nodiscard]] auto sum(std::uint32_t from, std::uint32_t count, Of&& of) const {
        const std::uint32_t firsts = from == 0 && count != 0 ? 1 : 0;
        const std::uint32_t lasts = count > firsts && from + count == packets ? 1 : 0;
        return firsts * of(first) + (count - firsts - lasts) * of(middle) + lasts * of(last);
    }
    [[nodiscard]] std::size_t bytes(std::uint32_t from, std::uint32_t count) const {
        return sum(from, count, [](std::size_t bytes) { return bytes; });
    }
    // LRH:PktLen, which counts the ICRCs.
    [[nodiscard]] std::uint64_t words(std::uint32_t from, std::uint32_t count) const {
        return (bytes(from, count) + count * kIcrcSize) / 4;
    }
    [[nodiscard]] std::size_t bytes() const { return bytes(0, packets); }
    [[nodiscard]] std::uint64_t words() const { return words(0, packets); }
    // In memory.
    [[nodiscard]] std::size_t body() const { return kRunPayload + payload; }
};

// The MIDDLE opcode of a run that starts with this one; nullptr: no run can start with it.
[[nodiscard]] const OpcodeInfo* run_middle(const OpcodeInfo& first);

// A checked run: each packet passes PacketView::parse(), and all packets have the same LRH, GRH,
// BTH and XRCETH except for the fields that differ by position.
class PacketRun {
  public:
    // `head` is a copy of the first kRunPayload bytes of `whole`, which the sender may still write
    // to. Both outlive the run. `most`: bytes of payload.
    [[nodiscard]] static std::expected<PacketRun, ParseError> parse(
        std::span<const std::uint8_t, kRunPayload> head, std::span<const std::uint8_t> whole,
        std::size_t most = kMaxRunPayload);
    // A part of its packets as a run, at least two; writes its head to `head`.
    [[nodiscard]] std::expected<PacketRun, ParseError> part(std::uint32_t from, std::uint32_t count,
                                                            RunHead& head) const;

    [[nodiscard]] const RunSize& size() const { return size_; }
    [[nodiscard]] const PacketView& first() const { return first_; }
    [[nodiscard]] const PacketView& last() const { return last_; }
    [[nodiscard]] Psn psn(std::uint32_t index) const { return first_.bth().psn + index; }
    // The bytes as received, for copies.
    [[nodiscard]] PacketBytes bytes() const { return bytes_; }

    // One packet; its headers are written to `room`, which outlives it.
    [[nodiscard]] PacketBytes packet(std::uint32_t index, RunHeaders& room) const;
    // Number of packets from `index` on that are MIDDLE packets without a request for an ACK or an
    // event.
    [[nodiscard]] std::uint32_t middles_from(std::uint32_t index) const;
    // Payloads of `count` packets, none of them the last of its message; to be copied once.
    [[nodiscard]] std::span<const std::uint8_t> payload(std::uint32_t index,
                                                        std::uint32_t count) const {
        return bytes_.part(kRunPayload + std::size_t{index} * size_.mtu,
                           std::size_t{count} * size_.mtu);
    }

  private:
    PacketRun(const PacketBytes& bytes, const PacketView& first, const PacketView& last)
        : bytes_(bytes), first_(first), last_(last) {}

    PacketBytes bytes_;
    PacketView first_;
    PacketView last_;
    RunSize size_;
    std::size_t middle_headers_ = 0;
};

// Builds a run in its place.
class RunBuilder {
  public:
    // Sizes of `packets` packets with these headers at both ends and `payload_bytes` without pad,
    // at most `most`; no value if they form no run.
    [[nodiscard]] static std::expected<RunSize, BuildError> size(
        const PacketHeaders& first, const PacketHeaders& last, std::uint32_t packets,
        std::uint32_t mtu, std::size_t payload_bytes, std::size_t most = kMaxRunPayload);
    // Writes what stands before the payload; `head` has at least kRunPayload bytes.
    static void headers(std::span<std::uint8_t> head, const RunSize& size,
                        const PacketHeaders& first, const PacketHeaders& last,
                        std::size_t payload_bytes);
    // Writes all except the payload to `body`, which has size.body() bytes; returns the place of
    // the payload.
    static std::span<std::uint8_t> begin(std::span<std::uint8_t> body, const RunSize& size,
                                         const PacketHeaders& first, const PacketHeaders& last,
                                         std::size_t payload_bytes);
};

// Sets the VL of all packets of a run in memory.
void set_run_vl(std::span<std::uint8_t> body, std::uint8_t vl);

}  // namespace pib::ib
