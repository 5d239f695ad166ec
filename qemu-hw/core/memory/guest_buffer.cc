// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/guest_buffer.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace pib::hca {

namespace {

constexpr uint64_t kTableBytes = kTableEntries * sizeof(uint64_t);
constexpr unsigned kLogTableEntries = 9;
static_assert(1u << kLogTableEntries == kTableEntries);

// Checks the fields of the description, before tables in guest memory are read.
Verdict check_description(const PageList& pages, uint64_t bytes, uint32_t max_pages) {
    if (pages.levels > kMaxTableLevels) {
        return refuse(Rule::kPagesLevels, pages.levels, kMaxTableLevels);
    }
    if (pages.log_page_size < kMinLogPageSize) {
        return refuse(Rule::kPagesSmall, pages.log_page_size, kMinLogPageSize);
    }
    if (pages.log_page_size > kMaxLogPageSize) {
        return refuse(Rule::kPagesLarge, pages.log_page_size, kMaxLogPageSize);
    }
    if (pages.page_count == 0) {
        return refuse(Rule::kPagesNone);
    }
    if (pages.page_count > max_pages) {
        return refuse(Rule::kPagesMany, pages.page_count, max_pages);
    }
    // At most 2^32 pages of 2^30 bytes: no product below overflows 64 bits.
    const uint64_t capacity = uint64_t{pages.page_count} << pages.log_page_size;
    const bool listed = pages.levels > 0;
    const uint64_t alignment = listed ? kTableBytes : uint64_t{1} << pages.log_page_size;
    const uint64_t tables_hold = uint64_t{1} << (kLogTableEntries * pages.levels);
    if (capacity < bytes) {
        return refuse(Rule::kPagesFew, pages.page_count, bytes);
    }
    if (pages.root % alignment != 0) {
        return refuse(Rule::kPagesRoot, pages.root, alignment);
    }
    if (listed && pages.page_count > tables_hold) {
        return refuse(Rule::kPagesTables, pages.page_count, tables_hold);
    }
    if (!listed && pages.root + (capacity - 1) < pages.root) {
        return refuse(Rule::kPagesWrap, pages.root, capacity);
    }
    return CmdStatus::kOk;
}

bool prove_page(Host& host, uint64_t addr, GuestBuffer::Proof proof) {
    if (proof == GuestBuffer::Proof::kReadable) {
        uint8_t byte;
        return host.dma_read(addr, {&byte, 1});
    }
    // A compare-and-swap of zero by zero proves that the page is writable and keeps its contents.
    uint64_t expected = 0;
    return host.dma_cmpxchg64(addr, expected, 0);
}

// Pieces of guest RAM to which the host has pointers. A page in one of them needs no check of its
// own, so a long list takes a few checks per piece of guest RAM instead of one per page.
class ProvenRam {
  public:
    explicit ProvenRam(Host& host) : host_(host) {}

    // Whether the host has a pointer to the page of `bytes` bytes, a power of two. The page is
    // aligned to its size.
    bool has(uint64_t page, uint64_t bytes) {
        const auto around = [&](const Block& block) { return page - block.base < block.bytes; };
        if (around(blocks_[last_])) {
            return true;
        }
        const auto found = std::ranges::find_if(blocks_, around);
        if (found != blocks_.end()) {
            last_ = static_cast<size_t>(found - blocks_.begin());
            return true;
        }
        return failures_ < kMostFailures && add(page, bytes);
    }

  private:
    struct Block {
        uint64_t base = 0;
        uint64_t bytes = 0;
    };
    static constexpr size_t kBlocks = 64;
    static constexpr uint64_t kLargest = uint64_t{1} << 46;
    // Limit of failed requests for a pointer, because behind a vIOMMU each request fails.
    static constexpr unsigned kMostFailures = 64;

    bool add(uint64_t page, uint64_t bytes) {
        if (host_.ram(page, bytes) == nullptr) {
            ++failures_;
            return false;
        }
        while (bytes < kLargest && host_.ram(page & ~(2 * bytes - 1), 2 * bytes) != nullptr) {
            bytes *= 2;
        }
        last_ = next_++ % kBlocks;
        blocks_[last_] = {.base = page & ~(bytes - 1), .bytes = bytes};
        return true;
    }

