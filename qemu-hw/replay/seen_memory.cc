// SPDX-License-Identifier: GPL-2.0-or-later
#include "seen_memory.h"

#include <algorithm>

namespace pib::hca::replay {

void SeenMemory::write(uint64_t bus_addr, std::span<const uint8_t> bytes) {
    while (!bytes.empty()) {
        const uint64_t page = bus_addr / kPage;
        const uint64_t at = bus_addr % kPage;
        const size_t n = std::min<size_t>(bytes.size(), kPage - at);
        if (pages_.size() < kMostPages || pages_.contains(page)) {
            std::copy_n(bytes.begin(), n, pages_[page].begin() + static_cast<ptrdiff_t>(at));
        }
        bytes = bytes.subspan(n);
        bus_addr += n;
    }
}

void SeenMemory::read(uint64_t bus_addr, std::span<uint8_t> to) const {
    while (!to.empty()) {
        const uint64_t at = bus_addr % kPage;
        const size_t n = std::min<size_t>(to.size(), kPage - at);
        const auto it = pages_.find(bus_addr / kPage);
        if (it == pages_.end()) {
            std::ranges::fill(to.first(n), uint8_t{0});
        } else {
            std::copy_n(it->second.begin() + static_cast<ptrdiff_t>(at), n, to.begin());
        }
        to = to.subspan(n);
        bus_addr += n;
    }
}

}  // namespace pib::hca::replay
