// SPDX-License-Identifier: GPL-2.0-or-later
#include "port/pacer.h"

#include <algorithm>

namespace pib::hca {

void Pacer::sent(uint16_t dlid, uint64_t bytes, uint32_t mbps, uint64_t now_ns) {
    if (paid_ns_.empty()) {
        paid_ns_.resize(1u << 16);
    }
    paid_ns_[dlid] = std::max(paid_ns_[dlid], now_ns) + duration_ns(bytes, mbps);
}

}  // namespace pib::hca