    Host& host_;
    std::array<Block, kBlocks> blocks_{};
    size_t last_ = 0;
    size_t next_ = 0;
    unsigned failures_ = 0;
};

template <typename T>
bool load_as(const uint8_t* ram, std::span<uint8_t> to) {
    if (to.size() != sizeof(T) || reinterpret_cast<uintptr_t>(ram) % sizeof(T) != 0) {
        return false;
    }
    const T value = __atomic_load_n(reinterpret_cast<const T*>(ram), __ATOMIC_RELAXED);
    std::memcpy(to.data(), &value, sizeof value);
    return true;
}

template <typename T>
bool store_as(uint8_t* ram, std::span<const uint8_t> from) {
    if (from.size() != sizeof(T) || reinterpret_cast<uintptr_t>(ram) % sizeof(T) != 0) {
        return false;
    }
    T value;
    std::memcpy(&value, from.data(), sizeof value);
    __atomic_store_n(reinterpret_cast<T*>(ram), value, __ATOMIC_RELAXED);
    return true;
}

// Drivers and programs poll counters, flags and owner bytes, so an aligned access of 1, 2, 4 or 8
// bytes must be one load or store. memcpy() may split or repeat it.
void load_ram(const uint8_t* ram, std::span<uint8_t> to) {
    if (!load_as<uint8_t>(ram, to) && !load_as<uint16_t>(ram, to) && !load_as<uint32_t>(ram, to) &&
        !load_as<uint64_t>(ram, to)) {
        std::memcpy(to.data(), ram, to.size());
    }
}

void store_ram(uint8_t* ram, std::span<const uint8_t> from) {
    if (!store_as<uint8_t>(ram, from) && !store_as<uint16_t>(ram, from) &&
        !store_as<uint32_t>(ram, from) && !store_as<uint64_t>(ram, from)) {
        std::memcpy(ram, from.data(), from.size());
    }
}

}  // namespace

CmdResult<GuestBuffer> GuestBuffer::load(Host& host, const PageList& pages, uint64_t bytes,
                                         uint32_t max_pages, Proof proof) {
    if (const Verdict s = check_description(pages, bytes, max_pages); s != CmdStatus::kOk) {
        return std::unexpected(s);
    }
    GuestBuffer buffer;
    buffer.page_count_ = pages.page_count;
    buffer.log_page_size_ = pages.log_page_size;
    if (pages.levels == 0) {
        buffer.root_ = pages.root;
    } else if (Verdict verdict = buffer.read_table(host, pages.root, pages.levels);
               verdict != CmdStatus::kOk) {
        verdict.value = pages.root;
        return std::unexpected(verdict);
    }
    buffer.find_bounds();
    if (const auto page = buffer.first_unproven(host, proof)) {
        return std::unexpected(refuse(Rule::kPageMemory, pages.root, *page));
    }
    return buffer;
}

CmdResult<GuestBuffer> GuestBuffer::load_queue(Host& host, const PageList& pages, uint64_t bytes,
                                               uint32_t max_pages, uint64_t& pages_left,
                                               DmaPurpose purpose) {
    if (max_pages > pages_left) {
        return std::unexpected(refuse(Rule::kAllQueuePages, 0, pages_left));
    }
    auto buffer = load(host, pages, bytes, max_pages, Proof::kWritable);
    if (buffer) {
        pages_left -= buffer->listed_pages();
        buffer->serve(purpose);
    }
    return buffer;
}

// Appends the pages below one table. The depth is at most kMaxTableLevels, and every
// successful call adds a page, so page_count_ bounds the work.
Verdict GuestBuffer::read_table(Host& host, uint64_t table, unsigned level) {
    if (table % kTableBytes != 0) {
        return refuse(Rule::kTableAligned, 0, table);
    }
    const uint64_t per_entry = uint64_t{1} << (kLogTableEntries * (level - 1));
    const uint64_t missing = page_count_ - list_.size();
    const uint64_t used = std::min<uint64_t>((missing + per_entry - 1) / per_entry, kTableEntries);
    std::array<uint64_t, kTableEntries> entries;
    host.dma_for(DmaPurpose::kPageList);
    if (!host.dma_read(table, {reinterpret_cast<uint8_t*>(entries.data()), used * 8})) {
        return refuse(Rule::kTableMemory, 0, table);
    }
    for (const uint64_t entry : std::span(entries).first(used)) {
        if (level > 1) {
            if (const Verdict s = read_table(host, entry, level - 1); s != CmdStatus::kOk) {
                return s;
            }
            continue;
        }
        if (entry % (uint64_t{1} << log_page_size_) != 0) {
            return refuse(Rule::kPageAligned, 0, entry);
        }
        list_.push_back(entry);
    }
    return CmdStatus::kOk;
}

