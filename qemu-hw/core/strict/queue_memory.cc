// SPDX-License-Identifier: GPL-2.0-or-later
#include "strict/queue_memory.h"

#include <array>
#include <cstddef>
#include <iterator>
#include <span>

namespace pib::hca {

namespace {

// Limit of the bytes that is_zero() reads; headers and shadow doorbell pages are smaller.
constexpr size_t kMostBytes = 1024;
// Limit of the entries of a new queue that first_owned() reads.
constexpr uint32_t kMostEntries = 1u << 16;
constexpr uint8_t kOwnerBit = 1;

}  // namespace

bool is_zero(Host& host, const GuestBuffer& buffer, uint64_t offset, uint32_t bytes) {
    std::array<uint8_t, kMostBytes> copy{};
    const auto part = std::span(copy).first(std::min<size_t>(bytes, copy.size()));
    return !buffer.read(host, offset, part) ||
           std::ranges::all_of(part, [](uint8_t byte) { return byte == 0; });
}

std::optional<uint32_t> first_owned(Host& host, const GuestBuffer& buffer,
                                    const QueueLayout& layout) {
    for (uint32_t i = 0; i < std::min(layout.entries, kMostEntries); ++i) {
        const uint64_t end = layout.header + uint64_t{i + 1} * layout.entry_size;
        uint8_t owner = 0;
        if (buffer.read(host, end - 1, {&owner, 1}) && (owner & kOwnerBit) != 0) {
            return i;
        }
    }
    return std::nullopt;
}

std::optional<ForeignOwner> foreign_owner(Host& host, const OwnedRing& ring, uint32_t producer) {
    const uint32_t depth = 1u << ring.log_depth;
    for (const uint32_t counter : {producer - 1, producer - depth}) {
        const uint32_t index = counter & (depth - 1);
        const uint64_t end = ring.header + uint64_t{index + 1} * ring.entry_size;
        uint8_t found = 0;
        const bool written = counter < producer;  // false: the entry was not written yet
        const uint8_t expected = (counter >> ring.log_depth & 1) == 0 ? kOwnerBit : 0;
        if (written && ring.buffer.read(host, end - 1, {&found, 1}) && found != expected) {
            return ForeignOwner{.index = index, .found = found};
        }
    }
    return std::nullopt;
}

const Subject* MemoryClaims::claim(Subject owner, uint64_t bus_addr, uint64_t bytes) {
    const Subject* const other = this->owner(bus_addr, bytes);
    if (other == nullptr) {
        ranges_[bus_addr] = {.end = bus_addr + bytes, .owner = owner};
        begins_[owner].insert(bus_addr);
    }
    return other;
}

const Subject* MemoryClaims::owner(uint64_t bus_addr, uint64_t bytes) const {
    // Finds the last range that begins before the end of the given one.
    const auto after = ranges_.lower_bound(bus_addr + bytes);
    if (after == ranges_.begin()) {
        return nullptr;
    }
    const Range& range = std::prev(after)->second;
    return range.end > bus_addr ? &range.owner : nullptr;
}

void MemoryClaims::release(Subject owner, uint64_t bus_addr) {
    const auto it = begins_.find(owner);
    if (it != begins_.end() && it->second.erase(bus_addr) != 0) {
        ranges_.erase(bus_addr);
    }
}

void MemoryClaims::release(Subject owner) {
    for (const uint64_t bus_addr : begins_[owner]) {
        ranges_.erase(bus_addr);
    }
    begins_.erase(owner);
}

}  // namespace pib::hca
