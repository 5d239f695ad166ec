// SPDX-License-Identifier: GPL-2.0-or-later
// Tests of a strict device act as its driver by these functions.
#pragma once

#include <catch2/catch_test_macros.hpp>

#include "refusal_room.h"

namespace pib::hca::test {

inline void reset(RefusalRoom& r) {
    r.d.write32(PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_RESET);
    (void)r.d.read32(PIB_HCA_REG_STATUS);
}

// A QP in RTS whose peer does not answer.
inline MiniQp& working_qp(RefusalRoom& r) {
    r.pass(r.rts_in());
    return r.qp;
}

inline void to_state(RefusalRoom& r, pib_hca_qp_state state) {
    pib_hca_modify_qp in{};
    in.attr_mask = PIB_HCA_QP_ATTR_STATE;
    in.state = state;
    MiniDriver::must(r.d.modify(r.qp, in), "MODIFY_QP");
}

// A device that stops at the first misuse. The destructor checks that it has reported none.
struct LegalRoom : RefusalRoom {
    LegalRoom() : RefusalRoom(strict_config(Strictness::kFatal)) {}
    ~LegalRoom() {
        CHECK(last_rule(*device).empty());
        CHECK(host.warnings.empty());
        CHECK_FALSE(device->engine().health().is_fatal());
    }

    MiniQp& working_qp() { return test::working_qp(*this); }
    void to_state(pib_hca_qp_state state) { test::to_state(*this, state); }
    void take_events() {
        while (d.poll(async_eq) || d.poll(eq)) {
        }
    }
    void bring_up() {
        d.write32(PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_RESET);
        CHECK(d.read32(PIB_HCA_REG_STATUS) == 0);
        REQUIRE(d.enable());
        async_eq = d.create_eq(0, true);
        eq = d.create_eq(1);
        cq = d.create_cq(eq.eqn);
        pd = d.alloc_pd();
    }
};

}  // namespace pib::hca::test
