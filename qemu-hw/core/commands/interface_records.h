// SPDX-License-Identifier: GPL-2.0-or-later
// Converts structures of commands to parameters of verbs, and results of verbs to structures.
// Checks reserved fields and flags.
#pragma once

#include "base/verdict.h"
#include "memory/registration.h"
#include "pib_hca_hw.h"
#include "qp/page_faults.h"
#include "qp/qp_attributes.h"
#include "qp/qp_create.h"
#include "transport/mcast_table.h"

namespace pib::hca {

CmdResult<QpRequest> qp_request(const pib_hca_create_qp& in);
CmdResult<QpAttributes> qp_attributes(const pib_hca_modify_qp& in);
pib_hca_modify_qp attributes_record(const QpAttributes& qp);
CmdResult<McastGroup> mcast_group(const pib_hca_mcast& in);

CmdResult<Registration> registration(const pib_hca_create_mr& in);
CmdResult<Reregistration> reregistration(const pib_hca_rereg_mr& in);
CmdResult<WindowRequest> window_request(const pib_hca_alloc_mw& in);
pib_hca_page_fault fault_record(const PageFault& fault);

}  // namespace pib::hca
