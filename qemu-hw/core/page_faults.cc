// SPDX-License-Identifier: GPL-2.0-or-later
// Page faults: how a QP waits, and how it goes on.
#include "page_faults.h"

#include "transport_impl.h"

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

bool QpServices::await_page(QueuePair& qp, QpHalf half) {
    const auto miss = mpt().take_miss();
    if (!miss) {
        return false;
    }
    PageWait& wait = qp.page_wait(half);
    if (std::exchange(wait.refused, false)) {
        return false;
    }
    if (!std::exchange(wait.waiting, true) && page_faults_.add(qp.qpn, half, *miss)) {
        parts_.eqs.async_event(PIB_HCA_EVENT_PAGE_FAULT, 0);
    }
    return true;
}

void QpServices::forget_page_faults(QueuePair& qp) {
    page_faults_.forget(qp.qpn);
    qp.send_page = qp.recv_page = {};
    qp.response_lost = qp.read_waits = false;
}

CmdStatus TransportImpl::resume_page_fault(uint32_t qpn, const pib_hca_resume_page_fault& in) {
    QueuePair* qp = find_qp(qpn);
    if (qp == nullptr) {
        return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
    }
    const QpHalf half =
        (in.flags & PIB_HCA_PAGE_FAULT_RESPONDER) != 0 ? QpHalf::kResponder : QpHalf::kRequester;
    PageWait& wait = qp->page_wait(half);
    if (!wait.waiting) {
        return PIB_HCA_CMD_STATUS_BAD_STATE;
    }
    wait = {.waiting = false, .refused = (in.flags & PIB_HCA_PAGE_FAULT_REFUSED) != 0};
    if (half == QpHalf::kResponder) {
        qp->read_waits = false;
    } else if (std::exchange(qp->response_lost, false) && qp->can_send()) {
        // The response is asked for again, and all that was sent after it.
        requester_.rewind(*qp);
    }
    services_.schedule(*qp);
    return PIB_HCA_CMD_STATUS_OK;
}

}  // namespace pib::hca
