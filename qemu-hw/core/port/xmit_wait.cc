// SPDX-License-Identifier: GPL-2.0-or-later
#include "port/xmit_wait.h"

#include <bit>

namespace pib::hca {

void XmitWait::begin(unsigned vl) {
    if (waiting_ == 0) {
        since_ns_ = port_.host.now_ns();
    }
    count();
    waiting_ |= static_cast<ib::VlMask>(1u << vl);
}

void XmitWait::end(unsigned vl) {
    count();
    waiting_ &= static_cast<ib::VlMask>(~(1u << vl));
}

void XmitWait::count() {
    if (waiting_ == 0) {
        return;
    }
    const uint64_t now_ns = port_.host.now_ns();
    const uint64_t waited_ns = now_ns - since_ns_;
    since_ns_ = now_ns;
    add(ib::Counter::kPortXmitWait, waited_ns, remainder_ns_);
    for (unsigned left = waiting_; left != 0; left &= left - 1) {
        const auto vl = static_cast<unsigned>(std::countr_zero(left));
        add(ib::counter_of(ib::Counter::kPortVlXmitWait, vl), waited_ns, vl_remainder_ns_[vl]);
    }
}

void XmitWait::reset(bool cold) {
    if (!cold) {
        count();
    } else {
        remainder_ns_ = 0;
        vl_remainder_ns_ = {};
    }
    waiting_ = 0;
}

void XmitWait::add(ib::Counter counter, uint64_t waited_ns, uint64_t& remainder_ns) {
    remainder_ns += waited_ns;
    port_.pma_counters().add(counter, remainder_ns / ib::kPmaTickNs);
    remainder_ns %= ib::kPmaTickNs;
}

}  // namespace pib::hca
