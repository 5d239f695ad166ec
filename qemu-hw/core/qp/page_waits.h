// SPDX-License-Identifier: GPL-2.0-or-later
// QPs that wait for a page of an on-demand region.
#pragma once

#include "qp/qp_services.h"

namespace pib::hca {

// Call this after an access by key that `half` of the QP has made and that has failed. True: a page
// is absent; the function has reported the fault, and `half` waits until the driver resumes it.
// False: the access is an error, or the driver has refused the page.
[[nodiscard]] bool await_page(QpServices& services, QueuePair& qp, QpHalf half);
// Ends the waits of both halves, and drops the QP's faults that the driver has not fetched.
void forget_page_faults(QpServices& services, QueuePair& qp);

}  // namespace pib::hca
