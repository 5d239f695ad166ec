// SPDX-License-Identifier: GPL-2.0-or-later
#include "ib/mgmt/counter_set.h"

namespace pib::ib {

// Not inlined, so that callers need no stack frame for the first counter.
void PriorityCounters::add_other(size_t priority, uint64_t amount) {
    if (priority == kPerPriority - 1) {
        last_ += amount;
    } else if (amount != 0) {
        others_.make()[priority - 1] += amount;
    }
}

}  // namespace pib::ib
