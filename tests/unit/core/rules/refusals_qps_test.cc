// SPDX-License-Identifier: GPL-2.0-or-later
// Rules of queue pairs, their attributes, address vectors and multicast groups: each rule, broken
// by one command.
#include <catch2/catch_test_macros.hpp>

#include "refusal_room.h"

using namespace pib::hca;
using namespace pib::hca::test;

namespace {

// Sets an attribute and its bit in the mask, in one expression.
template <typename T, typename U>
void set(pib_hca_modify_qp& in, uint32_t mask, T pib_hca_modify_qp::* field, U value) {
    in.attr_mask |= mask;
    in.*field = static_cast<T>(value);
}

constexpr RefusalCase kCases[] = {
    REFUSED_IN(kQpReserved, qp_in, reserved[1] = 1,
               "CREATE_QP refused: reserved at byte 54 must be 0"),
    REFUSED_IN(kQpFlags, qp_in, flags = 0x20,
               "CREATE_QP refused: flags 0x20 at byte 40 has bits outside of 0x1f"),
    REFUSED_IN(kQpPd, qp_in, pd = 77,
               "CREATE_QP refused: pd 0x4d at byte 16 must be the number of a PD"),
    REFUSED_IN(kQpXrcd, target_in, xrcd = 77,
               "CREATE_QP refused: xrcd 0x4d at byte 60 must be the number of an XRC domain"),
    REFUSED_IN(kQpUar, qp_in, uar = 77,
               "CREATE_QP refused: uar 0x4d at byte 28 must be the number of a UAR"),
    REFUSED_IN(kQpSendCq, qp_in, send_cq = 77,
               "CREATE_QP refused: send_cq 0x4d at byte 20 must be the number of a CQ"),
    REFUSED_IN(kQpRecvCq, qp_in, recv_cq = 77,
               "CREATE_QP refused: recv_cq 0x4d at byte 24 must be the number of a CQ"),
    {Rule::kQpSrq,
     "CREATE_QP refused: srq 0x4d at byte 56 must be the number of an SRQ that is not XRC",
     [](RefusalRoom& r) {
         auto in = r.qp_in();
         in.flags = PIB_HCA_QP_SRQ | PIB_HCA_QP_NO_RQ;
         in.rq_offset = in.log_rq_depth = in.log_rq_stride = 0;
         in.srq = 77;
         return r.send(in);
     }},
    REFUSED_IN(kQpType, qp_in, type = 5,
               "CREATE_QP refused: type 5 at byte 48 is not a type of QP"),
    REFUSED_IN(kQpPort, qp_in, port = 1,
               "CREATE_QP refused: port 1 at byte 49 must be a port for SMI and GSI, otherwise 0; "
               "at most 0"),
    REFUSED_IN(kQpNoSq, qp_in, flags = PIB_HCA_QP_NO_SQ,
               "CREATE_QP refused: sq_offset 64 at byte 32 and log_sq_depth, log_sq_stride must be "
               "0 with NO_SQ"),
    REFUSED_IN(kQpNoRq, qp_in, flags = PIB_HCA_QP_NO_RQ,
               "CREATE_QP refused: rq_offset 4096 at byte 36 and log_rq_depth, log_rq_stride must "
               "be 0 with NO_RQ"),
    REFUSED_IN(kQpSqDeep, qp_in, log_sq_depth = 15,
               "CREATE_QP refused: log_sq_depth 15 at byte 50, at most 14"),
    REFUSED_IN(kQpRqDeep, qp_in, log_rq_depth = 15,
               "CREATE_QP refused: log_rq_depth 15 at byte 51, at most 14"),
    REFUSED_IN(kQpSqStride, qp_in, log_sq_stride = 11,
               "CREATE_QP refused: log_sq_stride 11 at byte 52 must be 6 to 10"),
    REFUSED_IN(kQpRqStride, qp_in, log_rq_stride = 4,
               "CREATE_QP refused: log_rq_stride 4 at byte 53 must be 5 to 10"),
    REFUSED_IN(kQpSqOffset, qp_in, sq_offset = 96,
               "CREATE_QP refused: sq_offset 96 at byte 32 must be a multiple of 64, at least 64"),
    REFUSED_IN(kQpRqOffset, qp_in, rq_offset = 0,
               "CREATE_QP refused: rq_offset 0 at byte 36 must be a multiple of 64, at least 64"),
    REFUSED_IN(kQpOverlap, qp_in, rq_offset = 128,
               "CREATE_QP refused: rq_offset 128 at byte 36: the receive queue overlaps the send "
               "queue, which is at 64"),
    REFUSED_IN(kQpInline, qp_in, max_inline = 65,
               "CREATE_QP refused: max_inline 65 at byte 44, at most 64"),
    REFUSED_IN(kQpSrqFlag, qp_in, flags = PIB_HCA_QP_SRQ,
               "CREATE_QP refused: flags 0x10 at byte 40 has SRQ, which needs NO_RQ and a type "
               "other than SMI and GSI"),
    REFUSED_IN(kQpSrqField, qp_in, srq = 1,
               "CREATE_QP refused: srq 0x1 at byte 56 must be 0 without the flag SRQ"),
    REFUSED_IN(
        kQpInitiator, qp_in, type = PIB_HCA_QP_XRC_INI,
        "CREATE_QP refused: type 9 at byte 48 (XRC_INI) needs NO_RQ without NO_SQ and SRQ, and "
        "recv_cq and xrcd 0"),
    REFUSED_IN(kQpTarget, target_in, pd = 1,
               "CREATE_QP refused: type 10 at byte 48 (XRC_TGT) needs NO_SQ and NO_RQ, and all "
               "else but xrcd 0"),
    REFUSED_IN(kQpXrcdField, qp_in, xrcd = 1,
               "CREATE_QP refused: xrcd 0x1 at byte 60 must be 0 for a type other than XRC_TGT"),
    REFUSED_IN(kQpBuffer, qp_in, rq_offset = 0x80000000,
               "CREATE_QP refused: pages at byte 0 must describe a buffer of at most 33751040"),
    {Rule::kQpSpecial, "CREATE_QP refused: port 2 at byte 49 has a QP of this type already",
     [](RefusalRoom& r) {
         auto in = r.qp_in();
         in.type = PIB_HCA_QP_GSI;
         in.port = 2;
         r.pass(in);
         return r.send(in);
     }},
    {Rule::kQpBusy,
     "DESTROY_QP refused: object 0x40 at byte 4 of the entry is attached; number of its multicast "
     "groups: 1",
     [](RefusalRoom& r) {
         r.pass(r.mcast_in());
         return r.d.command(PIB_HCA_CMD_DESTROY_QP, r.qp.qpn);
     }},
    REFUSED_IN(kModifyReserved, init_in, reserved = 1,
               "MODIFY_QP of 0x40 refused: reserved 1 at byte 107 must be 0"),
    REFUSED_IN(kModifyReserved2, init_in, reserved2[0] = 1,
               "MODIFY_QP of 0x40 refused: reserved2 at byte 108 must be 0"),
    REFUSED_IN(
        kModifyMask, init_in, attr_mask |= 1u << 30,
        "MODIFY_QP of 0x40 refused: attr_mask 0x40000039 at byte 0 has bits outside of 0x1fffff"),
    REFUSED_IN(
        kModifyCap, init_in, attr_mask |= PIB_HCA_QP_ATTR_CAP,
        "MODIFY_QP of 0x40 refused: attr_mask 0x80039 at byte 0 has CAP: queues cannot be resized"),
    {Rule::kCurState,
     "MODIFY_QP of 0x40 refused: cur_state 3 at byte 5 is not the QP's state, which is 0",
     [](RefusalRoom& r) {
         auto in = r.init_in();
         set(in, PIB_HCA_QP_ATTR_CUR_STATE, &pib_hca_modify_qp::cur_state, PIB_HCA_QPS_RTS);
         return r.send(in);
     }},
    REFUSED_IN(kState, init_in, state = 7,
               "MODIFY_QP of 0x40 refused: state 7 at byte 4, at most 6"),
    REFUSED_IN(
        kTransition, init_in, state = PIB_HCA_QPS_RTS,
        "MODIFY_QP of 0x40 refused: state 3 at byte 4 cannot follow the QP's state, which is 0"),
    REFUSED_IN(kRequired, init_in, attr_mask &= ~uint32_t{PIB_HCA_QP_ATTR_PORT},
               "MODIFY_QP of 0x40 refused: attr_mask 0x19 at byte 0 lacks attributes that the "
               "transition needs: 0x20"),
    REFUSED_IN(kNotTaken, init_in, attr_mask |= PIB_HCA_QP_ATTR_SQ_PSN,
               "MODIFY_QP of 0x40 refused: attr_mask 0x10039 at byte 0 has attributes that the "
               "transition does not take: 0x10000"),
    REFUSED_IN(kRqPsn, rtr_in, rq_psn = 1u << 24,
               "MODIFY_QP of 0x40 refused: rq_psn 0x1000000 at byte 12, at most 0xffffff"),
    REFUSED_IN(kSqPsn, rts_in, sq_psn = 1u << 24,
               "MODIFY_QP of 0x40 refused: sq_psn 0x1000000 at byte 16, at most 0xffffff"),
    REFUSED_IN(kDestQpn, rtr_in, dest_qpn = 1u << 24,
               "MODIFY_QP of 0x40 refused: dest_qpn 0x1000000 at byte 20, at most 0xffffff"),
    REFUSED_IN(kTimeout, rts_in, timeout = 32,
               "MODIFY_QP of 0x40 refused: timeout 32 at byte 98, at most 31"),
    REFUSED_IN(kRetryCnt, rts_in, retry_cnt = 8,
               "MODIFY_QP of 0x40 refused: retry_cnt 8 at byte 100, at most 7"),
    REFUSED_IN(kRnrRetry, rts_in, rnr_retry = 8,
               "MODIFY_QP of 0x40 refused: rnr_retry 8 at byte 101, at most 7"),
    REFUSED_IN(kMinRnrTimer, rtr_in, min_rnr_timer = 32,
               "MODIFY_QP of 0x40 refused: min_rnr_timer 32 at byte 102, at most 31"),
    REFUSED_IN(kMaxRdAtomic, rts_in, max_rd_atomic = 17,
               "MODIFY_QP of 0x40 refused: max_rd_atomic 17 at byte 103, at most 16"),
    REFUSED_IN(kMaxDestRdAtomic, rtr_in, max_dest_rd_atomic = 17,
               "MODIFY_QP of 0x40 refused: max_dest_rd_atomic 17 at byte 104, at most 16"),
    {Rule::kSqdNotify, "MODIFY_QP of 0x40 refused: en_sqd_async_notify 2 at byte 105, at most 1",
     [](RefusalRoom& r) {
         r.pass(r.rts_in());
         pib_hca_modify_qp in{};
         set(in, PIB_HCA_QP_ATTR_STATE, &pib_hca_modify_qp::state, PIB_HCA_QPS_SQD);
         set(in, PIB_HCA_QP_ATTR_EN_SQD_ASYNC_NOTIFY, &pib_hca_modify_qp::en_sqd_async_notify, 2);
         return r.send(in);
     }},
    REFUSED_IN(kQpAccess, init_in, access_flags = 0x10,
               "MODIFY_QP of 0x40 refused: access_flags 0x10 at byte 24 has bits outside of 0x30f"),
    REFUSED_IN(kPathPort, init_in, port = 3,
               "MODIFY_QP of 0x40 refused: port 3 at byte 96 must be the QP's port, 1 to 2"),
    REFUSED_IN(kPkeyIndex, init_in, pkey_index = 32,
               "MODIFY_QP of 0x40 refused: pkey_index 32 at byte 28, at most 31"),
    REFUSED_IN(
        kPathMtu, rtr_in, path_mtu = 6,
        "MODIFY_QP of 0x40 refused: path_mtu 6 at byte 6 must be 1 to 5, and no more than the "
        "port's NeighborMTU in bytes: 4096"),
    REFUSED_IN(
        kAltPort, alternate_in, alt_port = 3,
        "MODIFY_QP of 0x40 refused: alt_port 3 at byte 97 must be the number of a port, 1 to 2"),
    REFUSED_IN(kAltTimeout, alternate_in, alt_timeout = 32,
               "MODIFY_QP of 0x40 refused: alt_timeout 32 at byte 99, at most 31"),
    REFUSED_IN(kAltPkeyIndex, alternate_in, alt_pkey_index = 32,
               "MODIFY_QP of 0x40 refused: alt_pkey_index 32 at byte 30, at most 31"),
    REFUSED_IN(kAltMtu, alternate_in, path_mtu = 6,
               "MODIFY_QP of 0x40 refused: path_mtu 6 at byte 6 is more than the alternate port's "
               "NeighborMTU in bytes: 4096"),
    REFUSED_IN(
        kAltMtu, alternate_in, path_mtu = 255,
        "MODIFY_QP of 0x40 refused: path_mtu 255 at byte 6 is more than the alternate port's "
        "NeighborMTU in bytes: 4096"),
    {Rule::kPathArmed,
     "MODIFY_QP of 0x40 refused: attr_mask 0x12d181 at byte 0 has ALT_PATH, but an armed path "
     "cannot "
     "be replaced",
     [](RefusalRoom& r) {
         const auto in = r.alternate_in();
         // Set here as a packet of the peer would set it.
         QpVerbs& verbs = r.device->engine().objects().transport.verbs();
         const_cast<QueuePair*>(verbs.look_at(r.qp.qpn))->attr.path_mig_state =
             PathMigration::kArmed;
         return r.send(in);
     }},
    {Rule::kPathMigrated,
     "MODIFY_QP of 0x40 refused: path_mig_state 0 at byte 7 cannot follow REARM, nor ARMED "
     "together "
     "with ALT_PATH",
     [](RefusalRoom& r) {
         auto in = r.alternate_in();
         set(in, PIB_HCA_QP_ATTR_PATH_MIG_STATE, &pib_hca_modify_qp::path_mig_state,
             PIB_HCA_MIG_REARM);
         r.pass(in);
         pib_hca_modify_qp next{};
         next.attr_mask = PIB_HCA_QP_ATTR_STATE | PIB_HCA_QP_ATTR_SQ_PSN | PIB_HCA_QP_ATTR_TIMEOUT |
                          PIB_HCA_QP_ATTR_RETRY_CNT | PIB_HCA_QP_ATTR_RNR_RETRY |
                          PIB_HCA_QP_ATTR_MAX_QP_RD_ATOMIC | PIB_HCA_QP_ATTR_PATH_MIG_STATE;
         next.state = PIB_HCA_QPS_RTS;
         next.path_mig_state = PIB_HCA_MIG_MIGRATED;
         return r.send(next);
     }},
    {Rule::kPathRearm,
     "MODIFY_QP of 0x40 refused: path_mig_state 1 at byte 7 needs an alternate path, which is not "
     "loaded",
     [](RefusalRoom& r) {
         auto in = r.rtr_in();
         set(in, PIB_HCA_QP_ATTR_PATH_MIG_STATE, &pib_hca_modify_qp::path_mig_state,
             PIB_HCA_MIG_REARM);
         return r.send(in);
     }},
    {Rule::kMigState, "MODIFY_QP of 0x40 refused: path_mig_state 2 at byte 7, at most 1",
     [](RefusalRoom& r) {
         auto in = r.rtr_in();
         set(in, PIB_HCA_QP_ATTR_PATH_MIG_STATE, &pib_hca_modify_qp::path_mig_state,
             PIB_HCA_MIG_ARMED);
         return r.send(in);
     }},
    {Rule::kDraining,
     "MODIFY_QP of 0x40 refused: attr_mask 0x11 at byte 0 has attributes that wait until the send "
     "queue has drained: 0x10",
     [](RefusalRoom& r) {
         auto rts = r.rts_in();
         rts.retry_cnt = 7;
         r.pass(rts);
         r.d.post_send(r.qp, {});  // no peer answers
         pib_hca_modify_qp in{};
         set(in, PIB_HCA_QP_ATTR_STATE, &pib_hca_modify_qp::state, PIB_HCA_QPS_SQD);
         r.pass(in);
         set(in, PIB_HCA_QP_ATTR_PKEY_INDEX, &pib_hca_modify_qp::pkey_index, 0);
         return r.send(in);
     }},
    REFUSED_IN(kVectorFlags, rtr_in, av.flags = 2,
               "MODIFY_QP of 0x40 refused: av.flags 0x2 at byte 38 has bits outside of 0x1"),
    REFUSED_IN(kVectorReserved, alternate_in, alt_av.reserved[1] = 1,
               "MODIFY_QP of 0x40 refused: alt_av.reserved at byte 78 must be 0"),
    REFUSED_IN(kVectorPort, rtr_in, av.port = 1,
               "MODIFY_QP of 0x40 refused: av.port 1 at byte 35 must be 0"),
    REFUSED_IN(kVectorLid, rtr_in, av.dlid = 0xc000,
               "MODIFY_QP of 0x40 refused: av.dlid 0xc000 at byte 32 must be 1 to 0xbfff"),
    REFUSED_IN(kVectorSl, alternate_in, alt_av.sl = 16,
               "MODIFY_QP of 0x40 refused: alt_av.sl 16 at byte 66, at most 15"),
    REFUSED_IN(kVectorPathBits, rtr_in, av.src_path_bits = 128,
               "MODIFY_QP of 0x40 refused: av.src_path_bits 128 at byte 36, at most 127"),
    REFUSED_IN(kVectorRate, rtr_in, av.static_rate = 23,
               "MODIFY_QP of 0x40 refused: av.static_rate 23 at byte 37 must be 0, or 2 to 22"),
    {Rule::kVectorGid,
     "MODIFY_QP of 0x40 refused: av.sgid_index 15 at byte 39 must name an entry of the GID table "
     "that is not empty, below 16",
     [](RefusalRoom& r) {
         auto in = r.rtr_in();
         in.av.flags = PIB_HCA_AV_GRH;
         in.av.sgid_index = 15;
         return r.send(in);
     }},
    {Rule::kVectorFlowLabel,
     "MODIFY_QP of 0x40 refused: av.flow_label 0x100000 at byte 40, at most 0xfffff",
     [](RefusalRoom& r) {
         auto in = r.rtr_in();
         in.av.flags = PIB_HCA_AV_GRH;
         in.av.flow_label = 1u << 20;
         return r.send(in);
     }},
    REFUSED_IN(kMcastReserved, mcast_in, reserved[0] = 1,
               "ATTACH_MCAST of 0x40 refused: reserved at byte 18 must be 0"),
    {Rule::kMcastType,
     "ATTACH_MCAST refused: object 0x41 at byte 4 of the entry must be a UD QP; its type is 2",
     [](RefusalRoom& r) {
         const auto in = r.mcast_in();
         r.object = r.d.create_qp(r.shape()).qpn;
         return r.send(in);
     }},
    REFUSED_IN(kMcastGid, mcast_in, mgid[0] = 0xfe,
               "ATTACH_MCAST of 0x40 refused: mgid at byte 0 must begin with 0xff; its first byte "
               "is 0xfe"),
    REFUSED_IN(kMcastLid, mcast_in, mlid = 0xffff,
               "ATTACH_MCAST of 0x40 refused: mlid 0xffff at byte 16 must be 0xc000 to 0xfffe"),
    {Rule::kMcastGroups, "ATTACH_MCAST of 0x40 refused: all multicast groups exist already: 8192",
     [](RefusalRoom& r) {
         auto in = r.mcast_in();
         CommandOutcome outcome;
         for (unsigned i = 0; outcome.status == 0xff || outcome.ok(); ++i) {
             in.mgid[14] = static_cast<uint8_t>(i >> 8);
             in.mgid[15] = static_cast<uint8_t>(i);
             outcome = r.send(in);
         }
         return outcome;
     }},
    {Rule::kMcastMembers,
     "ATTACH_MCAST of 0x140 refused: mgid at byte 0 names a group that can have no more members: "
     "256",
     [](RefusalRoom& r) {
         CommandOutcome outcome;
         do {
             const auto in = r.mcast_in();
             outcome = r.send(in);
         } while (outcome.ok());
         return outcome;
     }},
    {Rule::kMcastDetached,
     "DETACH_MCAST refused: object 0x40 at byte 4 of the entry is not attached to the group",
     [](RefusalRoom& r) {
         const auto in = r.mcast_in();
         return r.d.command_in(PIB_HCA_CMD_DETACH_MCAST, r.object, in);
     }},
};

}  // namespace

std::span<const RefusalCase> pib::hca::test::qp_refusals() {
    return kCases;
}
