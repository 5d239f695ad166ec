// SPDX-License-Identifier: GPL-2.0-or-later
// Rules of event queues, completion queues and shared receive queues: each rule, broken by one
// command.
#include <catch2/catch_test_macros.hpp>

#include "refusal_room.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

constexpr RefusalCase kCases[] = {
    REFUSED_IN(kEqReserved, eq_in, reserved[9] = 1,
               "CREATE_EQ refused: reserved at byte 22 must be 0"),
    REFUSED_IN(kEqFlags, eq_in, flags = 2,
               "CREATE_EQ refused: flags 0x2 at byte 21 has bits outside of 0x1"),
    REFUSED_IN(kEqVector, eq_in, vector = 64, "CREATE_EQ refused: vector 64 at byte 16, at most 8"),
    REFUSED_IN(kEqShallow, eq_in, log_depth = 0,
               "CREATE_EQ refused: log_depth 0 at byte 20, at least 1"),
    REFUSED_IN(kEqDeep, eq_in, log_depth = 17,
               "CREATE_EQ refused: log_depth 17 at byte 20, at most 16"),
    REFUSED_IN(kEqAsync, eq_in, flags = PIB_HCA_EQ_ASYNC,
               "CREATE_EQ refused: flags 0x1 at byte 21 has ASYNC, but there is an async EQ: 0x1"),
    {Rule::kEqBusy,
     "DESTROY_EQ refused: object 0x2 at byte 4 of the entry is used; number of its CQs: 1",
     [](RefusalRoom& r) { return r.d.command(PIB_HCA_CMD_DESTROY_EQ, r.eq.eqn); }},
    REFUSED_IN(kCqReserved, cq_in, reserved[6] = 1,
               "CREATE_CQ refused: reserved at byte 25 must be 0"),
    REFUSED_IN(kCqDeep, cq_in, log_depth = 23,
               "CREATE_CQ refused: log_depth 23 at byte 24, at most 22"),
    REFUSED_IN(kCqEq, cq_in, eqn = 9,
               "CREATE_CQ refused: eqn 0x9 at byte 16 must be the number of an EQ"),
    REFUSED_IN(kCqUar, cq_in, uar = 9,
               "CREATE_CQ refused: uar 0x9 at byte 20 must be the number of a UAR"),
    {Rule::kCqBusy,
     "DESTROY_CQ refused: object 0x1 at byte 4 of the entry is used; number of ends of QPs, and of "
     "SRQs: 2",
     [](RefusalRoom& r) {
         (void)r.d.create_qp(r.shape());
         return r.d.command(PIB_HCA_CMD_DESTROY_CQ, r.cq.cqn);
     }},
    REFUSED_IN(kResizeReserved, resize_in, reserved[0] = 1,
               "RESIZE_CQ of 0x1 refused: reserved at byte 17 must be 0"),
    REFUSED_IN(kResizeDeep, resize_in, log_depth = 23,
               "RESIZE_CQ of 0x1 refused: log_depth 23 at byte 16, at most 22"),
    {Rule::kResizeError, "RESIZE_CQ refused: object 0x1 at byte 4 of the entry is a CQ in error",
     [](RefusalRoom& r) {
         r.pass(r.inject_in(PIB_HCA_EVENT_CQ_ERROR, r.cq.cqn));
         return r.send(r.resize_in());
     }},
    {Rule::kResizeWaiting,
     "RESIZE_CQ of 0x1 refused: log_depth 4 at byte 16 is too small for the CQEs that wait, or "
     "more "
     "wait than the old ring has: 20",
     [](RefusalRoom& r) {
         r.cq.memory.poke(0, uint32_t{0} - 20);  // as if 20 CQEs had come
         return r.send(r.resize_in());
     }},
    {Rule::kResizeMemory,
     "RESIZE_CQ of 0x1 refused: pages.root 0x111000 at byte 0 and the old buffer must be RAM",
     [](RefusalRoom& r) {
         r.host.make_hole(r.cq.memory.page(0), 64);
         return r.send(r.resize_in());
     }},
    REFUSED_IN(kModerateReserved, moderate_in, reserved[3] = 1,
               "MODERATE_CQ of 0x1 refused: reserved at byte 4 must be 0"),
    REFUSED_IN(kSrqFlags, srq_in, flags = 4,
               "CREATE_SRQ refused: flags 0x4 at byte 20 has bits outside of 0x3"),
    REFUSED_IN(kSrqReserved, srq_in, reserved[0] = 1,
               "CREATE_SRQ refused: reserved at byte 30 must be 0"),
    REFUSED_IN(kSrqReserved2, srq_in, reserved2[0] = 1,
               "CREATE_SRQ refused: reserved2 at byte 40 must be 0"),
    REFUSED_IN(
        kSrqXrcFields, srq_in, xrcd = 1,
        "CREATE_SRQ refused: xrcd 0x1 at byte 32 must be 0 without the flag XRC; so must cq: 0"),
    REFUSED_IN(kSrqOffset, srq_in, offset = 96,
               "CREATE_SRQ refused: offset 96 at byte 24 must be a multiple of 64, 64 to 1024"),
    REFUSED_IN(kSrqDeep, srq_in, log_depth = 15,
               "CREATE_SRQ refused: log_depth 15 at byte 28, at most 14"),
    REFUSED_IN(kSrqStride, srq_in, log_stride = 4,
               "CREATE_SRQ refused: log_stride 4 at byte 29 must be 5 to 10"),
    REFUSED_IN(kSrqPd, srq_in, pd = 77,
               "CREATE_SRQ refused: pd 0x4d at byte 16 must be the number of a PD"),
    REFUSED_IN(kSrqXrcd, xrc_srq_in, xrcd = 77,
               "CREATE_SRQ refused: xrcd 0x4d at byte 32 must be the number of an XRC domain"),
    REFUSED_IN(kSrqCq, xrc_srq_in, cq = 77,
               "CREATE_SRQ refused: cq 0x4d at byte 36 must be the number of a CQ"),
    REFUSED_IN(kSrqCq, xrc_srq_in, cq = 0,
               "CREATE_SRQ refused: cq 0 at byte 36 must be the number of a CQ"),
    {Rule::kSrqBusy,
     "DESTROY_SRQ refused: object 0x1 at byte 4 of the entry is used; number of its QPs: 1",
     [](RefusalRoom& r) {
         auto in = r.qp_in();
         in.flags = PIB_HCA_QP_SRQ | PIB_HCA_QP_NO_RQ;
         in.rq_offset = in.log_rq_depth = in.log_rq_stride = 0;
         in.pages.page_count = 1;
         in.srq = r.pass(r.srq_in());
         r.pass(in);
         return r.d.command(PIB_HCA_CMD_DESTROY_SRQ, in.srq);
     }},
    REFUSED_IN(kSrqMask, modify_srq_in, attr_mask = 4,
               "MODIFY_SRQ of 0x1 refused: attr_mask 0x4 at byte 0 has bits outside of 0x3"),
    REFUSED_IN(kSrqModifyReserved, modify_srq_in, reserved[0] = 1,
               "MODIFY_SRQ of 0x1 refused: reserved at byte 25 must be 0"),
    REFUSED_IN(kSrqModifyDeep, modify_srq_in, log_depth = 15,
               "MODIFY_SRQ of 0x1 refused: log_depth 15 at byte 24, at most 14"),
    {Rule::kSrqLimit, "MODIFY_SRQ of 0x1 refused: limit 17 at byte 4, at most 16",
     [](RefusalRoom& r) {
         auto in = r.modify_srq_in();
         in.attr_mask = PIB_HCA_SRQ_ATTR_LIMIT;
         in.limit = 17;
         return r.send(in);
     }},
    {Rule::kSrqError, "MODIFY_SRQ refused: object 0x1 at byte 4 of the entry is an SRQ in error",
     [](RefusalRoom& r) {
         const auto in = r.modify_srq_in();
         r.pass(r.inject_in(PIB_HCA_EVENT_SRQ_ERROR, r.object));
         return r.send(in);
     }},
    {Rule::kSrqWaiting,
     "MODIFY_SRQ of 0x1 refused: log_depth 2 at byte 24 is too small for the WQEs that wait: 10",
     [](RefusalRoom& r) {
         auto in = r.modify_srq_in();
         r.srq_ring.poke(0, uint32_t{10});
         in.log_depth = 2;
         return r.send(in);
     }},
    {Rule::kSrqMemory,
     "MODIFY_SRQ of 0x1 refused: pages.root 0x11c000 at byte 8 and the old buffer must be RAM",
     [](RefusalRoom& r) {
         const auto in = r.modify_srq_in();
         r.srq_ring.poke(0, uint32_t{10});
         r.host.make_hole(r.srq_ring.page(1), 4096);
         return r.send(in);
     }},
};

}  // namespace

std::span<const RefusalCase> pib::hca::test::queue_refusals() {
    return kCases;
}
