// SPDX-License-Identifier: GPL-2.0-or-later
// Rules of regions, windows and page lists: each rule, broken by one command.
#include <catch2/catch_test_macros.hpp>

#include "refusal_room.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

// Input of CREATE_MR whose page table has `entry` as its second entry.
pib_hca_create_mr listed(RefusalRoom& r, uint64_t entry) {
    pib_hca_create_mr in = r.mr_in();
    in.pages.root = r.host.alloc(4096);
    in.pages.levels = 1;
    in.pages.page_count = 2;
    r.host.poke(in.pages.root, r.host.alloc(4096));
    r.host.poke(in.pages.root + 8, entry);
    return in;
}

constexpr RefusalCase kCases[] = {
    REFUSED_IN(kRegionReserved, mr_in, reserved[1] = 1,
               "CREATE_MR refused: reserved at byte 46 must be 0"),
    REFUSED_IN(kRegionAccess, mr_in, access = 0x8001,
               "CREATE_MR refused: access 0x8001 at byte 4 has bits outside of 0x11f"),
    REFUSED_IN(kRegionFlags, mr_in, flags = 8,
               "CREATE_MR refused: flags 0x8 at byte 45 has bits outside of 0x7"),
    REFUSED_IN(kRegionOneFlag, mr_in, flags = 3,
               "CREATE_MR refused: flags 0x3 at byte 45 must have one bit at most"),
    REFUSED_IN(kRegionPd, mr_in, pd = 77,
               "CREATE_MR refused: pd 0x4d at byte 0 must be the number of a PD"),
    REFUSED_IN(kRegionRights, mr_in, access = PIB_HCA_ACCESS_REMOTE_WRITE,
               "CREATE_MR refused: access 0x2 at byte 4 has REMOTE_WRITE or REMOTE_ATOMIC without "
               "LOCAL_WRITE"),
    REFUSED_IN(kRegionEmpty, mr_in, length = 0,
               "CREATE_MR refused: length 0 at byte 16 must not be 0"),
    REFUSED_IN(kRegionWraps, mr_in, iova = UINT64_MAX - 4096,
               "CREATE_MR refused: iova 0xffffffffffffefff at byte 8 leads beyond 2^64 with length "
               "0x2000"),
    REFUSED_IN(kRegionLength, mr_in, length = (1ull << 40) + 1,
               "CREATE_MR refused: length 1099511627777 at byte 16, at most 1099511627776"),
    REFUSED_IN(kRegionOffset, mr_in, page_offset = 4096,
               "CREATE_MR refused: page_offset 4096 at byte 40, at most 4095"),
    REFUSED_IN(kPhysicalPages, mr_in, flags = PIB_HCA_MR_PHYSICAL,
               "CREATE_MR refused: flags 0x1 at byte 45 is PHYSICAL: root, page_count, levels and "
               "page_offset must be 0"),
    REFUSED_IN(kFastFields, fast_in, length = 1,
               "CREATE_MR refused: flags 0x2 at byte 45 is FAST: all but pd, key and "
               "pages.page_count must be 0"),
    REFUSED_IN(
        kFastPages, fast_in, pages.page_count = 4097,
        "CREATE_MR refused: pages.page_count 4097 at byte 32 of a FAST region must be 1 to 4096"),
    REFUSED_IN(kOnDemandPages, on_demand_in, pages.levels = 5,
               "CREATE_MR refused: flags 0x4 at byte 45 is ON_DEMAND: page_count 0, log_page_size "
               "12, levels 1 to 4, an aligned root, and page_offset below 4096"),
    REFUSED_IN(kOnDemandLength, on_demand_in, length = 1ull << 30,
               "CREATE_MR refused: length 1073741824 at byte 16 is more than the tables reach, at "
               "most 2097152"),
    REFUSED_IN(kRegionPages, mr_in, pages.page_count = (1u << 22) + 1,
               "CREATE_MR refused: pages.page_count 4194305 at byte 32, at most 4194304"),
    {Rule::kAllRegionPages,
     "CREATE_MR refused: pages.page_count 4096 at byte 32 exceeds what is left for all regions: 0",
     [](RefusalRoom& r) {
         CommandOutcome outcome;
         do {
             outcome = r.send(r.fast_in());
         } while (outcome.ok());
         return outcome;
     }},
    {Rule::kRegionBusy,
     "DESTROY_MR refused: object 0xf5021e00 at byte 4 of the entry is used; number of windows "
     "bound to it: 1",
     [](RefusalRoom& r) {
         auto in = r.mr_in();
         in.access |= PIB_HCA_ACCESS_MW_BIND;
         const uint32_t key = r.pass(in);
         const uint32_t rkey = r.pass(r.window_in());
         Mpt& mpt = r.device->engine().objects().mpt;
         REQUIRE(mpt.bind({.pd = r.pd, .privileged = false},
                          {.rkey = rkey + 1, .lkey = key, .addr = in.iova, .length = 64}));
         return r.d.command(PIB_HCA_CMD_DESTROY_MR, key);
     }},
    REFUSED_IN(kReregReserved, rereg_in, reserved = 1,
               "REREG_MR of 0xf5021e00 refused: reserved 1 at byte 52 must be 0"),
    REFUSED_IN(kReregMask, rereg_in, mask = 9,
               "REREG_MR of 0xf5021e00 refused: mask 0x9 at byte 48 has bits outside of 0x7"),
    REFUSED_IN(kReregFlags, rereg_in, mr.flags = PIB_HCA_MR_FAST,
               "REREG_MR of 0xf5021e00 refused: mr.flags 0x2 at byte 45 must be 0"),
    {Rule::kRegionPd,
     "REREG_MR of 0xf5021e00 refused: pd 0x4d at byte 0 must be the number of a PD",
     [](RefusalRoom& r) {
         auto in = r.rereg_in();
         in.mask = PIB_HCA_REREG_MR_PD;
         in.mr.pd = 77;
         return r.send(in);
     }},
    REFUSED_IN(kReregNothing, rereg_in, mask = 0,
               "REREG_MR of 0xf5021e00 refused: mask 0 at byte 48 must not be 0"),
    {Rule::kReregKind,
     "REREG_MR refused: object 0x2d543c00 at byte 4 of the entry is a PHYSICAL, FAST or ON_DEMAND "
     "region, which cannot change",
     [](RefusalRoom& r) {
         auto in = r.rereg_in();
         r.object = 0;
         r.object = r.pass(r.fast_in());
         return r.send(in);
     }},
    REFUSED_IN(kResumeReserved, resume_in, reserved = 1,
               "RESUME_PAGE_FAULT of 0x40 refused: reserved 1 at byte 4 must be 0"),
    REFUSED_IN(kResumeFlags, resume_in, flags = 8,
               "RESUME_PAGE_FAULT of 0x40 refused: flags 0x8 at byte 0 has bits outside of 0x5"),
    REFUSED_IN(kResumeWaits, resume_in, flags = PIB_HCA_PAGE_FAULT_RESPONDER,
               "RESUME_PAGE_FAULT of 0x40 refused: flags 0x1 at byte 0 names a half of the QP that "
               "does not wait for a page"),
    REFUSED_IN(kWindowReserved, window_in, reserved[9] = 1,
               "ALLOC_MW refused: reserved at byte 6 must be 0"),
    REFUSED_IN(kWindowPd, window_in, pd = 77,
               "ALLOC_MW refused: pd 0x4d at byte 0 must be the number of a PD"),
    REFUSED_IN(kWindowType, window_in, type = 3,
               "ALLOC_MW refused: type 3 at byte 4 must be 1 or 2"),
    REFUSED_IN(kPagesReserved, cq_in, pages.reserved = 1,
               "CREATE_CQ refused: pages.reserved 1 at byte 14 must be 0"),
    REFUSED_IN(kPagesLevels, cq_in, pages.levels = 4,
               "CREATE_CQ refused: pages.levels 4 at byte 12, at most 3"),
    REFUSED_IN(kPagesSmall, cq_in, pages.log_page_size = 11,
               "CREATE_CQ refused: pages.log_page_size 11 at byte 13, at least 12"),
    REFUSED_IN(kPagesLarge, cq_in, pages.log_page_size = 31,
               "CREATE_CQ refused: pages.log_page_size 31 at byte 13, at most 30"),
    REFUSED_IN(kPagesNone, cq_in, pages.page_count = 0,
               "CREATE_CQ refused: pages.page_count 0 at byte 8 must not be 0"),
    REFUSED_IN(kPagesMany, cq_in, pages.page_count = 2,
               "CREATE_CQ refused: pages.page_count 2 at byte 8, at most 1"),
    // The last queue ends with a page.
    {Rule::kPagesMany, "CREATE_QP refused: pages.page_count 3 at byte 8, at most 2",
     [](RefusalRoom& r) {
         auto in = r.qp_in();
         in.pages = GuestMemory(r.host, 3 * 4096).list();
         in.rq_offset = 2 * 4096 - 256;
         return r.send(in);
     }},
    REFUSED_IN(
        kPagesFew, mr_in, pages.page_count = 1,
        "CREATE_MR refused: pages.page_count 1 at byte 32 is too small; bytes to cover: 8192"),
    REFUSED_IN(kPagesRoot, cq_in, pages.root += 8,
               "CREATE_CQ refused: pages.root 0x111008 at byte 0 must be a multiple of 0x1000"),
    {Rule::kPagesTables,
     "CREATE_MR refused: pages.page_count 513 at byte 32 is more than the levels hold: 512",
     [](RefusalRoom& r) {
         auto in = listed(r, 0);
         in.pages.page_count = 513;
         return r.send(in);
     }},
    {Rule::kPagesWrap,
     "CREATE_MR refused: pages.root 0xfffffffffffff000 at byte 24 leads beyond 2^64 with bytes: "
     "0x2000",
     [](RefusalRoom& r) {
         auto in = r.mr_in();
         in.pages.levels = 0;
         in.pages.page_count = 2;
         in.pages.root = UINT64_MAX - 4095;
         return r.send(in);
     }},
    {Rule::kTableAligned,
     "CREATE_MR refused: pages.root 0x114000 at byte 24 leads to a table that is not at a multiple "
     "of 4096: 0x114008",
     [](RefusalRoom& r) {
         auto in = listed(r, 0);
         in.pages.levels = 2;
         r.host.poke(in.pages.root, in.pages.root + 8);
         return r.send(in);
     }},
    {Rule::kTableMemory,
     "CREATE_MR refused: pages.root 0x1000 at byte 24 leads to a table that is not readable RAM: "
     "0x1000",
     [](RefusalRoom& r) {
         auto in = listed(r, 0);
         in.pages.root = 4096;
         return r.send(in);
     }},
    {Rule::kPageAligned,
     "CREATE_MR refused: pages.root 0x114000 at byte 24 leads to a page that is not at a multiple "
     "of its size: 0x200008",
     [](RefusalRoom& r) { return r.send(listed(r, 0x200008)); }},
    {Rule::kPageMemory,
     "CREATE_MR refused: pages.root 0x114000 at byte 24 leads to a page that is not RAM, or cannot "
     "be written as a queue is: 0x2000",
     [](RefusalRoom& r) { return r.send(listed(r, 0x2000)); }},
    {Rule::kAllQueuePages,
     "CREATE_CQ refused: the buffer may list more pages than are left for all queues of this kind: "
     "65471",
     [](RefusalRoom& r) {
         // All tables name one table, and all its entries one page.
         const uint64_t page = r.host.alloc(4096);
         const uint64_t leaf = r.host.alloc(4096);
         auto in = r.cq_in();
         in.pages = {.root = r.host.alloc(4096),
                     .page_count = (1u << 16) + 1,
                     .levels = 2,
                     .log_page_size = 12,
                     .reserved = 0};
         in.log_depth = 22;
         for (uint64_t at = 0; at < 4096; at += 8) {
             r.host.poke(leaf + at, page);
             r.host.poke(in.pages.root + at, leaf);
         }
         CommandOutcome outcome;
         do {
             outcome = r.send(in);
         } while (outcome.ok());
         return outcome;
     }},
};

}  // namespace

std::span<const RefusalCase> pib::hca::test::memory_refusals() {
    return kCases;
}
