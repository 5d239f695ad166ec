// SPDX-License-Identifier: GPL-2.0-or-later
// Rules of registers and doorbells: each rule, broken by a store or load.
#include <catch2/catch_test_macros.hpp>

#include "refusal_room.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

// Resets the device and enables it with these values, which it refuses.
void enable(RefusalRoom& r, uint64_t base, uint64_t cpl_base, uint32_t log_depth) {
    r.d.write32(PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_RESET);
    r.d.write64(PIB_HCA_REG_CMDQ_BASE, base);
    r.d.write64(PIB_HCA_REG_CMDQ_CPL_BASE, cpl_base);
    r.d.write32(PIB_HCA_REG_CMDQ_LOG_DEPTH, log_depth);
    r.d.write32(PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_ENABLE);
    CHECK(r.d.read32(PIB_HCA_REG_STATUS) == PIB_HCA_STATUS_BAD_ENABLE);
}

constexpr AccessCase kCases[] = {
    {Rule::kLoad, "load of BAR0 at 0xff00 refused: no register can be loaded there in this width",
     [](RefusalRoom& r) { (void)r.d.read32(0xff00); }},
    {Rule::kStore,
     "store to BAR0 at 0 refused: value 0x7; no register can be stored to there in this width",
     [](RefusalRoom& r) { r.d.write32(PIB_HCA_REG_VERSION, 7); }},
    {Rule::kControlBits, "store to BAR0 at 0x4 refused: value 0x9 has bits outside of 0x3",
     [](RefusalRoom& r) { r.d.write32(PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_ENABLE | 8); }},
    {Rule::kTestVector, "store to BAR0 at 0x3c refused: value 99, at most 8",
     [](RefusalRoom& r) { r.d.write32(PIB_HCA_REG_TEST_IRQ, 99); }},
    {Rule::kDoorbellEnabled,
     "store to BAR0 at 0x34 refused: value 1 is for a command queue that is not enabled",
     [](RefusalRoom& r) {
         r.d.write32(PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_RESET);
         r.d.write32(PIB_HCA_REG_CMDQ_DOORBELL, 1);
     }},
    {Rule::kDoorbellCounter,
     "store to BAR0 at 0x34 refused: value 1000 must not be less than the last one, nor more than "
     "20",
     [](RefusalRoom& r) {
         r.d.write32(PIB_HCA_REG_CMDQ_DOORBELL, 1000);
         CHECK(r.d.read32(PIB_HCA_REG_FATAL_CAUSE) == PIB_HCA_FATAL_CMDQ_OVERRUN);
     }},
    {Rule::kRingDeep, "store to BAR0 at 0x4 refused: CMDQ_LOG_DEPTH 9, at most 8",
     [](RefusalRoom& r) { enable(r, r.host.alloc(4096), r.host.alloc(4096), 9); }},
    {Rule::kRingAligned, "store to BAR0 at 0x4 refused: CMDQ_BASE 0x40 must be a multiple of 4096",
     [](RefusalRoom& r) { enable(r, 64, r.host.alloc(4096), 4); }},
    {Rule::kCplAligned,
     "store to BAR0 at 0x4 refused: CMDQ_CPL_BASE 0x40 must be a multiple of 4096",
     [](RefusalRoom& r) { enable(r, r.host.alloc(4096), 64, 4); }},
    {Rule::kRingMemory,
     "store to BAR0 at 0x4 refused: CMDQ_BASE 0x1000 must be the address of writable RAM; bytes: "
     "1024",
     [](RefusalRoom& r) { enable(r, 4096, r.host.alloc(4096), 4); }},
    {Rule::kCplMemory,
     "store to BAR0 at 0x4 refused: CMDQ_CPL_BASE 0x1000 must be the address of writable RAM; "
     "bytes: 256",
     [](RefusalRoom& r) { enable(r, r.host.alloc(4096), 4096, 4); }},
    {Rule::kEnableStopped,
     "store to BAR0 at 0x4 refused: the device has stopped; FATAL_CAUSE says why, and a reset ends "
     "it",
     [](RefusalRoom& r) {
         r.d.write32(PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_RESET);
         r.device->engine().health().fail(PIB_HCA_FATAL_INTERNAL);
         r.d.write32(PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_ENABLE);
     }},
    {Rule::kPageFree,
     "store to BAR2 at 0x5000 refused: value 0x40 is for a UAR that is not "
     "allocated: 0x5",
     [](RefusalRoom& r) { r.d.ring(5, PIB_HCA_UAR_SEND, 0x40); }},
    {Rule::kDoorbellQp, "store to BAR2 at 0x4 refused: value 0x99 must be the number of a QP",
     [](RefusalRoom& r) { r.d.ring(0, PIB_HCA_UAR_RECV, 0x99); }},
    {Rule::kDoorbellQpUar,
     "store to BAR2 at 0x1000 refused: value 0x40 names a QP of another UAR: "
     "0",
     [](RefusalRoom& r) {
         const uint32_t qpn = r.d.create_qp(r.shape()).qpn;
         r.d.ring(r.d.alloc_uar(), PIB_HCA_UAR_SEND, qpn);
     }},
    {Rule::kArmBits,
     "store to BAR2 at 0x8 refused: value 0x2000001 has bits 31:25, which must be 0",
     [](RefusalRoom& r) { r.d.ring(0, PIB_HCA_UAR_CQ_ARM, 1u << 25 | r.cq.cqn, 8); }},
    {Rule::kArmCq,
     "store to BAR2 at 0x8 refused: value 0x63 must have the number of a CQ in bits 23:0",
     [](RefusalRoom& r) { r.d.ring(0, PIB_HCA_UAR_CQ_ARM, 99, 8); }},
    {Rule::kArmCqUar, "store to BAR2 at 0x1008 refused: value 0x1 names a CQ of another UAR: 0",
     [](RefusalRoom& r) { r.d.ring(r.d.alloc_uar(), PIB_HCA_UAR_CQ_ARM, r.cq.cqn, 8); }},
    {Rule::kEqPage,
     "store to BAR2 at 0x1010 refused: value 0x2 is for an EQ, which takes stores to UAR 0 only, "
     "not to UAR 0x1",
     [](RefusalRoom& r) { r.d.ring(r.d.alloc_uar(), PIB_HCA_UAR_EQ, r.eq.eqn, 8); }},
    {Rule::kEqBits,
     "store to BAR2 at 0x10 refused: value 0x2000002 has bits 31:25, which must be 0",
     [](RefusalRoom& r) { r.d.ring(0, PIB_HCA_UAR_EQ, 1u << 25 | r.eq.eqn, 8); }},
    {Rule::kEqNumber,
     "store to BAR2 at 0x10 refused: value 0x63 must have the number of an EQ in bits 23:0",
     [](RefusalRoom& r) { r.d.ring(0, PIB_HCA_UAR_EQ, 99, 8); }},
    {Rule::kEqCounter,
     "store to BAR2 at 0x10 refused: value 0x500000002 has a counter behind an earlier one, or "
     "beyond the EQEs written: 0",
     [](RefusalRoom& r) {
         r.d.ring(0, PIB_HCA_UAR_EQ, uint64_t{5} << PIB_HCA_DB_COUNTER_SHIFT | r.eq.eqn, 8);
     }},
    {Rule::kKickPage,
     "store to BAR2 at 0x20 refused: value 0x1 is for a UAR without a shadow doorbell page: 0",
     [](RefusalRoom& r) { r.d.ring(0, PIB_HCA_UAR_KICK, 1); }},
};

}  // namespace

std::span<const AccessCase> pib::hca::test::access_refusals() {
    return kCases;
}
