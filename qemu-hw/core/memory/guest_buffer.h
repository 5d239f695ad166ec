// SPDX-License-Identifier: GPL-2.0-or-later
// A buffer of guest memory that struct PageList describes. The page list is read and checked
// once, and kept in host memory. Queues and memory regions consist of such buffers.
//
// Guest RAM is a few large pieces. If all pages of a buffer are in the same piece, one host pointer
// reaches all of them. The buffer asks the host for that pointer at its creation, and again after a
// change of the memory map, at the same small cost for any number of pages.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/host.h"
#include "base/verdict.h"
#include "memory/page_list.h"

namespace pib::hca {

class GuestBuffer {
  public:
    // How load() checks the first bytes of each page. Queues use kWritable, so that a queue in ROM
    // is refused at its creation, before the device writes an entry.
    enum class Proof : uint8_t { kNone, kReadable, kWritable };

    GuestBuffer() = default;

    // Reads the list, which must cover `bytes` (page_offset included) and have at most `max_pages`
    // pages. Errors: BAD_PARAM, or BAD_MEMORY (a table page is not RAM, or a page fails `proof`).
    // `max_pages` and the table pages that were actually read bound the allocation.
    static CmdResult<GuestBuffer> load(Host& host, const PageList& pages, uint64_t bytes,
                                       uint32_t max_pages, Proof proof = Proof::kReadable);
    // Does the same with kWritable for the buffer of a queue, and takes its listed pages from
    // `pages_left`, the number of pages that the queues of this kind may still list. Further error:
    // NO_RESOURCES (`max_pages` exceeds `pages_left`).
    static CmdResult<GuestBuffer> load_queue(Host& host, const PageList& pages, uint64_t bytes,
                                             uint32_t max_pages, uint64_t& pages_left,
                                             DmaPurpose purpose);

    // Sets the purpose that accesses without a host pointer pass to Host::dma_for().
    void serve(DmaPurpose purpose) { purpose_ = purpose; }

    // Copies from or to the bytes at `offset`, counted from the start of the first page, across
    // pages. False: the range leaves the buffer, or a page is no longer RAM; a prefix may have been
    // copied.
    [[nodiscard]] bool read(Host& host, uint64_t offset, std::span<uint8_t> to) const;
    [[nodiscard]] bool write(Host& host, uint64_t offset, std::span<const uint8_t> from) const;

    // Does the same as read(), but by Host::look(), which traces and recordings leave out.
    [[nodiscard]] bool look(Host& host, uint64_t offset, std::span<uint8_t> to) const;

    // Calls piece(host pointer, bus address, bytes) for each part of the range that is contiguous
    // on the bus, until a call returns false. The pointer is nullptr where Host::ram() has none.
    // False: a call has returned false, or the range leaves the buffer.
    template <typename Piece>
    [[nodiscard]] bool for_each_piece(Host& host, uint64_t offset, uint64_t length,
                                      Piece&& piece) const;

    // Bus address of the byte at `offset`; false outside the buffer.
    [[nodiscard]] bool bus_address(uint64_t offset, uint64_t& bus_addr) const;

    uint32_t page_count() const { return page_count_; }
    uint64_t bytes() const { return uint64_t{page_count_} << log_page_size_; }
    // Pages whose addresses are kept in host memory; they count against a limit.
    uint32_t listed_pages() const { return static_cast<uint32_t>(list_.size()); }

  private:
    void find_bounds();
    // The host pointer to the byte at bus address low_, or nullptr: see Host::ram().
    uint8_t* ram(Host& host) const {
        if (generation_ != host.ram_generation()) {
            generation_ = host.ram_generation();
            ram_ = host.ram(low_, extent_);
        }
        return ram_;
    }
    Verdict read_table(Host& host, uint64_t table, unsigned level);
    // Bus address of the first page that is not readable or writable RAM, as `proof` demands.
    [[nodiscard]] std::optional<uint64_t> first_unproven(Host& host, Proof proof) const;
    uint64_t bus_of(uint64_t offset) const {
        return page(offset >> log_page_size_) + (offset & ((uint64_t{1} << log_page_size_) - 1));
    }
    uint64_t page(uint64_t index) const {
        return list_.empty() ? root_ + (index << log_page_size_) : list_[index];
    }
    // Copies pieces from host memory, or by copy(bus address, bytes) where there is no pointer.
    template <typename Copy>
    [[nodiscard]] bool load_pieces(Host& host, uint64_t offset, std::span<uint8_t> to,
                                   Copy&& copy) const;
    // Number of bytes from `offset` on that are contiguous on the bus, at most `want`.
    uint64_t run(uint64_t offset, uint64_t want) const;
    [[nodiscard]] bool contains(uint64_t offset, uint64_t length) const {
        return offset <= bytes() && length <= bytes() - offset;
    }

    std::vector<uint64_t> list_;  // bus addresses of the pages; empty: contiguous from root_
    uint64_t root_ = 0;
    uint64_t low_ = 0;     // lowest bus address; all pages lie within extent_ bytes from it
    uint64_t extent_ = 0;  // capped at UINT64_MAX
    // Host address of the byte at low_; valid while generation_ equals Host::ram_generation().
    mutable uint8_t* ram_ = nullptr;
    mutable uint64_t generation_ = 0;  // Host::ram_generation() when ram_ was set; 0: never set
    uint32_t page_count_ = 0;
    uint8_t log_page_size_ = kMinLogPageSize;
    DmaPurpose purpose_ = DmaPurpose::kPayload;
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
