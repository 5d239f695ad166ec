// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp/page_faults.h"

namespace pib::hca {

pib_hca_page_fault PageFaults::take() {
    if (faults_.empty()) {
        announced_ = false;
        return {};
    }
    const auto first = faults_.begin();
    const auto [qpn, half] = first->first;
    const PageMiss miss = first->second;
    faults_.erase(first);
    pib_hca_page_fault fault{};
    fault.addr = miss.addr;
    fault.length = miss.length;
    fault.key = miss.key;
    fault.qpn = qpn;
    fault.flags = (half == QpHalf::kResponder ? PIB_HCA_PAGE_FAULT_RESPONDER : 0) |
                  (miss.for_write ? PIB_HCA_PAGE_FAULT_WRITE : 0);
    return fault;
}

}  // namespace pib::hca
