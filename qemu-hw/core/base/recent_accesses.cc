// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/recent_accesses.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace pib::hca {

namespace {

// Names the width of an access only if it is not the usual 4 bytes.
std::string text_of(const MmioAccess& access) {
    std::array<char, 80> text;
    const int length =
        std::snprintf(text.data(), text.size(), "BAR%u+%#llx %s %#llx", access.bar,
                      static_cast<unsigned long long>(access.offset), access.store ? "=" : "is",
                      static_cast<unsigned long long>(access.value));
    if (access.size != 4) {
        std::snprintf(text.data() + length, text.size() - static_cast<size_t>(length),
                      " (%u bytes)", access.size);
    }
    return text.data();
}

}  // namespace

std::string RecentAccesses::text() const {
    std::string all;
    for (uint64_t i = count_ - std::min<uint64_t>(count_, kKept); i < count_; ++i) {
        all += (all.empty() ? "" : ", ") + text_of(ring_[i % kKept]);
    }
    return all.empty() ? "no access" : all;
}

}  // namespace pib::hca
