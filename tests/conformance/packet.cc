// SPDX-License-Identifier: GPL-2.0-or-later
#include "packet.h"

#include <algorithm>
#include <string_view>

namespace pib::conformance {
namespace {

constexpr size_t kWord = 4;
constexpr size_t kLrhBytes = 8;
constexpr size_t kGrhBytes = 40;
constexpr size_t kBthBytes = 12;
constexpr size_t kIcrcBytes = 4;
constexpr size_t kVcrcBytes = 2;
constexpr uint32_t kLow24 = 0xffffff;

// Extended headers by the low five bits of the opcode: R RETH, T AtomicETH, A AETH, K AtomicAckETH,
// I ImmDt or IETH, F FETH.
constexpr std::array<std::string_view, 32> kHeaders = {
    "",  "",  "",   "I", "",  "I", "R", "",  "", "I", "R", "RI", "R",  "A", "", "A",
    "A", "A", "AK", "T", "T", "",  "I", "I", "", "",  "",  "",   "FR", "R", "", ""};

std::string_view headers_of(uint8_t opcode) {
    return kHeaders[opcode & 0x1f];
}

bool answers(uint8_t opcode) {
    const uint8_t kind = opcode & 0x1f;
    return kind >= kReadFirst && kind <= kAtomicAck;
}

// Headers that the service puts before those of the operation.
std::string_view service_headers(uint8_t opcode) {
    switch (opcode & kServiceMask) {
        case kUd:
            return "D";
        case kXrc:
            return answers(opcode) ? "" : "X";
        default:
            return "";
    }
}

class Writer {
  public:
    void put(uint64_t value, unsigned bytes) {
        for (unsigned i = bytes; i-- > 0;) {
            bytes_.push_back(static_cast<uint8_t>(value >> (8 * i)));
        }
    }
    void put_reversed(uint64_t value, unsigned bytes) {
        for (unsigned i = 0; i < bytes; ++i) {
            bytes_.push_back(static_cast<uint8_t>(value >> (8 * i)));
        }
    }
    void put(ByteSpan more) { bytes_.insert(bytes_.end(), more.begin(), more.end()); }
    Bytes& bytes() { return bytes_; }

  private:
    Bytes bytes_;
};

class Reader {
  public:
    explicit Reader(ByteSpan bytes) : bytes_(bytes) {}
    uint64_t get(size_t count) {
        uint64_t value = 0;
        for (size_t i = 0; i < count; ++i) {
            value = value << 8 | (i < bytes_.size() ? bytes_[i] : 0u);
        }
        short_ = short_ || count > bytes_.size();
        bytes_ = bytes_.subspan(std::min(count, bytes_.size()));
        return value;
    }
    template <typename T>
    void get(T& to, size_t count) {
        to = static_cast<T>(get(count));
    }
    Gid gid() {
        Gid gid;
        for (uint8_t& byte : gid) {
            byte = static_cast<uint8_t>(get(1));
        }
        return gid;
    }
    ByteSpan rest() const { return bytes_; }
    bool fits() const { return !short_; }

