// SPDX-License-Identifier: GPL-2.0-or-later
#include "ib/mgmt/xmit_wait.h"

#include <bit>

namespace pib::ib {

void XmitWait::clear() {
    waiting_ = 0;
    remainder_ns_ = 0;
    vl_remainder_ns_ = {};
}

void XmitWait::count(Counter counter, uint64_t waited_ns, uint64_t& remainder_ns) {
    remainder_ns += waited_ns;
    counters_.add(counter, remainder_ns / kPmaTickNs);
    remainder_ns %= kPmaTickNs;
}

void XmitWait::add(uint64_t waited_ns) {
    count(Counter::kPortXmitWait, waited_ns, remainder_ns_);
    for (unsigned left = waiting_; left != 0; left &= left - 1) {
        const auto vl = static_cast<unsigned>(std::countr_zero(left));
        count(counter_of(Counter::kPortVlXmitWait, vl), waited_ns, vl_remainder_ns_.make()[vl]);
    }
}

}  // namespace pib::ib
