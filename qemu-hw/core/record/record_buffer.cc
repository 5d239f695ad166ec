// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/record_buffer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "ib/wire/crc.h"

namespace pib::hca::record {
namespace {

// Room in bytes for a tag and at most six numbers.
constexpr size_t kLongest = 80;

}  // namespace

RecordBuffer::RecordBuffer(Host& host, Sink& sink, uint64_t limit)
    : host_(host), sink_(sink), limit_(limit), buffer_(sizeof(BlockHeader) + kMostBlockBytes) {
    std::array<uint8_t, kMagic.size() + sizeof(kVersion)> start{};
    std::ranges::copy(kMagic, start.begin());
    std::memcpy(&start[kMagic.size()], &kVersion, sizeof(kVersion));
    write(start);
}

void RecordBuffer::make_room() {
    if (buffer_.size() - used_ < kLongest) {
        flush();
    }
}

void RecordBuffer::put_number(uint64_t number) {
    while (number >= 0x80) {
        put(static_cast<uint8_t>(number | 0x80));
        number >>= 7;
    }
    put(static_cast<uint8_t>(number));
}

void RecordBuffer::put_fixed(uint64_t number, unsigned bytes) {
    for (unsigned i = 0; i < bytes; ++i) {
        put(static_cast<uint8_t>(number >> (8 * i)));
    }
}

void RecordBuffer::put_bytes(std::span<const uint8_t> bytes) {
    while (!bytes.empty()) {
        if (used_ == buffer_.size()) {
            flush();
        }
        const size_t n = std::min(bytes.size(), buffer_.size() - used_);
        std::copy_n(bytes.begin(), n, buffer_.begin() + static_cast<ptrdiff_t>(used_));
        used_ += n;
        bytes = bytes.subspan(n);
    }
}

void RecordBuffer::flush() {
    if (stopped_ || used_ == sizeof(BlockHeader)) {
        used_ = sizeof(BlockHeader);
        return;
    }
    const std::span block(buffer_.data(), used_);
    const auto content = block.subspan(sizeof(BlockHeader));
    crc_state_ = ib::crc32_update(crc_state_, content);
    const BlockHeader header{.bytes = static_cast<uint32_t>(content.size()), .crc = ~crc_state_};
    std::memcpy(block.data(), &header, sizeof(header));
    write(block);
    used_ = sizeof(BlockHeader);
}

void RecordBuffer::write(std::span<const uint8_t> bytes) {
    if (written_ + bytes.size() > limit_) {
        host_.log(LogLevel::kWarning,
                  "the recording has reached its limit of " + std::to_string(limit_) +
                      " bytes and ends here; it can be replayed. For a longer one, start the VM "
                      "with a larger record-limit");
        stop();
        return;
    }
    stopped_ = !sink_.write(bytes);
    written_ += bytes.size();
}

// Drops the events in the buffer, because the last event may be incomplete.
void RecordBuffer::stop() {
    stopped_ = true;
    used_ = sizeof(BlockHeader);
}

}  // namespace pib::hca::record