// The guest's list may name pages at address 0 and at the end of the 64-bit bus address space, so
// the extent is capped.
void GuestBuffer::find_bounds() {
    const uint64_t page_size = uint64_t{1} << log_page_size_;
    low_ = page(0);
    uint64_t last = page(page_count_ - 1);
    if (!list_.empty()) {
        const auto [lowest, highest] = std::ranges::minmax(list_);
        low_ = lowest;
        last = highest;
    }
    extent_ = last - low_ > UINT64_MAX - page_size ? UINT64_MAX : last - low_ + page_size;
}

std::optional<uint64_t> GuestBuffer::first_unproven(Host& host, Proof proof) const {
    if (proof == Proof::kNone || ram(host) != nullptr) {
        return std::nullopt;
    }
    ProvenRam proven(host);
    for (uint32_t i = 0; i < page_count_; ++i) {
        if (!proven.has(page(i), uint64_t{1} << log_page_size_) &&
            !prove_page(host, page(i), proof)) {
            return page(i);
        }
    }
    return std::nullopt;
}

uint64_t GuestBuffer::run(uint64_t offset, uint64_t want) const {
    if (list_.empty()) {
        return want;
    }
    const uint64_t page_size = uint64_t{1} << log_page_size_;
    uint64_t index = offset >> log_page_size_;
    uint64_t length = page_size - offset % page_size;
    while (length < want && page(index + 1) == page(index) + page_size) {
        length += page_size;
        ++index;
    }
    return std::min(length, want);
}

template <typename Copy>
bool GuestBuffer::load_pieces(Host& host, uint64_t offset, std::span<uint8_t> to,
                              Copy&& copy) const {
    if (!contains(offset, to.size())) {
        return false;
    }
    const uint8_t* const ram = this->ram(host);
    while (!to.empty()) {
        const uint64_t n = run(offset, to.size());
        const uint64_t bus_addr = bus_of(offset);
        if (ram != nullptr) {
            load_ram(ram + (bus_addr - low_), to.first(n));
        } else if (!copy(bus_addr, to.first(n))) {
            return false;
        }
        to = to.subspan(n);
        offset += n;
    }
    return true;
}

bool GuestBuffer::read(Host& host, uint64_t offset, std::span<uint8_t> to) const {
    return load_pieces(host, offset, to, [&](uint64_t bus_addr, std::span<uint8_t> piece) {
        host.dma_for(purpose_);
        return host.dma_read(bus_addr, piece);
    });
}

bool GuestBuffer::look(Host& host, uint64_t offset, std::span<uint8_t> to) const {
    return load_pieces(host, offset, to, [&](uint64_t bus_addr, std::span<uint8_t> piece) {
        return host.look(bus_addr, piece);
    });
}

bool GuestBuffer::write(Host& host, uint64_t offset, std::span<const uint8_t> from) const {
    if (!contains(offset, from.size())) {
        return false;
    }
    uint8_t* const ram = this->ram(host);
    while (!from.empty()) {
        const uint64_t n = run(offset, from.size());
        const uint64_t bus_addr = bus_of(offset);
        if (ram != nullptr) {
            store_ram(ram + (bus_addr - low_), from.first(n));
            host.ram_written(bus_addr, n);
        } else if (host.dma_for(purpose_); !host.dma_write(bus_addr, from.first(n))) {
            return false;
        }
        from = from.subspan(n);
        offset += n;
    }
    return true;
}

bool GuestBuffer::bus_address(uint64_t offset, uint64_t& bus_addr) const {
    if (offset >= bytes()) {
        return false;
    }
    bus_addr = bus_of(offset);
    return true;
}

}  // namespace pib::hca
