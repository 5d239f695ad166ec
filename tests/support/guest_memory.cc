// SPDX-License-Identifier: GPL-2.0-or-later
#include "guest_memory.h"

#include <algorithm>

namespace pib::hca::test {

// One level of table pages is enough for 2 MiB, two levels for 1 GiB.
GuestMemory::GuestMemory(FakeHost& host, uint64_t bytes) : host_(&host) {
    const uint64_t count = std::max<uint64_t>(1, (bytes + FakeHost::kPage - 1) / FakeHost::kPage);
    for (uint64_t i = 0; i < count; ++i) {
        pages_.push_back(host.alloc(FakeHost::kPage));
        host.alloc(FakeHost::kPage);  // a gap, so that pages are not adjacent
    }
    std::vector<uint64_t> table = pages_;
    list_.page_count = static_cast<uint32_t>(count);
    list_.log_page_size = 12;
    do {
        std::vector<uint64_t> above;
        for (size_t i = 0; i < table.size(); i += PIB_HCA_TABLE_ENTRIES) {
            above.push_back(host.alloc(FakeHost::kPage));
            const size_t n = std::min<size_t>(PIB_HCA_TABLE_ENTRIES, table.size() - i);
            host.poke_bytes(above.back(),
                            {reinterpret_cast<const uint8_t*>(table.data() + i), n * 8});
        }
        table = above;
        ++list_.levels;
    } while (table.size() > 1);
    list_.root = table.front();
}

void GuestMemory::read(uint64_t offset, std::span<uint8_t> to) const {
    for (size_t done = 0; done < to.size();) {
        const uint64_t at = offset + done;
        const size_t n = std::min<size_t>(to.size() - done, FakeHost::kPage - at % FakeHost::kPage);
        host_->peek_bytes(pages_.at(at / FakeHost::kPage) + at % FakeHost::kPage,
                          to.subspan(done, n));
        done += n;
    }
}

void GuestMemory::write(uint64_t offset, std::span<const uint8_t> from) {
    for (size_t done = 0; done < from.size();) {
        const uint64_t at = offset + done;
        const size_t n =
            std::min<size_t>(from.size() - done, FakeHost::kPage - at % FakeHost::kPage);
        host_->poke_bytes(pages_.at(at / FakeHost::kPage) + at % FakeHost::kPage,
                          from.subspan(done, n));
        done += n;
    }
}

}  // namespace pib::hca::test
