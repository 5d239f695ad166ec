// SPDX-License-Identifier: GPL-2.0-or-later
#include "switch/link_journal.h"

#include <utility>

namespace pib::fabric {

void LinkJournal::add(std::uint64_t now_ns, std::uint8_t port, LinkChange change,
                      std::string detail) {
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
        entries_.pop_front();
        ++lost_;
    }
    entries_.push_back({now_ns, port, change, 1, std::move(detail)});
}

}  // namespace pib::fabric
