// SPDX-License-Identifier: GPL-2.0-or-later
// The pcapng format (draft-ietf-opsawg-pcapng), in host byte order, which the format permits. A
// block has its type, its length, its body and its length again.
#include "control/capture_stream.h"

#include <array>
#include <cstring>

#include "ib/link/packet_checksums.h"
#include "switch/erf_header.h"

namespace pib::fabric {
namespace {

constexpr uint32_t kSectionHeader = 0x0A0D0D0A;
constexpr uint32_t kInterfaceDescription = 1;
constexpr uint32_t kInterfaceStatistics = 5;
constexpr uint32_t kEnhancedPacket = 6;

constexpr uint32_t kByteOrder = 0x1A2B3C4D;
constexpr uint32_t kVersion = 1;            // major 1, minor 0
constexpr uint32_t kNoLength = UINT32_MAX;  // both halves of the section's length
constexpr uint32_t kNanoseconds = 9;        // the value of if_tsresol
// An option has its code in the lower and its length in the upper half; code 0 ends the options.
constexpr uint32_t kTimeResolution = 9 | 1 << 16;
constexpr uint32_t kDropped = 5 | 8 << 16;
constexpr uint32_t kEndOfOptions = 0;

constexpr uint32_t kSectionBytes = 28;
constexpr uint32_t kInterfaceBytes = 32;
constexpr uint32_t kStatisticsBytes = 40;
constexpr uint32_t kPacketBytes = 32;  // the block of a packet, without its data
constexpr std::array<uint8_t, 4> kPadding{};

}  // namespace

// Allocates the whole buffer here: a packet must not cause std::bad_alloc, which would end a
// device's connection.
CaptureStream::CaptureStream(std::string_view greeting, int64_t wall_offset_ns, size_t room)
    : room_(room), wall_offset_ns_(wall_offset_ns) {
    buffer_.reserve(2 * room);
    buffer_.assign(greeting.begin(), greeting.end());
    start();
}

bool CaptureStream::has_room(size_t bytes) const {
    return pending().size() + bytes <= room_;
}

void CaptureStream::put(std::span<const uint8_t> bytes) {
    if (buffer_.size() + bytes.size() > buffer_.capacity()) {
        buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<ptrdiff_t>(sent_));
        sent_ = 0;
    }
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void CaptureStream::put(uint32_t value) {
    std::array<uint8_t, sizeof(value)> bytes;
    std::memcpy(bytes.data(), &value, sizeof(value));
    put(bytes);
}

void CaptureStream::put_time(uint64_t wall_ns) {
    put(static_cast<uint32_t>(wall_ns >> 32));
    put(static_cast<uint32_t>(wall_ns));
}

void CaptureStream::start() {
    for (const uint32_t word :
         {kSectionHeader, kSectionBytes, kByteOrder, kVersion, kNoLength, kNoLength, kSectionBytes,
          kInterfaceDescription, kInterfaceBytes, kLinkTypeErf, 0U /* no limit of lengths */,
          kTimeResolution, kNanoseconds, kEndOfOptions, kInterfaceBytes}) {
        put(word);
    }
}

void CaptureStream::tell_losses() {
    if (told_ == lost_ || !has_room(kStatisticsBytes)) {
        return;
    }
    put(kInterfaceStatistics);
    put(kStatisticsBytes);
    put(0U);  // number of the interface
    put_time(last_ns_);
    put(kDropped);
    std::array<uint8_t, sizeof(lost_)> count;
    std::memcpy(count.data(), &lost_, sizeof(lost_));
    put(count);
    put(kEndOfOptions);
    put(kStatisticsBytes);
    told_ = lost_;
}

void CaptureStream::add(std::span<const uint8_t> packet, const Arrival& arrival) {
    std::array<uint8_t, ib::kMaxPacket + kCrcBytes> bytes;
    const size_t size = packet.size() + kCrcBytes;
    last_ns_ = arrival.now_ns + static_cast<uint64_t>(wall_offset_ns_);
    const size_t data = kErfBytes + size;
    const size_t padding = (4 - data % 4) % 4;
    const size_t block = kPacketBytes + data + padding;
    if (size > bytes.size() || !has_room(block + kStatisticsBytes)) {
        ++lost_;
        return;
    }
    tell_losses();
    std::memcpy(bytes.data(), packet.data(), packet.size());
    link::append_crcs(std::span(bytes).first(size));
    put(kEnhancedPacket);
    put(static_cast<uint32_t>(block));
    put(0U);  // number of the interface
    put_time(last_ns_);
    put(static_cast<uint32_t>(data));  // bytes captured
    put(static_cast<uint32_t>(data));  // bytes of the packet
    put(erf_header({.wall_ns = last_ns_, .bytes = size, .lost = lost_ - lost_before_}, arrival));
    lost_before_ = lost_;
    put(std::span(bytes).first(size));
    put(std::span(kPadding).first(padding));
    put(static_cast<uint32_t>(block));
}

void CaptureStream::sent(size_t bytes) {
    sent_ += bytes;
    if (sent_ == buffer_.size()) {
        buffer_.clear();
        sent_ = 0;
        tell_losses();
    }
}

}  // namespace pib::fabric
