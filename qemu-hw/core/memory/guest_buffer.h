// SPDX-License-Identifier: GPL-2.0-or-later
// A buffer of guest memory described by struct pib_hca_pages: the page list is read once, checked
// once, and kept in host memory. Queues and memory regions are both made of it.
//
// Guest RAM is a few large pieces. A buffer that has all of its pages in one of them is as good as
// resolved: one host pointer leads to each page. It is asked for when the buffer is made and again
// after the memory map has changed, at the same small cost however many pages there are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/host.h"
#include "base/status.h"

namespace pib::hca {

class GuestBuffer {
  public:
    // Access that load() proves for the first bytes of each page. kWritable costs the same, and
    // queues then detect a ROM at creation instead of at their first entry.
    enum class Proof : uint8_t { kNone, kReadable, kWritable };

    GuestBuffer() = default;

    // Reads the list; it must cover `bytes` (page_offset included) and have at most `max_pages`
    // pages. BAD_PARAM, BAD_RESERVED or BAD_MEMORY (a table page or, for its first bytes, a listed
    // page is not RAM). What it allocates is bounded by `max_pages` and by table pages that were
    // really read.
    static CmdResult<GuestBuffer> load(Host& host, const pib_hca_pages& pages, uint64_t bytes,
                                       uint32_t max_pages, Proof proof = Proof::kReadable);
    // The same for the buffer of a queue: writable, and counted against the pages that all queues
    // of a kind may list. NO_RESOURCES when max_pages are more than are left.
    static CmdResult<GuestBuffer> load_queue(Host& host, const pib_hca_pages& pages, uint64_t bytes,
                                             uint32_t max_pages, uint64_t& pages_left);

    // Copies at `offset` bytes from the start of the first page, across pages. False when the range
    // leaves the buffer or a page is no longer RAM; then a prefix may have been copied.
    bool read(Host& host, uint64_t offset, std::span<uint8_t> to) const;
    bool write(Host& host, uint64_t offset, std::span<const uint8_t> from) const;

    // piece(host's pointer, bus address, bytes) for each part of the range that is contiguous on
    // the bus, until one returns false; nullptr for what Host::ram() does not answer. False when
    // the range leaves the buffer, too.
    template <typename Piece>
    bool for_each_piece(Host& host, uint64_t offset, uint64_t length, Piece&& piece) const;

    // Bus address of the byte at `offset`; false outside of the buffer.
    bool bus_address(uint64_t offset, uint64_t& bus_addr) const;

    uint32_t page_count() const { return page_count_; }
    uint64_t bytes() const { return uint64_t{page_count_} << log_page_size_; }
    // Pages whose addresses the host keeps, which count against the limit of host memory.
    uint32_t listed_pages() const { return static_cast<uint32_t>(list_.size()); }

  private:
    void find_bounds();
    // The host's pointer to the byte at bus address low_, or nullptr: as Host::ram().
    uint8_t* ram(Host& host) const {
        if (generation_ != host.ram_generation()) {
            generation_ = host.ram_generation();
            ram_ = host.ram(low_, extent_);
        }
        return ram_;
    }
    CmdStatus read_table(Host& host, uint64_t table, unsigned level);
    bool prove(Host& host, Proof proof) const;
    uint64_t bus_of(uint64_t offset) const {
        return page(offset >> log_page_size_) + (offset & ((uint64_t{1} << log_page_size_) - 1));
    }
    uint64_t page(uint64_t index) const {
        return list_.empty() ? root_ + (index << log_page_size_) : list_[index];
    }
    // Bytes from `offset` that are contiguous on the bus, at most `want`.
    uint64_t run(uint64_t offset, uint64_t want) const;
    bool contains(uint64_t offset, uint64_t length) const {
        return offset <= bytes() && length <= bytes() - offset;
    }

    std::vector<uint64_t> list_;  // empty: contiguous from root_
    uint64_t root_ = 0;
    uint64_t low_ = 0;     // on the bus; all pages lie in extent_ bytes from here
    uint64_t extent_ = 0;  // capped at UINT64_MAX
    // Host pointer of low_, valid while generation_ is the host's.
    mutable uint8_t* ram_ = nullptr;
    mutable uint64_t generation_ = 0;  // as of ram_; 0: never asked
    uint32_t page_count_ = 0;
    uint8_t log_page_size_ = PIB_HCA_MIN_LOG_PAGE_SIZE;
};

template <typename Piece>
bool GuestBuffer::for_each_piece(Host& host, uint64_t offset, uint64_t length,
                                 Piece&& piece) const {
    if (!contains(offset, length)) {
        return false;
    }
    uint8_t* const all = ram(host);
    while (length != 0) {
        const uint64_t n = run(offset, length);
        const uint64_t bus_addr = bus_of(offset);
        if (!piece(all != nullptr ? all + (bus_addr - low_) : host.ram(bus_addr, n), bus_addr, n)) {
            return false;
        }
        offset += n;
        length -= n;
    }
    return true;
}

}  // namespace pib::hca