  private:
    ByteSpan bytes_;
    bool short_ = false;
};

// Calls field(member, bytes on the wire, bits that are sent) for each field of an extended
// transport header; without the last argument all bits are sent.
template <typename AnyPacket, typename Field>
void each_field(char header, AnyPacket& packet, Field&& field) {
    switch (header) {
        case 'D':
            field(packet.qkey, 4);
            field(packet.source_qp, 4, kLow24);
            break;
        case 'X':
            field(packet.xrc_srq, 4, kLow24);
            break;
        case 'R':
            field(packet.va, 8);
            field(packet.rkey, 4);
            field(packet.dma_length, 4);
            break;
        case 'T':
            field(packet.va, 8);
            field(packet.rkey, 4);
            field(packet.swap_or_add, 8);
            field(packet.compare, 8);
            break;
        case 'A':
            field(packet.syndrome, 1);
            field(packet.msn, 3);
            break;
        case 'K':
            field(packet.original, 8);
            break;
        case 'I':
            field(packet.immediate, 4);
            break;
        default:
            field(packet.flush_type, 4);
            break;
    }
}

void put_header(Writer& out, char header, const Packet& packet) {
    each_field(header, packet, [&](uint64_t value, unsigned bytes, uint64_t sent = ~uint64_t{0}) {
        out.put(value & sent, bytes);
    });
}

void get_header(Reader& in, char header, Packet& packet) {
    each_field(header, packet,
               [&](auto& member, unsigned bytes, uint64_t = 0) { in.get(member, bytes); });
}

void put_transport(Writer& out, const Packet& packet) {
    const auto right_pad = static_cast<uint8_t>((kWord - packet.payload.size() % kWord) % kWord);
    const uint8_t pad = packet.pad.value_or(right_pad);
    out.put(packet.opcode, 1);
    out.put((packet.solicited ? 0x80u : 0) | (packet.migrated ? 0x40u : 0) | (pad & 3u) << 4 |
                (packet.transport_version & 0xfu),
            1);
    out.put(packet.pkey, 2);
    out.put(packet.fecn_becn, 1);
    out.put(packet.dest_qp & kLow24, 3);
    out.put(packet.ack ? 0x80 : 0, 1);
    out.put(packet.psn & kLow24, 3);
    for (const char header : service_headers(packet.opcode)) {
        put_header(out, header, packet);
    }
    for (const char header : headers_of(packet.opcode)) {
        put_header(out, header, packet);
    }
    out.put(packet.payload);
    out.put(Bytes(right_pad));
}

void put_grh(Writer& out, const Grh& grh, size_t transport_bytes) {
    out.put(uint32_t{grh.version} << 28 | uint32_t{grh.traffic_class} << 20 | grh.flow_label, 4);
    out.put(grh.payload_length.value_or(static_cast<uint16_t>(transport_bytes + kIcrcBytes)), 2);
    out.put(grh.next_header, 1);
    out.put(grh.hop_limit, 1);
    out.put(grh.sgid);
    out.put(grh.dgid);
}

Grh get_grh(Reader& in) {
    Grh grh;
    const auto first = static_cast<uint32_t>(in.get(4));
    grh.version = static_cast<uint8_t>(first >> 28);
    grh.traffic_class = static_cast<uint8_t>(first >> 20);
    grh.flow_label = first & 0xfffff;
    grh.payload_length = static_cast<uint16_t>(in.get(2));
    in.get(grh.next_header, 1);
    in.get(grh.hop_limit, 1);
    grh.sgid = in.gid();
    grh.dgid = in.gid();
    return grh;
}

void get_lrh(Reader& in, Packet& packet) {
    const uint64_t lanes = in.get(1);
    packet.vl = static_cast<uint8_t>(lanes >> 4);
    packet.link_version = lanes & 0xf;
    const uint64_t levels = in.get(1);
    packet.sl = static_cast<uint8_t>(levels >> 4);
    packet.lnh = static_cast<uint8_t>(levels & 3);
    in.get(packet.dlid, 2);
    packet.length = static_cast<uint16_t>(in.get(2) & 0x7ff);
    in.get(packet.slid, 2);
}

void get_bth(Reader& in, Packet& packet) {
    in.get(packet.opcode, 1);
    const uint64_t flags = in.get(1);
    packet.solicited = (flags & 0x80) != 0;
    packet.migrated = (flags & 0x40) != 0;
    packet.pad = static_cast<uint8_t>(flags >> 4 & 3);
    packet.transport_version = flags & 0xf;
    in.get(packet.pkey, 2);
    in.get(packet.fecn_becn, 1);
    in.get(packet.dest_qp, 3);
    packet.ack = (in.get(1) & 0x80) != 0;
    in.get(packet.psn, 3);
}

// The checksums are sent with their lowest byte first.
bool checksums_are_right(ByteSpan bytes) {
    if (bytes.size() < kLrhBytes + kBthBytes + kIcrcBytes + kVcrcBytes) {
        return false;
    }
    const ByteSpan invariant = bytes.first(bytes.size() - kIcrcBytes - kVcrcBytes);
    Writer sums;
    sums.put_reversed(icrc(invariant), kIcrcBytes);
    sums.put_reversed(vcrc(bytes.first(bytes.size() - kVcrcBytes)), kVcrcBytes);
    return std::ranges::equal(sums.bytes(), bytes.last(kIcrcBytes + kVcrcBytes));
}

}  // namespace

bool Packet::is_answer() const {
    return answers(opcode);
}

Bytes write_elided(const Packet& packet) {
    Writer transport;
    put_transport(transport, packet);
    const size_t transport_bytes = transport.bytes().size();
    const size_t counted = kLrhBytes + (packet.grh ? kGrhBytes : 0) + transport_bytes + kIcrcBytes;
    Writer out;
    out.put(uint32_t{packet.vl} << 4 | packet.link_version, 1);
    out.put(uint32_t{packet.sl} << 4 | packet.lnh.value_or(packet.grh ? 3 : 2), 1);
    out.put(packet.dlid, 2);
    out.put(packet.length.value_or(static_cast<uint16_t>(counted / kWord)), 2);
    out.put(packet.slid, 2);
    if (packet.grh) {
        put_grh(out, *packet.grh, transport_bytes);
    }
    out.put(transport.bytes());
    return out.bytes();
}

Bytes write(const Packet& packet) {
    Writer out;
    out.put(write_elided(packet));
    out.put_reversed(icrc(out.bytes()), kIcrcBytes);
    out.put_reversed(vcrc(out.bytes()), kVcrcBytes);
    return out.bytes();
}

std::optional<Packet> read(ByteSpan bytes, bool elided) {
    if (!elided && !checksums_are_right(bytes)) {
        return std::nullopt;
    }
    const size_t sums = elided ? 0 : kIcrcBytes + kVcrcBytes;
    Reader in(bytes.first(bytes.size() - sums));
    Packet packet;
    get_lrh(in, packet);
    if (packet.lnh == 3) {
        packet.grh = get_grh(in);
    }
    get_bth(in, packet);
    for (const char header : service_headers(packet.opcode)) {
        get_header(in, header, packet);
    }
    for (const char header : headers_of(packet.opcode)) {
        get_header(in, header, packet);
    }
    const ByteSpan padded = in.rest();
    const size_t counted = bytes.size() - sums + kIcrcBytes;
    if (!in.fits() || *packet.pad > padded.size() || *packet.length != counted / kWord ||
        counted % kWord != 0) {
        return std::nullopt;
    }
    packet.payload.assign(padded.begin(), padded.end() - *packet.pad);
    return packet;
}

}  // namespace pib::conformance
