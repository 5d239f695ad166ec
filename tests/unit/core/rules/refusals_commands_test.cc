// SPDX-License-Identifier: GPL-2.0-or-later
// Rules of every command, of the device, ports, UARs and domains: each rule, broken by one command.
#include <catch2/catch_test_macros.hpp>

#include "refusal_room.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

constexpr RefusalCase kCases[] = {
    {Rule::kOpcode,
     "command refused: opcode 0xffff at byte 0 of the entry is not a command of this device",
     [](RefusalRoom& r) { return r.entry(0xffff, 0, 0, [](auto&) {}); }},
    {Rule::kEntryReserved, "NOP refused: reserved at byte 36 of the entry must be 0",
     [](RefusalRoom& r) {
         return r.entry(PIB_HCA_CMD_NOP, 0, 0, [](auto& e) { e.reserved[6] = 1; });
     }},
    {Rule::kModifier, "NOP refused: modifier 7 at byte 32 of the entry must be 0",
     [](RefusalRoom& r) {
         return r.entry(PIB_HCA_CMD_NOP, 0, 0, [](auto& e) { e.modifier = 7; });
     }},
    {Rule::kObjectUnused,
     "ALLOC_PD refused: object 0x3 at byte 4 of the entry must be 0, because the command names no "
     "object",
     [](RefusalRoom& r) { return r.d.command(PIB_HCA_CMD_ALLOC_PD, 3); }},
    {Rule::kInputShort, "CREATE_CQ refused: in_length 31 at byte 24 of the entry, at least 32",
     [](RefusalRoom& r) {
         return r.entry(PIB_HCA_CMD_CREATE_CQ, sizeof(pib_hca_create_cq) - 1, 0, [](auto&) {});
     }},
    {Rule::kInputLong, "CREATE_CQ refused: in_length 4097 at byte 24 of the entry, at most 4096",
     [](RefusalRoom& r) { return r.entry(PIB_HCA_CMD_CREATE_CQ, 4097, 0, [](auto&) {}); }},
    {Rule::kOutputLong,
     "QUERY_DEVICE refused: out_length 4097 at byte 28 of the entry, at most 4096",
     [](RefusalRoom& r) { return r.entry(PIB_HCA_CMD_QUERY_DEVICE, 0, 4097, [](auto&) {}); }},
    {Rule::kInputMemory,
     "CREATE_CQ refused: in_addr 0x8 at byte 8 of the entry must be the address of readable RAM; "
     "bytes: 32",
     [](RefusalRoom& r) {
         return r.entry(PIB_HCA_CMD_CREATE_CQ, 32, 0, [](auto& e) { e.in_addr = 8; });
     }},
    {Rule::kInputTail,
     "CREATE_CQ refused: in_addr 0x102000 at byte 8 of the entry names a structure that this "
     "device does not know; it must be 0 from byte 32",
     [](RefusalRoom& r) {
         r.host.poke(r.d.in_buffer() + 32, uint8_t{1});
         return r.entry(PIB_HCA_CMD_CREATE_CQ, 33, 0, [](auto& e) { e.id = 1; });
     }},
    {Rule::kOutputMemory,
     "QUERY_DEVICE refused: out_addr 0x8 at byte 16 of the entry must be the address of writable "
     "RAM; bytes: 240",
     [](RefusalRoom& r) {
         return r.entry(PIB_HCA_CMD_QUERY_DEVICE, 0, 240, [](auto& e) { e.out_addr = 8; });
     }},
    {Rule::kDeviceStopped,
     "NOP refused: the device has stopped; FATAL_CAUSE says why, and a reset ends it",
     [](RefusalRoom& r) {
         r.pass(r.inject_in(PIB_HCA_EVENT_DEVICE_FATAL, 0));
         return r.d.command(PIB_HCA_CMD_NOP);
     }},
    {Rule::kNoPort,
     "QUERY_PORT refused: object 3 at byte 4 of the entry must be the number of a port, 1 to 2",
     [](RefusalRoom& r) { return r.d.command(PIB_HCA_CMD_QUERY_PORT, 3); }},
    {Rule::kNoUar,
     "FREE_UAR refused: object 0x9 at byte 4 of the entry must be the number of a UAR",
     [](RefusalRoom& r) { return r.d.command(PIB_HCA_CMD_FREE_UAR, 9); }},
    {Rule::kNoPd, "FREE_PD refused: object 0x9 at byte 4 of the entry must be the number of a PD",
     [](RefusalRoom& r) { return r.d.command(PIB_HCA_CMD_FREE_PD, 9); }},
    {Rule::kNoXrcd,
     "FREE_XRCD refused: object 0x9 at byte 4 of the entry must be the number of an XRC domain",
     [](RefusalRoom& r) { return r.d.command(PIB_HCA_CMD_FREE_XRCD, 9); }},
    {Rule::kNoEq,
     "DESTROY_EQ refused: object 0x9 at byte 4 of the entry must be the number of an EQ",
     [](RefusalRoom& r) { return r.d.command(PIB_HCA_CMD_DESTROY_EQ, 9); }},
    {Rule::kNoCq,
     "DESTROY_CQ refused: object 0x9 at byte 4 of the entry must be the number of a CQ",
     [](RefusalRoom& r) { return r.d.command(PIB_HCA_CMD_DESTROY_CQ, 9); }},
    {Rule::kNoSrq,
     "DESTROY_SRQ refused: object 0x9 at byte 4 of the entry must be the number of an SRQ",
     [](RefusalRoom& r) { return r.d.command(PIB_HCA_CMD_DESTROY_SRQ, 9); }},
    {Rule::kNoQp,
     "DESTROY_QP refused: object 0x99 at byte 4 of the entry must be the number of a QP",
     [](RefusalRoom& r) { return r.d.command(PIB_HCA_CMD_DESTROY_QP, 0x99); }},
    {Rule::kNoRegion,
     "DESTROY_MR refused: object 0x1200 at byte 4 of the entry must be the key of a region",
     [](RefusalRoom& r) { return r.d.command(PIB_HCA_CMD_DESTROY_MR, 0x1200); }},
    {Rule::kNoWindow,
     "DEALLOC_MW refused: object 0x1200 at byte 4 of the entry must be the key of a window",
     [](RefusalRoom& r) { return r.d.command(PIB_HCA_CMD_DEALLOC_MW, 0x1200); }},
    {Rule::kNoKey,
     "QUERY_KEY refused: object 0x1200 at byte 4 of the entry must be the key of a region or "
     "window",
     [](RefusalRoom& r) { return r.d.command(PIB_HCA_CMD_QUERY_KEY, 0x1200); }},
    {Rule::kObjectLimit, "CREATE_EQ refused: all objects of this kind exist already: 128",
     [](RefusalRoom& r) {
         CommandOutcome outcome;
         do {
             outcome = r.send(r.eq_in());
         } while (outcome.ok());
         return outcome;
     }},
    REFUSED_IN(kDeviceMask, device_in, mask = 0x84,
               "MODIFY_DEVICE refused: mask 0x84 at byte 0 has bits outside of 0x3"),
    REFUSED_IN(kDeviceReserved, device_in, reserved = 5,
               "MODIFY_DEVICE refused: reserved 5 at byte 4 must be 0"),
    REFUSED_IN(kDeviceGuid, device_in, mask = PIB_HCA_MODIFY_DEVICE_SYS_IMAGE_GUID,
               "MODIFY_DEVICE refused: sys_image_guid at byte 8 must not be 0"),
    REFUSED_IN(kPortFlags, port_in, flags = 6,
               "MODIFY_PORT of 0x1 refused: flags 0x6 at byte 8 has bits outside of 0x1"),
    REFUSED_IN(kPortReserved, port_in, reserved = 5,
               "MODIFY_PORT of 0x1 refused: reserved 5 at byte 12 must be 0"),
    REFUSED_IN(kPortCapability, port_in, set_capability_mask = 1,
               "MODIFY_PORT of 0x1 refused: set_capability_mask 0x1 at byte 0 with "
               "clear_capability_mask has bits outside of 0x9b0402"),
    REFUSED_IN(kPortCapability, port_in, clear_capability_mask = 1,
               "MODIFY_PORT of 0x1 refused: set_capability_mask 0x1 at byte 0 with "
               "clear_capability_mask has bits outside of 0x9b0402"),
    {Rule::kPortBothMasks,
     "MODIFY_PORT of 0x1 refused: set_capability_mask 0x2 at byte 0 has bits that "
     "clear_capability_mask has too: 0x2",
     [](RefusalRoom& r) {
         auto in = r.port_in();
         in.set_capability_mask = in.clear_capability_mask = 2;
         return r.send(in);
     }},
    REFUSED_IN(kMadFlags, mad_in, flags = 4,
               "MAD_IFC of 0x1 refused: flags 0x4 at byte 265 has bits outside of 0x3"),
    REFUSED_IN(kMadReserved, mad_in, reserved[5] = 1,
               "MAD_IFC of 0x1 refused: reserved at byte 266 must be 0"),
    {Rule::kUarBusy,
     "FREE_UAR refused: object 0x1 at byte 4 of the entry is used; number of its CQs and QPs: 1",
     [](RefusalRoom& r) {
         auto in = r.cq_in();
         in.uar = r.d.alloc_uar();
         r.pass(in);
         return r.d.command(PIB_HCA_CMD_FREE_UAR, in.uar);
     }},
    {Rule::kShadowOffered,
     "SET_SHADOW_PAGE refused: this device has no kicks (PIB_HCA_FEATURE_SHADOW_DOORBELLS)",
     [](RefusalRoom& r) { return r.send(r.shadow_in()); }, plain_config},
    {Rule::kShadowTwice,
     "SET_SHADOW_PAGE refused: addr 0x110000 at byte 0 must be 0, because the UAR has a page",
     [](RefusalRoom& r) {
         r.pass(r.shadow_in());
         return r.send(r.shadow_in());
     }},
    REFUSED_IN(kShadowNone, shadow_in, addr = 0,
               "SET_SHADOW_PAGE refused: addr 0 at byte 0 must not be 0, because the UAR has no "
               "page to remove"),
    REFUSED_IN(kShadowAligned, shadow_in, addr += 64,
               "SET_SHADOW_PAGE refused: addr 0x10f040 at byte 0 must be a multiple of 4096"),
    REFUSED_IN(
        kShadowMemory, shadow_in, addr = 4096,
        "SET_SHADOW_PAGE refused: addr 0x1000 at byte 0 must be the address of writable RAM"),
    {Rule::kPdBusy,
     "FREE_PD refused: object 0x1 at byte 4 of the entry is used; number of its QPs, SRQs, regions "
     "and windows: 1",
     [](RefusalRoom& r) {
         r.pass(r.mr_in());
         return r.d.command(PIB_HCA_CMD_FREE_PD, r.pd);
     }},
    {Rule::kXrcdBusy,
     "FREE_XRCD refused: object 0x1 at byte 4 of the entry is used; number of its QPs and SRQs: 1",
     [](RefusalRoom& r) {
         const auto in = r.target_in();
         r.pass(in);
         return r.d.command(PIB_HCA_CMD_FREE_XRCD, in.xrcd);
     }},
    {Rule::kXrcdBusy,
     "FREE_XRCD refused: object 0x1 at byte 4 of the entry is used; number of its QPs and SRQs: 1",
     [](RefusalRoom& r) {
         const auto in = r.xrc_srq_in();
         r.pass(in);
         return r.d.command(PIB_HCA_CMD_FREE_XRCD, in.xrcd);
     }},
    {Rule::kInjectOffered,
     "INJECT_EVENT refused: this device injects no events (PIB_HCA_FEATURE_INJECT)",
     [](RefusalRoom& r) { return r.send(r.port_event_in()); }, plain_config},
    REFUSED_IN(kInjectReserved, port_event_in, reserved = 1,
               "INJECT_EVENT refused: reserved 1 at byte 2 must be 0"),
    {Rule::kInjectObject,
     "INJECT_EVENT refused: object 0x4 at byte 4 of the entry must be 0 for the events PORT and "
     "DEVICE_FATAL",
     [](RefusalRoom& r) { return r.send(r.inject_in(PIB_HCA_EVENT_PORT, 4)); }},
    REFUSED_IN(kInjectPort, port_event_in, port = 3,
               "INJECT_EVENT refused: port 3 at byte 1 must be the number of a port, 1 to 2"),
    REFUSED_IN(
        kInjectData, port_event_in, data = 0x100,
        "INJECT_EVENT refused: data 0x100 at byte 4 must have a bit, and no bits outside of 0x7f"),
    {Rule::kInjectPortOnly,
     "INJECT_EVENT of 0x1 refused: port 1 at byte 1 must be 0 for an event other than PORT; so "
     "must "
     "data: 0",
     [](RefusalRoom& r) {
         auto in = r.inject_in(PIB_HCA_EVENT_CQ_ERROR, r.cq.cqn);
         in.port = 1;
         return r.send(in);
     }},
    {Rule::kInjectType,
     "INJECT_EVENT of 0x40 refused: type 238 at byte 0 is not an event that can be injected",
     [](RefusalRoom& r) {
         r.qp = r.d.create_qp(r.shape());
         return r.send(r.inject_in(0xee, r.qp.qpn));
     }},
    {Rule::kInjectState,
     "INJECT_EVENT refused: object 0x1 at byte 4 of the entry is in error already, or a QP in "
     "Reset",
     [](RefusalRoom& r) {
         r.pass(r.inject_in(PIB_HCA_EVENT_CQ_ERROR, r.cq.cqn));
         return r.send(r.inject_in(PIB_HCA_EVENT_CQ_ERROR, r.cq.cqn));
     }},
};

}  // namespace

std::span<const RefusalCase> pib::hca::test::command_refusals() {
    return kCases;
}
