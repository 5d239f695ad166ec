// SPDX-License-Identifier: GPL-2.0-or-later
// The frames of the fabric link protocol (docs/fabric-protocol.md), version 1.3: parse() converts
// the bytes of a frame to checked values, append() converts them back. No function here uses
// sockets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ib/wire/burst.h"
#include "ib/wire/types.h"

namespace pib::link {

inline constexpr uint16_t kVersionMajor = 1;
inline constexpr uint16_t kVersionMinor = 3;
inline constexpr size_t kHeaderSize = 8;
inline constexpr size_t kMaxBody = 8192;  // limit for all frames except BURST
inline constexpr size_t kMaxBurstBody = ib::kBurstPayload + ib::kMaxBurstPayload;
inline constexpr uint32_t kMagic = 0x5049424C;  // "PIBL"

enum class FrameType : uint8_t {
    kHello = 1,
    kWelcome = 2,
    kRefuse = 3,
    kLink = 4,
    kCredit = 5,
    kPacket = 6,
    kBurst = 7,   // only in shared memory
    kMemory = 8,  // only on the stream of a link in shared memory
    kPull = 9,    // only in shared memory
};

// Bits of HELLO:features and WELCOME:features.
// If both frames have kFeatureSharedMemory, later frames travel through shared memory.
inline constexpr uint32_t kFeatureSharedMemory = 0x00000001;
// Bursts of several packets (BURST); needs shared memory.
inline constexpr uint32_t kFeatureBursts = 0x00000002;

// Peer copy (offers, MEMORY and PULL); needs both other features.
inline constexpr uint32_t kFeaturePeerCopy = 0x00000004;

// PACKET: neither ICRC nor VCRC follows the packet.
inline constexpr uint8_t kFlagCrcElided = 0x01;
// BURST: the frame is an offer, which has the location of the payload (Offer) instead of the
// payload.
inline constexpr uint8_t kFlagOffer = 0x02;

// Every error ends the connection. The receiver of a HELLO with kVersion or kMalformedHello sends
// REFUSE first.
enum class FrameError : uint8_t {
    kType,            // unknown frame type, or a BURST or PULL on a stream
    kFlags,           // a flag that the type does not have
    kReserved,        // a reserved field is not 0, except in the body of HELLO
    kLength,          // a length of the body that the type does not permit
    kVersion,         // HELLO or WELCOME of another major version
    kMalformedHello,  // any other wrong field in the body of HELLO, or a wrong length
    kValue,           // a field outside its range
};
[[nodiscard]] const char* to_string(FrameError error);

enum class Role : uint8_t { kChannelAdapter = 1, kSwitch = 2 };

struct Hello {
    static constexpr size_t kSize = 112;
    static constexpr size_t kDescriptionSize = 64;

    uint16_t version_minor = kVersionMinor;
    uint32_t features = 0;
    Role role = Role::kChannelAdapter;
    uint8_t port_number = 1;
    ib::Guid node_guid{};
    ib::Guid port_guid{};
    std::string node_description{};  // UTF-8, at most kDescriptionSize bytes

    bool operator==(const Hello&) const = default;
    [[nodiscard]] static std::expected<Hello, FrameError> parse(std::span<const uint8_t> body);
};

struct Welcome {
    static constexpr size_t kSize = 32;

    uint16_t version_minor = kVersionMinor;
    uint32_t features = 0;
    ib::Guid switch_guid{};
    uint8_t port_number = 0;  // port of the switch

    bool operator==(const Welcome&) const = default;
    [[nodiscard]] static std::expected<Welcome, FrameError> parse(std::span<const uint8_t> body);
};

enum class RefuseReason : uint16_t {
    kVersion = 1,
    kDuplicatePortGuid = 2,
    kNoFreePort = 3,
    kMalformedHello = 4,
    kNotInTopology = 5,
    kNotAllowed = 6,
};

struct Refuse {
    static constexpr size_t kMaxText = 256;

    RefuseReason reason{};
    std::string text{};  // one line of UTF-8, cut to kMaxText when written

