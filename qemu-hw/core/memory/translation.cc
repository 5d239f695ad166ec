// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/translation.h"

#include <algorithm>

#include "memory/page_list.h"

namespace pib::hca {

namespace {

// Bus address of a byte of an on-demand region; records an absent page in `miss`.
std::optional<uint64_t> demand(const MemoryAccess& access, uint64_t done, bool for_write) {
    const MemoryRegion& region = *access.target.region;
    const uint64_t offset = access.target.offset + done;
    const auto bus_addr = region.on_demand()->walk(access.host, offset, for_write);
    if (!bus_addr) {
        access.miss = {.key = KeyTable::key_of(region.number) | region.key,
                       .addr = region.iova + (offset - region.page_offset),
                       .length = access.range.length - done,
                       .for_write = for_write};
    }
    return bus_addr;
}

// Calls piece(bus address, position, bytes) for each page. False: a page is absent or a call fails.
template <typename Piece>
bool for_each_page(const MemoryAccess& access, bool for_write, Piece&& piece) {
    constexpr uint64_t kPage = uint64_t{1} << kMinLogPageSize;
    uint64_t done = 0;
    while (done < access.range.length) {
        const auto bus_addr = demand(access, done, for_write);
        const uint64_t n =
            std::min(kPage - (access.target.offset + done) % kPage, access.range.length - done);
        if (!bus_addr || !piece(*bus_addr, done, n)) {
            return false;
        }
        done += n;
    }
    return true;
}

}  // namespace

bool MemoryAccess::read(std::span<uint8_t> to) {
    if (target.region == nullptr) {
        host.dma_for(DmaPurpose::kPayload);
        return host.dma_read(target.offset, to);
    }
    if (const GuestBuffer* pages = target.region->pages()) [[likely]] {
        return pages->read(host, target.offset, to);
    }
    return for_each_page(*this, false, [&](uint64_t bus, uint64_t at, uint64_t n) {
        host.dma_for(DmaPurpose::kPayload);
        return host.dma_read(bus, to.subspan(at, n));
    });
}

bool MemoryAccess::write(std::span<const uint8_t> from) {
    if (target.region == nullptr) {
        host.dma_for(DmaPurpose::kPayload);
        return host.dma_write(target.offset, from);
    }
    if (const GuestBuffer* pages = target.region->pages()) [[likely]] {
        return pages->write(host, target.offset, from);
    }
    return for_each_page(*this, true, [&](uint64_t bus, uint64_t at, uint64_t n) {
        host.dma_for(DmaPurpose::kPayload);
        return host.dma_write(bus, from.subspan(at, n));
    });
}

bool MemoryAccess::cmpxchg64(uint64_t& expected, uint64_t desired) {
    uint64_t bus_addr = target.offset;
    if (target.region != nullptr && target.region->on_demand() != nullptr) {
        const auto demanded = demand(*this, 0, true);
        if (!demanded) {
            return false;
        }
        bus_addr = *demanded;
    } else if (target.region != nullptr &&
               !target.region->pages()->bus_address(target.offset, bus_addr)) {
        return false;
    }
    // The bus address of an aligned virtual address may be unaligned, because the guest chooses
    // page_offset.
    host.dma_for(DmaPurpose::kPayload);
    return bus_addr % 8 == 0 && host.dma_cmpxchg64(bus_addr, expected, desired);
}

bool locate(Host& host, const Target& target, const KeyedRange& range, SgList& out) {
    const auto piece = [&](uint8_t* at, uint64_t bus_addr, uint64_t n) {
        if (at != nullptr) {
            out.append({at, bus_addr, n});
        }
        return at != nullptr;
    };
    if (target.region == nullptr) {
        out.by_bus_address = true;
        return piece(host.ram(target.offset, range.length), target.offset, range.length);
    }
    const GuestBuffer* pages = target.region->pages();
    return pages != nullptr && pages->for_each_piece(host, target.offset, range.length, piece);
}

}  // namespace pib::hca
