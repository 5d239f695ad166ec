// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/page_faults.h"

namespace pib::hca {

PageFault PageFaults::take() {
    if (faults_.empty()) {
        announced_ = false;
        return {};
    }
    const auto first = faults_.begin();
    const auto [qpn, half] = first->first;
    const PageFault fault{.qpn = qpn, .half = half, .miss = first->second};
    faults_.erase(first);
    return fault;
}

}  // namespace pib::hca
