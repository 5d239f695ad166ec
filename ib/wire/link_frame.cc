// SPDX-License-Identifier: GPL-2.0-or-later
// Frames of the fabric link protocol. Each parser checks the whole body before it returns a value,
// reserved fields included, so that later versions can use them.
#include "ib/wire/link_frame.h"

#include <algorithm>
#include <bit>

#include "ib/wire/field.h"
#include "ib/wire/utf8.h"

namespace pib::link {
namespace {

using Bytes = std::span<const uint8_t>;

bool all_zero(Bytes bytes) {
    return std::ranges::all_of(bytes, [](uint8_t byte) { return byte == 0; });
}

// Body lengths and flags that a frame type admits; row 0 is type 1.
struct FrameRule {
    uint32_t min_length;
    uint32_t max_length;
    uint8_t flags;
};
constexpr size_t kRefuseFixed = 4;
constexpr size_t kLrhSize = 8;
constexpr FrameRule kRules[] = {
    // A HELLO of another version may have another length; its parser reads the version first.
    {8, kMaxBody, 0},
    {8, kMaxBody, 0},
    {kRefuseFixed, kRefuseFixed + Refuse::kMaxText, 0},
    {Link::kSize, Link::kSize, 0},
    {Credit::kSize, Credit::kSize, 0},
    {kLrhSize, kMaxBody, kFlagCrcElided},
    {ib::kBurstPayload, kMaxBurstBody, kFlagOffer},
    {Memory::kFixed + 8, Memory::kFixed + kMaxMemoryBlocks * 8, 0},
    {Pull::kFixed + BlockSegment::kSize, Pull::kFixed + kMaxSegments* BlockSegment::kSize, 0},
};
// Largest body of an offer.
constexpr uint32_t kMaxOfferBody = ib::kBurstPayload + offer_bytes(kMaxSegments);
static_assert(kMaxOfferBody <= kMaxBody);

// Appends a frame with a zeroed body, and returns the body for the caller to fill.
std::span<uint8_t> append_frame(std::vector<uint8_t>& out, FrameType type, size_t length,
                                uint8_t flags = 0) {
    const size_t start = out.size();
    out.resize(start + kHeaderSize + length);
    out[start] = static_cast<uint8_t>(type);
    out[start + 1] = flags;
    ib::store_be(&out[start + 4], static_cast<uint32_t>(length));
    return std::span(out).subspan(start + kHeaderSize, length);
}

// The text before the padding; nullopt if bytes follow the padding, or it is not UTF-8.
std::optional<std::string> parse_description(Bytes bytes) {
    const auto end = std::ranges::find(bytes, uint8_t{0});
    if (!all_zero(Bytes(end, bytes.end()))) {
        return std::nullopt;
    }
    std::string text(bytes.begin(), end);
    return ib::is_printable_utf8(text) ? std::optional(std::move(text)) : std::nullopt;
}

}  // namespace

const char* to_string(FrameError error) {
    static constexpr std::array<const char*, 7> kNames = {
        "unknown frame type", "unknown frame flag",     "reserved field not zero",
        "bad frame length",   "other protocol version", "malformed HELLO",
        "field out of range"};
    const auto index = static_cast<size_t>(error);
    return index < kNames.size() ? kNames[index] : "unknown";
}

std::expected<FrameHeader, FrameError> parse_frame_header(
    std::span<const uint8_t, kHeaderSize> in) {
    if (in[0] == 0 || in[0] > std::size(kRules)) {
        return std::unexpected(FrameError::kType);
    }
    const FrameRule& rule = kRules[in[0] - 1];
    if ((in[1] & ~rule.flags) != 0) {
        return std::unexpected(FrameError::kFlags);
    }
    if (!all_zero(in.subspan<2, 2>())) {
        return std::unexpected(FrameError::kReserved);
    }
    const auto length = ib::load_be<uint32_t>(&in[4]);
    const bool offer = (in[1] & kFlagOffer) != 0;
    if (length < rule.min_length || length > (offer ? kMaxOfferBody : rule.max_length)) {
        return std::unexpected(FrameError::kLength);
    }
    return FrameHeader{static_cast<FrameType>(in[0]), in[1], length};
}

std::expected<Hello, FrameError> Hello::parse(Bytes body) {
    if (body.size() < 8 || ib::load_be<uint32_t>(&body[0]) != kMagic) {
        return std::unexpected(FrameError::kMalformedHello);
    }
    if (ib::load_be<uint16_t>(&body[4]) != kVersionMajor) {
        return std::unexpected(FrameError::kVersion);
    }
    if (body.size() != kSize) {
        return std::unexpected(FrameError::kMalformedHello);
    }
    auto description = parse_description(body.subspan(40, kDescriptionSize));
    const uint8_t role = body[12];
    const bool reserved_clear = all_zero(body.subspan(14, 2)) && all_zero(body.subspan(32, 8)) &&
                                all_zero(body.subspan(104, 8));
    Hello hello{.version_minor = ib::load_be<uint16_t>(&body[6]),
                .features = ib::load_be<uint32_t>(&body[8]),
                .role = static_cast<Role>(role),
                .port_number = body[13],
                .node_guid = ib::Guid(ib::load_be<uint64_t>(&body[16])),
                .port_guid = ib::Guid(ib::load_be<uint64_t>(&body[24])),
                .node_description = {}};
    const bool role_known = role == 1 || role == 2;
    const bool port_valid = hello.port_number >= 1 && hello.port_number <= 254;
    const bool guids_set = hello.node_guid != ib::Guid{} && hello.port_guid != ib::Guid{};
    if (!description || !reserved_clear || !role_known || !port_valid || !guids_set) {
        return std::unexpected(FrameError::kMalformedHello);
    }
    hello.node_description = std::move(*description);
    return hello;
}

void append(std::vector<uint8_t>& out, const Hello& hello) {
    const auto body = append_frame(out, FrameType::kHello, Hello::kSize);
    ib::store_be(&body[0], kMagic);
    ib::store_be(&body[4], kVersionMajor);
    ib::store_be(&body[6], hello.version_minor);
    ib::store_be(&body[8], hello.features);
    body[12] = static_cast<uint8_t>(hello.role);
    body[13] = hello.port_number;
    ib::store_be(&body[16], hello.node_guid.value());
    ib::store_be(&body[24], hello.port_guid.value());
    std::ranges::copy(ib::utf8_prefix(hello.node_description, Hello::kDescriptionSize), &body[40]);
}

std::expected<Welcome, FrameError> Welcome::parse(Bytes body) {
    if (body.size() < 2) {
        return std::unexpected(FrameError::kLength);
    }
    if (ib::load_be<uint16_t>(&body[0]) != kVersionMajor) {
        return std::unexpected(FrameError::kVersion);
    }
    if (body.size() != kSize) {
        return std::unexpected(FrameError::kLength);
    }
    if (!all_zero(body.subspan(17))) {
        return std::unexpected(FrameError::kReserved);
    }
    return Welcome{.version_minor = ib::load_be<uint16_t>(&body[2]),
                   .features = ib::load_be<uint32_t>(&body[4]),
                   .switch_guid = ib::Guid(ib::load_be<uint64_t>(&body[8])),
                   .port_number = body[16]};
}

void append(std::vector<uint8_t>& out, const Welcome& welcome) {
    const auto body = append_frame(out, FrameType::kWelcome, Welcome::kSize);
    ib::store_be(&body[0], kVersionMajor);
    ib::store_be(&body[2], welcome.version_minor);
    ib::store_be(&body[4], welcome.features);
    ib::store_be(&body[8], welcome.switch_guid.value());
    body[16] = welcome.port_number;
}

std::expected<Refuse, FrameError> Refuse::parse(Bytes body) {
    if (body.size() < kRefuseFixed || body.size() > kRefuseFixed + kMaxText ||
        ib::load_be<uint16_t>(&body[2]) != body.size() - kRefuseFixed) {
        return std::unexpected(FrameError::kLength);
    }
    // Accepts unknown reasons, which a later version may send.
    Refuse refuse{.reason = static_cast<RefuseReason>(ib::load_be<uint16_t>(&body[0])),
                  .text = std::string(body.begin() + kRefuseFixed, body.end())};
    if (!ib::is_printable_utf8(refuse.text)) {
        return std::unexpected(FrameError::kValue);
    }
    return refuse;
}

void append(std::vector<uint8_t>& out, const Refuse& refuse) {
    const std::string_view text = ib::utf8_prefix(refuse.text, Refuse::kMaxText);
    const auto body = append_frame(out, FrameType::kRefuse, kRefuseFixed + text.size());
    ib::store_be(&body[0], static_cast<uint16_t>(refuse.reason));
    ib::store_be(&body[2], static_cast<uint16_t>(text.size()));
    std::ranges::copy(text, body.subspan(kRefuseFixed).begin());
}

std::expected<Link, FrameError> Link::parse(Bytes body) {
    if (body.size() != kSize) {
        return std::unexpected(FrameError::kLength);
    }
    if (!all_zero(body.subspan(8))) {
        return std::unexpected(FrameError::kReserved);
    }
    const bool caps_valid = body[4] >= 1 && body[4] <= 5 && body[5] >= 1 && body[5] <= 5;
    if (body[0] > 1 || !caps_valid) {
        return std::unexpected(FrameError::kValue);
    }
    return Link{.up = body[0] == 1,
                .width_enabled = body[1],
                .speed_enabled = body[2],
                .speed_ext_enabled = body[3],
                .mtu_cap = body[4],
                .vl_cap = body[5],
                .epoch = ib::load_be<uint16_t>(&body[6])};
}

void append(std::vector<uint8_t>& out, const Link& link) {
    const auto body = append_frame(out, FrameType::kLink, Link::kSize);
    body[0] = link.up ? 1 : 0;
    body[1] = link.width_enabled;
    body[2] = link.speed_enabled;
    body[3] = link.speed_ext_enabled;
    body[4] = link.mtu_cap;
    body[5] = link.vl_cap;
    ib::store_be(&body[6], link.epoch);
}

namespace {

// LinkWidth codes from the widest to the narrowest: 12x, 8x, 4x, 2x, 1x.
constexpr uint8_t kWidths[] = {8, 4, 2, 16, 1};

// LinkSpeedExtEnabled has four speed bits; the fifth is set only in 30, which means none.
uint8_t extended_speeds(uint8_t enabled) {
    return (enabled & 0x10) != 0 ? uint8_t{0} : enabled & 0x0F;
}

}  // namespace

std::optional<ActiveLink> negotiate(const Link& mine, const Link& theirs) {
    if (!mine.up || !theirs.up) {
        return std::nullopt;
    }
    const auto common = [](uint8_t a, uint8_t b) -> uint8_t { return a & b; };
    const uint8_t widths = common(mine.width_enabled, theirs.width_enabled);
    const auto width = std::ranges::find_if(kWidths, [&](auto w) { return (widths & w) != 0; });
    const uint8_t ext =
        common(extended_speeds(mine.speed_ext_enabled), extended_speeds(theirs.speed_ext_enabled));
    const uint8_t basic = common(mine.speed_enabled, theirs.speed_enabled) & 0x0F;
    if (width == std::end(kWidths) || (ext == 0 && basic == 0)) {
        return std::nullopt;
    }
    ActiveLink active{.width = *width, .speed = std::bit_floor(basic), .speed_ext = 0};
    if (ext != 0) {
        active.speed_ext = std::bit_floor(ext);
    }
    return active;
}

std::expected<Credit, FrameError> Credit::parse(Bytes body) {
    if (body.size() != kSize) {
        return std::unexpected(FrameError::kLength);
    }
    if (body[1] != 0) {
        return std::unexpected(FrameError::kReserved);
    }
    if (body[0] > kMaxVl) {
        return std::unexpected(FrameError::kValue);
    }
    return Credit{.vl = body[0],
                  .epoch = ib::load_be<uint16_t>(&body[2]),
                  .limit = ib::load_be<uint32_t>(&body[4])};
}

void append(std::vector<uint8_t>& out, const Credit& credit) {
    const auto body = append_frame(out, FrameType::kCredit, Credit::kSize);
    body[0] = credit.vl;
    ib::store_be(&body[2], credit.epoch);
    ib::store_be(&body[4], credit.limit);
}

void append_packet(std::vector<uint8_t>& out, Bytes packet, bool crc_elided) {
    const auto body = append_frame(out, FrameType::kPacket, packet.size(),
                                   crc_elided ? kFlagCrcElided : uint8_t{0});
    std::ranges::copy(packet, body.begin());
}

namespace {

std::array<uint8_t, kHeaderSize> frame_header(FrameType type, uint8_t flags, size_t body_bytes) {
    std::array<uint8_t, kHeaderSize> header;
    ib::store_be(header.data(), static_cast<uint64_t>(type) << 56 | uint64_t{flags} << 48 |
                                    static_cast<uint32_t>(body_bytes));
    return header;
}

}  // namespace

std::array<uint8_t, kHeaderSize> packet_header(size_t packet_bytes, bool crc_elided) {
    return frame_header(FrameType::kPacket, crc_elided ? kFlagCrcElided : uint8_t{0}, packet_bytes);
}

std::array<uint8_t, kHeaderSize> burst_header(size_t body_bytes, uint8_t flags) {
    return frame_header(FrameType::kBurst, flags, body_bytes);
}

// ---- peer copy

namespace {

// The `count` segments that fill `body`; nullopt if their number differs, or one of them is empty.
std::optional<std::vector<BlockSegment>> parse_segments(Bytes body, uint32_t count) {
    if (count > kMaxSegments || body.size() != count * BlockSegment::kSize) {
        return std::nullopt;
    }
    std::vector<BlockSegment> segments(count);
    for (BlockSegment& segment : segments) {
        segment = {.offset = ib::load_be<uint64_t>(&body[0]),
                   .block = ib::load_be<uint32_t>(&body[8]),
                   .length = ib::load_be<uint32_t>(&body[12])};
        if (segment.length == 0) {
            return std::nullopt;
        }
        body = body.subspan(BlockSegment::kSize);
    }
    return segments;
}

void write_segments(std::span<uint8_t> to, std::span<const BlockSegment> segments) {
    for (const BlockSegment& segment : segments) {
        ib::store_be(&to[0], segment.offset);
        ib::store_be(&to[8], segment.block);
        ib::store_be(&to[12], segment.length);
        to = to.subspan(BlockSegment::kSize);
    }
}

bool is_offer_size(uint32_t bytes) {
    return bytes != 0 && bytes <= kMaxOfferBytes;
}

}  // namespace

uint64_t segment_bytes(std::span<const BlockSegment> segments) {
    uint64_t sum = 0;
    for (const BlockSegment& segment : segments) {
        sum += segment.length;
    }
    return sum;
}

std::expected<Memory, FrameError> Memory::parse(Bytes body) {
    if (body.size() < kFixed || body.size() != kFixed + 8U * ib::load_be<uint16_t>(&body[0])) {
        return std::unexpected(FrameError::kLength);
    }
    if (!all_zero(body.subspan(2, kFixed - 2))) {
        return std::unexpected(FrameError::kReserved);
    }
    Memory memory;
    for (size_t at = kFixed; at < body.size(); at += 8) {
        memory.blocks.push_back(ib::load_be<uint64_t>(&body[at]));
        if (memory.blocks.back() == 0) {
            return std::unexpected(FrameError::kValue);
        }
    }
    return memory;
}

void append(std::vector<uint8_t>& out, const Memory& memory) {
    const auto body =
        append_frame(out, FrameType::kMemory, Memory::kFixed + 8 * memory.blocks.size());
    ib::store_be(&body[0], static_cast<uint16_t>(memory.blocks.size()));
    for (size_t i = 0; i < memory.blocks.size(); ++i) {
        ib::store_be(&body[Memory::kFixed + 8 * i], memory.blocks[i]);
    }
}

std::expected<Offer, FrameError> Offer::parse(Bytes body) {
    if (body.size() < kFixed) {
        return std::unexpected(FrameError::kLength);
    }
    Offer offer{.handle = ib::load_be<uint64_t>(&body[0]),
                .bytes = ib::load_be<uint32_t>(&body[8])};
    auto segments = parse_segments(body.subspan(kFixed), ib::load_be<uint32_t>(&body[12]));
    if (!segments) {
        return std::unexpected(FrameError::kLength);
    }
    offer.segments = std::move(*segments);
    const bool whole = offer.segments.empty() || segment_bytes(offer.segments) == offer.bytes;
    if (offer.handle == 0 || !is_offer_size(offer.bytes) || !whole) {
        return std::unexpected(FrameError::kValue);
    }
    return offer;
}

void write_offer(std::span<uint8_t> to, uint64_t handle, uint32_t bytes,
                 std::span<const BlockSegment> segments) {
    ib::store_be(&to[0], handle);
    ib::store_be(&to[8], bytes);
    ib::store_be(&to[12], static_cast<uint32_t>(segments.size()));
    write_segments(to.subspan(Offer::kFixed), segments);
}

std::expected<Pull, FrameError> Pull::parse(Bytes body) {
    if (body.size() < kFixed) {
        return std::unexpected(FrameError::kLength);
    }
    Pull pull{.handle = ib::load_be<uint64_t>(&body[0]),
              .sequence = ib::load_be<uint32_t>(&body[8]),
              .offset = ib::load_be<uint32_t>(&body[12]),
              .length = ib::load_be<uint32_t>(&body[16])};
    auto segments = parse_segments(body.subspan(kFixed), ib::load_be<uint32_t>(&body[20]));
    if (!segments) {
        return std::unexpected(FrameError::kLength);
    }
    pull.segments = std::move(*segments);
    if (pull.handle == 0 || pull.sequence == 0 || !is_offer_size(pull.length) ||
        pull.offset > kMaxOfferBytes - pull.length || segment_bytes(pull.segments) != pull.length) {
        return std::unexpected(FrameError::kValue);
    }
    return pull;
}

void append(std::vector<uint8_t>& out, const Pull& pull) {
    const auto body = append_frame(out, FrameType::kPull,
                                   Pull::kFixed + BlockSegment::kSize * pull.segments.size());
    ib::store_be(&body[0], pull.handle);
    ib::store_be(&body[8], pull.sequence);
    ib::store_be(&body[12], pull.offset);
    ib::store_be(&body[16], pull.length);
    ib::store_be(&body[20], static_cast<uint32_t>(pull.segments.size()));
    write_segments(body.subspan(Pull::kFixed), pull.segments);
}

FrameReader::FrameReader(size_t capacity) : buffer_(std::max(capacity, kHeaderSize + kMaxBody)) {}

std::span<uint8_t> FrameReader::space() {
    // Moves bytes at most once per filled buffer: the rest is less than one frame.
    if (begin_ == end_) {
        begin_ = end_ = 0;
    } else if (buffer_.size() - begin_ < kHeaderSize + kMaxBody) {
        std::copy(buffer_.begin() + static_cast<ptrdiff_t>(begin_),
                  buffer_.begin() + static_cast<ptrdiff_t>(end_), buffer_.begin());
        end_ -= begin_;
        begin_ = 0;
    }
    return std::span(buffer_).subspan(end_);
}

void FrameReader::commit(size_t bytes) {
    end_ = std::min(end_ + bytes, buffer_.size());
}

std::expected<std::optional<Frame>, FrameError> FrameReader::next() {
    if (error_) {
        return std::unexpected(*error_);
    }
    const Bytes unread = Bytes(buffer_).subspan(begin_, end_ - begin_);
    if (unread.size() < kHeaderSize) {
        return std::nullopt;
    }
    const auto header = parse_frame_header(unread.first<kHeaderSize>());
    const bool misplaced =
        header && (header->type == FrameType::kBurst || header->type == FrameType::kPull);
    if (!header || misplaced) {
        error_ = header ? FrameError::kType : header.error();
        return std::unexpected(*error_);
    }
    if (unread.size() - kHeaderSize < header->length) {
        return std::nullopt;
    }
    begin_ += kHeaderSize + header->length;
    return Frame{header->type, header->flags, unread.subspan(kHeaderSize, header->length)};
}

}  // namespace pib::link
