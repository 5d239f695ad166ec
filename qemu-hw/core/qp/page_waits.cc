// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/page_waits.h"

#include <utility>

namespace pib::hca {

namespace {

bool same_page(const PageMiss& a, const PageMiss& b) {
    return a.key == b.key && a.addr >> kMinLogPageSize == b.addr >> kMinLogPageSize &&
           a.for_write == b.for_write;
}

}  // namespace

bool await_page(QpServices& services, QueuePair& qp, QpHalf half) {
    const auto miss = services.mpt().take_miss();
    if (!miss) {
        return false;
    }
    PageWait& wait = qp.page_wait(half);
    // A refusal counts only for its page: the access may have succeeded after the refusal, or may
    // now miss another page first.
    if (std::exchange(wait.refused, false) && same_page(wait.miss, *miss)) {
        return false;
    }
    if (!std::exchange(wait.waiting, true)) {
        wait.miss = *miss;
        if (services.page_faults().add(qp.qpn, half, *miss)) {
            services.parts().eqs.async_event(Event::kPageFault, 0);
        }
    }
    return true;
}

void forget_page_faults(QpServices& services, QueuePair& qp) {
    services.page_faults().forget(qp.qpn);
    qp.paging = {};
}

}  // namespace pib::hca
