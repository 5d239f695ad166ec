// SPDX-License-Identifier: GPL-2.0-or-later
// QPs that wait for a page of an on-demand region.
#pragma once

#include "qp/qp_services.h"

namespace pib::hca {

// To be called after a failed access by key of this half. True: a page was absent; the fault is
// reported, and the half waits until the driver resumes it. False: the access was an error.
bool await_page(QpServices& services, QueuePair& qp, QpHalf half);
// The QP waits no longer, and its faults are not reported.
void forget_page_faults(QpServices& services, QueuePair& qp);

}  // namespace pib::hca
