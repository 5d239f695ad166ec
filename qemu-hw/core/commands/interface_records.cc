// SPDX-License-Identifier: GPL-2.0-or-later
#include "commands/interface_records.h"

#include <algorithm>

#include "commands/command_table.h"
#include "queues/interface_av.h"
#include "queues/interface_pages.h"

namespace pib::hca {
namespace {

constexpr uint32_t kQpFlags = PIB_HCA_QP_SIGNAL_ALL | PIB_HCA_QP_PRIVILEGED | PIB_HCA_QP_NO_RQ |
                              PIB_HCA_QP_NO_SQ | PIB_HCA_QP_SRQ;
constexpr uint32_t kQpAttributes = (PIB_HCA_QP_ATTR_DEST_QPN << 1) - 1;

Verdict check_record(const pib_hca_av& av) {
    if ((av.flags & ~uint32_t{PIB_HCA_AV_GRH}) != 0) {
        return refuse(Rule::kVectorFlags, av.flags, PIB_HCA_AV_GRH);
    }
    return all_zero(av.reserved) ? CmdStatus::kOk : refuse(Rule::kVectorReserved);
}

Verdict check_record(const pib_hca_modify_qp& in) {
    if ((in.attr_mask & ~kQpAttributes) != 0) {
        return refuse(Rule::kModifyMask, in.attr_mask, kQpAttributes);
    }
    if (in.reserved != 0) {
        return refuse(Rule::kModifyReserved, in.reserved);
    }
    if (!all_zero(in.reserved2)) {
        return refuse(Rule::kModifyReserved2);
    }
    return check_record(in.av).and_then([&] { return check_record(in.alt_av).of_alternate(); });
}

Verdict check_record(const pib_hca_create_qp& in) {
    if ((in.flags & ~kQpFlags) != 0) {
        return refuse(Rule::kQpFlags, in.flags, kQpFlags);
    }
    return all_zero(in.reserved) ? check_reserved(in.pages) : refuse(Rule::kQpReserved);
}

Verdict check_record(const pib_hca_create_mr& in) {
    return all_zero(in.reserved) ? check_reserved(in.pages) : refuse(Rule::kRegionReserved);
}

Verdict check_record(const pib_hca_rereg_mr& in) {
    constexpr uint32_t kMask =
        PIB_HCA_REREG_MR_TRANSLATION | PIB_HCA_REREG_MR_PD | PIB_HCA_REREG_MR_ACCESS;
    if (in.reserved != 0) {
        return refuse(Rule::kReregReserved, in.reserved);
    }
    if ((in.mask & ~kMask) != 0) {
        return refuse(Rule::kReregMask, in.mask, kMask);
    }
    if (in.mr.flags != 0) {
        return refuse(Rule::kReregFlags, in.mr.flags);
    }
    if (!all_zero(in.mr.reserved)) {
        return refuse(Rule::kRegionReserved);
    }
    const bool moves = (in.mask & PIB_HCA_REREG_MR_TRANSLATION) != 0;
    return moves ? check_reserved(in.mr.pages) : CmdStatus::kOk;
}

pib_hca_av av_record(const AddressVector& av) {
    pib_hca_av out{};
    out.dlid = av.dlid;
    out.sl = av.sl;
    out.port = av.port;
    out.src_path_bits = av.src_path_bits;
    out.static_rate = av.static_rate;
    out.flags = av.has_grh ? PIB_HCA_AV_GRH : 0;
    out.sgid_index = av.sgid_index;
    out.flow_label = av.flow_label;
    out.traffic_class = av.traffic_class;
    out.hop_limit = av.hop_limit;
    std::ranges::copy(av.dgid, out.dgid);
    return out;
}

Registration region_of(const pib_hca_create_mr& in) {
    return {.pd = in.pd,
            .access = in.access,
            .iova = in.iova,
            .length = in.length,
            .pages = page_list(in.pages),
            .page_offset = in.page_offset,
            .key = in.key,
            .flags = in.flags};
}

}  // namespace

CmdResult<QpRequest> qp_request(const pib_hca_create_qp& in) {
    if (const Verdict verdict = check_record(in); verdict != CmdStatus::kOk) {
        return std::unexpected(verdict);
    }
    return QpRequest{.pages = page_list(in.pages),
                     .pd = in.pd,
                     .send_cq = in.send_cq,
                     .recv_cq = in.recv_cq,
                     .uar = in.uar,
                     .sq_offset = in.sq_offset,
                     .rq_offset = in.rq_offset,
                     .flags = in.flags,
                     .max_inline = in.max_inline,
                     .type = static_cast<QpType>(in.type),
                     .port = in.port,
                     .log_sq_depth = in.log_sq_depth,
                     .log_rq_depth = in.log_rq_depth,
                     .log_sq_stride = in.log_sq_stride,
                     .log_rq_stride = in.log_rq_stride,
                     .srq = in.srq,
                     .xrcd = in.xrcd};
}

CmdResult<QpAttributes> qp_attributes(const pib_hca_modify_qp& in) {
    if (const Verdict verdict = check_record(in); verdict != CmdStatus::kOk) {
        return std::unexpected(verdict);
    }
    return QpAttributes{.attr_mask = in.attr_mask,
                        .state = static_cast<QpState>(in.state),
                        .cur_state = static_cast<QpState>(in.cur_state),
                        .path_mtu = in.path_mtu,
                        .path_mig_state = static_cast<PathMigration>(in.path_mig_state),
                        .qkey = in.qkey,
                        .rq_psn = in.rq_psn,
                        .sq_psn = in.sq_psn,
                        .dest_qpn = in.dest_qpn,
                        .access_flags = in.access_flags,
                        .pkey_index = in.pkey_index,
                        .alt_pkey_index = in.alt_pkey_index,
                        .av = address_vector(in.av),
                        .alt_av = address_vector(in.alt_av),
                        .port = in.port,
                        .alt_port = in.alt_port,
                        .timeout = in.timeout,
                        .alt_timeout = in.alt_timeout,
                        .retry_cnt = in.retry_cnt,
                        .rnr_retry = in.rnr_retry,
                        .min_rnr_timer = in.min_rnr_timer,
                        .max_rd_atomic = in.max_rd_atomic,
                        .max_dest_rd_atomic = in.max_dest_rd_atomic,
                        .en_sqd_async_notify = in.en_sqd_async_notify};
}

pib_hca_modify_qp attributes_record(const QpAttributes& qp) {
    pib_hca_modify_qp out{};
    out.state = static_cast<uint8_t>(qp.state);
    out.cur_state = static_cast<uint8_t>(qp.cur_state);
    out.path_mtu = qp.path_mtu;
    out.path_mig_state = static_cast<uint8_t>(qp.path_mig_state);
    out.qkey = qp.qkey;
    out.rq_psn = qp.rq_psn;
    out.sq_psn = qp.sq_psn;
    out.dest_qpn = qp.dest_qpn;
    out.access_flags = qp.access_flags;
    out.pkey_index = qp.pkey_index;
    out.alt_pkey_index = qp.alt_pkey_index;
    out.av = av_record(qp.av);
    out.alt_av = av_record(qp.alt_av);
    out.port = qp.port;
    out.alt_port = qp.alt_port;
    out.timeout = qp.timeout;
    out.alt_timeout = qp.alt_timeout;
    out.retry_cnt = qp.retry_cnt;
    out.rnr_retry = qp.rnr_retry;
    out.min_rnr_timer = qp.min_rnr_timer;
    out.max_rd_atomic = qp.max_rd_atomic;
    out.max_dest_rd_atomic = qp.max_dest_rd_atomic;
    out.en_sqd_async_notify = qp.en_sqd_async_notify;
    out.sq_draining = qp.sq_draining ? 1 : 0;
    return out;
}

CmdResult<McastGroup> mcast_group(const pib_hca_mcast& in) {
    if (!all_zero(in.reserved)) {
        return std::unexpected(refuse(Rule::kMcastReserved));
    }
    McastGroup group{.mgid = {}, .mlid = ib::Lid(in.mlid)};
    std::ranges::copy(in.mgid, group.mgid.bytes.begin());
    return group;
}

CmdResult<Registration> registration(const pib_hca_create_mr& in) {
    if (const Verdict verdict = check_record(in); verdict != CmdStatus::kOk) {
        return std::unexpected(verdict);
    }
    return region_of(in);
}

CmdResult<Reregistration> reregistration(const pib_hca_rereg_mr& in) {
    if (const Verdict verdict = check_record(in); verdict != CmdStatus::kOk) {
        return std::unexpected(verdict);
    }
    return Reregistration{.mr = region_of(in.mr), .mask = in.mask};
}

CmdResult<WindowRequest> window_request(const pib_hca_alloc_mw& in) {
    if (!all_zero(in.reserved)) {
        return std::unexpected(refuse(Rule::kWindowReserved));
    }
    return WindowRequest{.pd = in.pd, .type = in.type, .key = in.key};
}

pib_hca_page_fault fault_record(const PageFault& fault) {
    pib_hca_page_fault out{};
    out.addr = fault.miss.addr;
    out.length = fault.miss.length;
    out.key = fault.miss.key;
    out.qpn = fault.qpn;
    out.flags = (fault.half == QpHalf::kResponder ? PIB_HCA_PAGE_FAULT_RESPONDER : 0) |
                (fault.miss.for_write ? PIB_HCA_PAGE_FAULT_WRITE : 0);
    return out;
}

}  // namespace pib::hca
