// SPDX-License-Identifier: GPL-2.0-or-later
// Test knob for applications: gives undefined fields of completions surprising values.
#pragma once

#include "pib_hca_hw.h"

namespace pib::hca {

// Overwrites the fields of `cqe` that IBA 11.4.2.1 leaves undefined for its opcode and status. The
// fields by which software finds the work request (qpn, wqe_counter, the queue) stay.
void poison_unspecified(pib_hca_cqe& cqe);

}  // namespace pib::hca
