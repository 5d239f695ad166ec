// SPDX-License-Identifier: GPL-2.0-or-later
// The tables of checks, one source file for each.
#pragma once

#include "check.h"

namespace pib::conformance {

CheckTable rc_send_checks();
CheckTable rc_write_checks();
CheckTable rc_read_checks();
CheckTable rc_atomic_checks();
CheckTable rc_psn_checks();
CheckTable rc_header_checks();
CheckTable requester_checks();
CheckTable credit_checks();
CheckTable uc_checks();
CheckTable ud_checks();
CheckTable link_checks();
CheckTable flow_checks();
CheckTable mad_checks();
CheckTable perf_checks();
CheckTable xrc_checks();
CheckTable migration_checks();
CheckTable switch_checks();
CheckTable order_checks();

}  // namespace pib::conformance
