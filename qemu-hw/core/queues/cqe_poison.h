// SPDX-License-Identifier: GPL-2.0-or-later
// For testers of applications: gives undefined fields of completions surprising values.
#pragma once

#include "pib_hca_hw.h"

namespace pib::hca {

// Overwrites the fields of `cqe` that IBA 11.4.2.1 gives no meaning for a completion of its opcode
// and status. What software needs to find the work request (qpn, wqe_counter, the queue) stays.
void poison_unspecified(pib_hca_cqe& cqe);

}  // namespace pib::hca
