// SPDX-License-Identifier: GPL-2.0-or-later
#include "switch/link_journal.h"

#include <algorithm>
#include <array>
#include <utility>

namespace pib::fabric {

void LinkJournal::add(uint64_t now_ns, uint8_t port, LinkChange change, std::string detail) {
    ++changes_;
    if (!entries_.empty()) {
        Entry& last = entries_.back();
        if (last.port == port && last.change == change && last.detail == detail) {
            last.time_ns = now_ns;
            ++last.times;
            return;
        }
    }
    if (entries_.size() == kMost) {
        drop_one();
    }
    entries_.push_back({now_ns, port, change, 1, std::move(detail)});
}

void LinkJournal::drop_one() {
    std::array<size_t, 256> of_port{};
    for (const Entry& entry : entries_) {
        ++of_port[entry.port];
    }
    // max_element() returns the first of equal elements, which is the oldest entry of the port.
    entries_.erase(std::ranges::max_element(
        entries_, {}, [&](const Entry& entry) { return of_port[entry.port]; }));
    ++lost_;
}

}  // namespace pib::fabric