    bool operator==(const Refuse&) const = default;
    [[nodiscard]] static std::expected<Refuse, FrameError> parse(std::span<const uint8_t> body);
};

// Parameters that a port offers, in PortInfo's encodings.
struct Link {
    static constexpr size_t kSize = 12;

    bool up = false;
    uint8_t width_enabled = 0;
    uint8_t speed_enabled = 0;
    uint8_t speed_ext_enabled = 0;
    uint8_t mtu_cap = 0;  // 1..5
    uint8_t vl_cap = 0;   // 1..5
    uint16_t epoch = 0;

    bool operator==(const Link&) const = default;
    [[nodiscard]] static std::expected<Link, FrameError> parse(std::span<const uint8_t> body);
};

// The reason for which a link drops a received packet; the port counts these packets by reason.
enum class PacketFault : uint8_t {
    kMalformed,  // wrong LVer or PktLen, too short, or a raw packet
    kTooLong,    // longer than the MTUCap of the receiving port permits
    kIcrc,
    kVcrc,
    kOverrun,  // beyond the credits that were granted
};

// The active values of both PortInfos, negotiated from two LINK frames.
struct ActiveLink {
    uint8_t width = 0;      // LinkWidthActive
    uint8_t speed = 0;      // LinkSpeedActive
    uint8_t speed_ext = 0;  // LinkSpeedExtActive, 0 when a basic speed is active

    bool operator==(const ActiveLink&) const = default;
};
// Returns nullopt if one side does not want a link, or both have no common width or speed.
[[nodiscard]] std::optional<ActiveLink> negotiate(const Link& mine, const Link& theirs);

struct Credit {
    static constexpr size_t kSize = 8;
    static constexpr uint8_t kMaxVl = 14;

    uint8_t vl = 0;
    uint16_t epoch = 0;
    uint32_t limit = 0;  // blocks that may be sent since the LINK of `epoch`, modulo 2^32

    bool operator==(const Credit&) const = default;
    [[nodiscard]] static std::expected<Credit, FrameError> parse(std::span<const uint8_t> body);
};

// ---- peer copy: memory that an adapter shares with its switch, and pulls

inline constexpr size_t kMaxOfferBytes = 1024 * 1024;  // payload of an offer
// The pages of 4096 bytes that 1 MiB touches if it does not start at the start of a page.
inline constexpr size_t kMaxSegments = kMaxOfferBytes / 4096 + 1;
inline constexpr size_t kMaxMemoryBlocks = 16;
// BlockSegment::block of a segment in the pulling side's bounce area.
inline constexpr uint32_t kBounceBlock = 0xFFFFFFFF;

// A segment of a channel adapter's memory.
struct BlockSegment {
    static constexpr size_t kSize = 16;

    uint64_t offset = 0;  // bytes, in the block
    uint32_t block = 0;   // index in MEMORY
    uint32_t length = 0;  // bytes, not 0

    bool operator==(const BlockSegment&) const = default;
};
// Bytes of all segments.
[[nodiscard]] uint64_t segment_bytes(std::span<const BlockSegment> segments);

struct Memory {
    static constexpr size_t kFixed = 8;

    std::vector<uint64_t> blocks{};  // bytes of each; 1..kMaxMemoryBlocks

    bool operator==(const Memory&) const = default;
    [[nodiscard]] static std::expected<Memory, FrameError> parse(std::span<const uint8_t> body);
};

// The offer of a BURST, in the place of its payload. An adapter lists the segments, a switch does
// not.
struct Offer {
    static constexpr size_t kFixed = 16;

    uint64_t handle = 0;  // not 0
    uint32_t bytes = 0;   // payload of all packets, at most kMaxOfferBytes
    std::vector<BlockSegment> segments{};

