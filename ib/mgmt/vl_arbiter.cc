// SPDX-License-Identifier: GPL-2.0-or-later
// VL arbitration (IBA 7.6.9.2).
#include "ib/mgmt/vl_arbiter.h"

#include <algorithm>
#include <bit>

namespace pib::ib {
namespace {

constexpr size_t kWeightUnitBytes = 64;
constexpr int64_t kLimitUnitBytes = 4096;  // one unit of VLHighLimit
constexpr uint64_t kUnlimited = 255;
constexpr unsigned kNoVl = 16;

bool is_ready(const VlArbEntry& entry, VlMask ready) {
    return entry.weight != 0 && entry.vl < 15 && (ready >> entry.vl & 1U) != 0;
}

}  // namespace

// Stays on the current entry while it is ready and has weight left, else searches the next ready
// entry of the table. Returns the entry's VL, or kNoVl.
unsigned VlArbiter::advance(Table table, Cursor& cursor, VlMask ready) {
    if (table.empty()) {
        return kNoVl;
    }
    cursor.index = cursor.index < table.size() ? cursor.index : 0;
    if (cursor.left > 0 && is_ready(table[cursor.index], ready)) {
        return table[cursor.index].vl;
    }
    for (size_t step = 1; step <= table.size(); ++step) {
        const size_t index = (cursor.index + step) % table.size();
        if (is_ready(table[index], ready)) {
            cursor = {index, table[index].weight};
            return table[index].vl;
        }
    }
    return kNoVl;
}

// Bytes of high priority that may be sent before a VL of the low table; nullopt: no limit.
std::optional<int64_t> VlArbiter::high_limit() const {
    const uint64_t limit = port_.get(port_info::kVlHighLimit);
    return limit == kUnlimited ? std::nullopt
                               : std::optional(static_cast<int64_t>(limit) * kLimitUnitBytes);
}

// Whether a VL of the high table may send next although one of the low table is ready. Limit 0
// permits one packet.
bool VlArbiter::high_may_send() const {
    const auto limit = high_limit();
    return !limit || high_sent_ == 0 || high_sent_ < *limit;
}

unsigned VlArbiter::choose(VlMask ready) {
    Cursor high = high_;
    Cursor low = low_;
    const unsigned high_vl = advance(port_.vl_arb_high, high, ready);
    const unsigned low_vl = advance(port_.vl_arb_low, low, ready);
    other_waits_ = high_vl != kNoVl && low_vl != kNoVl;
    if (high_vl != kNoVl && (low_vl == kNoVl || high_may_send())) {
        high_ = high;
        last_ = Source::kHigh;
        return high_vl;
    }
    if (low_vl != kNoVl) {
        low_ = low;
        last_ = Source::kLow;
        return low_vl;
    }
    last_ = Source::kNone;
    return static_cast<unsigned>(std::countr_zero(ready));
}

uint32_t VlArbiter::allowance() const {
    const auto left = [](const Cursor& cursor) {
        return std::max<int64_t>(cursor.left, 1) * static_cast<int>(kWeightUnitBytes);
    };
    int64_t bytes = 0;
    switch (last_) {
        case Source::kHigh: {
            const auto limit = other_waits_ ? high_limit() : std::nullopt;
            bytes = limit ? std::min(left(high_), *limit - high_sent_) : left(high_);
            break;
        }
        case Source::kLow:  // one packet, then the high table is checked again
            bytes = other_waits_ ? 0 : left(low_);
            break;
        case Source::kNone:
            break;
    }
    return static_cast<uint32_t>(std::max<int64_t>(bytes, 1));
}

void VlArbiter::account(size_t bytes) {
    const int units = static_cast<int>((bytes + kWeightUnitBytes - 1) / kWeightUnitBytes);
    switch (last_) {
        case Source::kHigh:
            high_.left -= units;
            high_sent_ += static_cast<int64_t>(bytes);
            break;
        case Source::kLow:
            low_.left -= units;
            high_sent_ = 0;
            break;
        case Source::kNone:
            break;
    }
}

void VlArbiter::restart() {
    high_ = low_ = {};
    high_sent_ = 0;
}

}  // namespace pib::ib
