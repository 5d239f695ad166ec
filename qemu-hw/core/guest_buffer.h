// SPDX-License-Identifier: GPL-2.0-or-later
// A buffer of guest memory described by struct pib_hca_pages: the page list is read once, checked once,
// and kept in host memory. Queues and memory regions are both made of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "host.h"
#include "status.h"

namespace pib::hca {

class GuestBuffer {
  public:
    GuestBuffer() = default;

    // Reads the list; `bytes` is what must fit in it (page_offset included), `max_pages` the caller's
    // limit. BAD_PARAM, BAD_RESERVED or BAD_MEMORY (a table page or, for its first byte, a listed page is
    // not RAM).
    static CmdResult<GuestBuffer> load(Host& host, const pib_hca_pages& pages, uint64_t bytes,
                                       uint32_t max_pages);

    // Copies at `offset` bytes from the start of the first page, across pages. False when the range
    // leaves the buffer or a page is no longer RAM; then a prefix may have been copied.
    bool read(Host& host, uint64_t offset, std::span<uint8_t> to) const;
    bool write(Host& host, uint64_t offset, std::span<const uint8_t> from) const;

    // Bus address of the byte at `offset`; false outside of the buffer.
    bool bus_address(uint64_t offset, uint64_t& bus_addr) const;

    uint32_t page_count() const { return static_cast<uint32_t>(pages_.size()); }
    uint64_t bytes() const { return uint64_t{page_count()} << log_page_size_; }

  private:
    std::vector<uint64_t> pages_;
    uint8_t log_page_size_ = PIB_HCA_MIN_LOG_PAGE_SIZE;
};

}  // namespace pib::hca