    bool operator==(const Offer&) const = default;
    // `body`: the bytes after the headers of the burst.
    [[nodiscard]] static std::expected<Offer, FrameError> parse(std::span<const uint8_t> body);
};
[[nodiscard]] constexpr size_t offer_bytes(size_t segments) {
    return Offer::kFixed + segments * BlockSegment::kSize;
}
// Writes offer_bytes(segments.size()) bytes to `to`.
void write_offer(std::span<uint8_t> to, uint64_t handle, uint32_t bytes,
                 std::span<const BlockSegment> segments);

// Requests the copy of an offer's payload to these segments.
struct Pull {
    static constexpr size_t kFixed = 24;

    uint64_t handle = 0;    // handle of the offer
    uint32_t sequence = 0;  // never 0
    uint32_t offset = 0;    // in the payload of the offer, in bytes
    uint32_t length = 0;    // in bytes; equal to the sum of all segments
    std::vector<BlockSegment> segments{};

    bool operator==(const Pull&) const = default;
    [[nodiscard]] static std::expected<Pull, FrameError> parse(std::span<const uint8_t> body);
};

inline constexpr size_t kCreditBlockBytes = 64;
// Credit blocks of a packet; `bytes` counts LRH to VCRC, whether or not the CRCs are elided.
[[nodiscard]] constexpr uint32_t credit_blocks(size_t bytes) {
    return static_cast<uint32_t>((bytes + kCreditBlockBytes - 1) / kCreditBlockBytes);
}

// Appends one whole frame to `out`.
void append(std::vector<uint8_t>& out, const Hello& hello);
void append(std::vector<uint8_t>& out, const Welcome& welcome);
void append(std::vector<uint8_t>& out, const Refuse& refuse);
void append(std::vector<uint8_t>& out, const Link& link);
void append(std::vector<uint8_t>& out, const Credit& credit);
void append(std::vector<uint8_t>& out, const Memory& memory);
void append(std::vector<uint8_t>& out, const Pull& pull);
// A packet may be built in its final place instead: packet_header(), then the packet's bytes.
void append_packet(std::vector<uint8_t>& out, std::span<const uint8_t> packet, bool crc_elided);
[[nodiscard]] std::array<uint8_t, kHeaderSize> packet_header(size_t packet_bytes, bool crc_elided);
[[nodiscard]] std::array<uint8_t, kHeaderSize> burst_header(size_t body_bytes, uint8_t flags = 0);

// A received frame in the buffer of a FrameReader or FrameChannel. The body is valid until the next
// call of FrameReader::space() or FrameChannel::front().
struct Frame {
    FrameType type{};
    uint8_t flags = 0;
    std::span<const uint8_t> body;
    // All bytes of a BURST or a long PACKET in shared memory, which the sender may still change;
    // `body` is a copy of the first ones, with all headers. Empty if `body` has all bytes.
    std::span<const uint8_t> shared{};

    [[nodiscard]] bool crc_elided() const { return (flags & kFlagCrcElided) != 0; }
};

struct FrameHeader {
    FrameType type{};
    uint8_t flags = 0;
    size_t length = 0;  // bytes of the body; within the limits of the type
};
[[nodiscard]] std::expected<FrameHeader, FrameError> parse_frame_header(
    std::span<const uint8_t, kHeaderSize> in);

// Cuts a byte stream into frames. It buffers at most `capacity` bytes, or one frame of kMaxBody if
// that is more. After an error next() always fails, because the next frame boundary is unknown.
class FrameReader {
  public:
    static constexpr size_t kDefaultCapacity = 64 * 1024;

    explicit FrameReader(size_t capacity = kDefaultCapacity);

    // Buffer for further bytes; not empty after next() has returned no frame.
    [[nodiscard]] std::span<uint8_t> space();
    // Reports the number of bytes written to space().
    void commit(size_t bytes);
    // The next whole frame, no value if more bytes are needed, or the error that ends the
    // connection.
    [[nodiscard]] std::expected<std::optional<Frame>, FrameError> next();

  private:
    std::vector<uint8_t> buffer_;
    size_t begin_ = 0;  // first byte not yet handed out
    size_t end_ = 0;    // first free byte
    std::optional<FrameError> error_;
};

}  // namespace pib::link
