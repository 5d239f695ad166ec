// SPDX-License-Identifier: GPL-2.0-or-later
#include "tables.h"

namespace pib::conformance {

const std::vector<CheckTable>& all_tables() {
    static const std::vector<CheckTable> kTables = {
        rc_send_checks(), rc_write_checks(),  rc_read_checks(),   rc_atomic_checks(),
        rc_psn_checks(),  rc_header_checks(), requester_checks(), order_checks(),
        credit_checks(),  migration_checks(), uc_checks(),        xrc_checks(),
        ud_checks(),      link_checks(),      flow_checks(),      mad_checks(),
        perf_checks(),    switch_checks(),
    };
    return kTables;
}

}  // namespace pib::conformance
