// SPDX-License-Identifier: GPL-2.0-or-later
// Memory that the driver has passed to the device for queues: checks of the bytes that must be zero
// at first, and the queue that owns the memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "base/host.h"
#include "memory/guest_buffer.h"
#include "rules/refusals.h"

namespace pib::hca {

// The parts of a queue's buffer.
struct QueueLayout {
    // Bytes of the queue; the rest of its last page does not belong to the queue.
    uint64_t bytes = 0;
    // Bytes of the header at the start of the buffer; 0: there is no header.
    uint32_t header = 0;
    // Size in bytes and number of the entries after the header. The device writes them, each with
    // an owner bit in its last byte. 0: the device writes no entries to this queue.
    uint32_t entry_size = 0;
    uint32_t entries = 0;
};

// Whether `bytes` bytes at `offset` are 0; at most 1024 are read. Also true if the bytes cannot be
// read, because another rule covers unreadable memory.
[[nodiscard]] bool is_zero(Host& host, const GuestBuffer& buffer, uint64_t offset, uint32_t bytes);
// Index of the first entry in a new queue whose owner bit is set, so that software would take the
// entry for one that the device has written. Reads at most 2^16 entries.
[[nodiscard]] std::optional<uint32_t> first_owned(Host& host, const GuestBuffer& buffer,
                                                  const QueueLayout& layout);

// The ring of an EQ or CQ.
struct OwnedRing {
    const GuestBuffer& buffer;
    uint32_t header = 0;  // bytes before the entries
    uint32_t entry_size = 0;
    uint32_t log_depth = 0;
};

// An entry whose owner byte is not what the device wrote.
struct ForeignOwner {
    uint32_t index = 0;
    uint8_t found = 0;
};

// Checks the owner bytes of the entry that the device has written last and of the entry that it
// writes next. No value: the driver has changed neither.
[[nodiscard]] std::optional<ForeignOwner> foreign_owner(Host& host, const OwnedRing& ring,
                                                        uint32_t producer);

// Calls run(bus address, bytes) for each page of the first `bytes` bytes of the buffer.
template <typename F>
void for_each_run(const GuestBuffer& buffer, uint64_t bytes, F&& run) {
    const uint64_t page_size = buffer.bytes() / std::max(buffer.page_count(), 1u);
    for (uint64_t offset = 0; offset < bytes; offset += page_size) {
        uint64_t bus_addr = 0;
        if (!buffer.bus_address(offset, bus_addr)) {
            return;
        }
        run(bus_addr, std::min(page_size, bytes - offset));
    }
}

// Ranges of bus addresses with their owners.
class MemoryClaims {
  public:
    // claim() makes `owner` the owner of the range and returns nullptr; if a byte of the range has
    // an owner already, it only returns that owner. owner(): the owner of a byte of the range, or
    // nullptr.
    const Subject* claim(Subject owner, uint64_t bus_addr, uint64_t bytes);
    const Subject* owner(uint64_t bus_addr, uint64_t bytes) const;
    void release(Subject owner);
    // Releases the owner's range that begins at `bus_addr`.
    void release(Subject owner, uint64_t bus_addr);
    void clear() {
        ranges_.clear();
        begins_.clear();
    }

  private:
    struct Range {
        uint64_t end = 0;
        Subject owner;
    };
    std::map<uint64_t, Range> ranges_;              // by their first address; they do not overlap
    std::map<Subject, std::set<uint64_t>> begins_;  // the first addresses of each owner's ranges
};

}  // namespace pib::hca
