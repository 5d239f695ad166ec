// SPDX-License-Identifier: GPL-2.0-or-later
// Commands about event queues, completion queues, queue pairs and multicast groups.
#include "cmd.h"

namespace pib::hca {

namespace {

constexpr uint32_t kQpFlags = PIB_HCA_QP_SIGNAL_ALL | PIB_HCA_QP_PRIVILEGED | PIB_HCA_QP_NO_RQ |
                              PIB_HCA_QP_NO_SQ | PIB_HCA_QP_SRQ;
constexpr uint32_t kQpAttributes = (PIB_HCA_QP_ATTR_DEST_QPN << 1) - 1;

bool reserved_is_zero(const pib_hca_create_qp& in) {
    return (in.flags & ~kQpFlags) == 0 && all_zero(in.reserved);
}

bool reserved_is_zero(const pib_hca_av& av) {
    return (av.flags & ~uint32_t{PIB_HCA_AV_GRH}) == 0 && all_zero(av.reserved);
}

bool reserved_is_zero(const pib_hca_modify_qp& in) {
    return (in.attr_mask & ~kQpAttributes) == 0 && in.reserved == 0 && all_zero(in.reserved2) &&
           reserved_is_zero(in.av) && reserved_is_zero(in.alt_av);
}

}  // namespace

CommandReply cmd_create_eq(DeviceObjects& objects, const CommandInput& in) {
    return CommandReply::number(objects.eqs.create(in.as<pib_hca_create_eq>()));
}

CommandReply cmd_destroy_eq(DeviceObjects& objects, const CommandInput& in) {
    return objects.eqs.destroy(in.object);
}

CommandReply cmd_create_cq(DeviceObjects& objects, const CommandInput& in) {
    const auto cq = in.as<pib_hca_create_cq>();
    if (!objects.has_uar(cq.uar)) {
        return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
    }
    return CommandReply::number(objects.cqs.create(cq));
}

CommandReply cmd_resize_cq(DeviceObjects& objects, const CommandInput& in) {
    return objects.cqs.resize(in.object, in.as<pib_hca_resize_cq>());
}

CommandReply cmd_destroy_cq(DeviceObjects& objects, const CommandInput& in) {
    return objects.cqs.destroy(in.object);
}

CommandReply cmd_moderate_cq(DeviceObjects& objects, const CommandInput& in) {
    return objects.cqs.moderate(in.object, in.as<pib_hca_moderate_cq>());
}

CommandReply cmd_create_srq(DeviceObjects& objects, const CommandInput& in) {
    const auto srq = in.as<pib_hca_create_srq>();
    const bool xrc = (srq.flags & PIB_HCA_SRQ_XRC) != 0;
    if (!objects.has_pd(srq.pd) || (xrc && objects.xrcds.find(srq.xrcd) == nullptr)) {
        return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
    }
    return CommandReply::number(objects.srqs.create(srq));
}

CommandReply cmd_modify_srq(DeviceObjects& objects, const CommandInput& in) {
    return objects.srqs.modify(in.object, in.as<pib_hca_modify_srq>());
}

CommandReply cmd_query_srq(DeviceObjects& objects, const CommandInput& in) {
    const auto srq = objects.srqs.query(in.object);
    return srq ? CommandReply::data(*srq) : CommandReply(srq.error());
}

CommandReply cmd_destroy_srq(DeviceObjects& objects, const CommandInput& in) {
    const CmdStatus status = objects.srqs.destroy(in.object);
    if (status == PIB_HCA_CMD_STATUS_OK) {
        objects.transport.srq_destroyed(in.object);
    }
    return status;
}

CommandReply cmd_create_qp(DeviceObjects& objects, const CommandInput& in) {
    const auto qp = in.as<pib_hca_create_qp>();
    if (!reserved_is_zero(qp)) {
        return PIB_HCA_CMD_STATUS_BAD_RESERVED;
    }
    // An XRC target is in a domain instead of a PD.
    const bool target = qp.type == PIB_HCA_QP_XRC_TGT;
    const bool home = target ? objects.xrcds.find(qp.xrcd) != nullptr : objects.has_pd(qp.pd);
    if (!home || !objects.has_uar(qp.uar)) {
        return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
    }
    return CommandReply::number(objects.transport.create_qp(qp));
}

CommandReply cmd_modify_qp(DeviceObjects& objects, const CommandInput& in) {
    const auto qp = in.as<pib_hca_modify_qp>();
    if (!reserved_is_zero(qp)) {
        return PIB_HCA_CMD_STATUS_BAD_RESERVED;
    }
    return objects.transport.modify_qp(in.object, qp);
}

CommandReply cmd_query_qp(DeviceObjects& objects, const CommandInput& in) {
    const auto qp = objects.transport.query_qp(in.object);
    return qp ? CommandReply::data(*qp) : CommandReply(qp.error());
}

CommandReply cmd_destroy_qp(DeviceObjects& objects, const CommandInput& in) {
    return objects.transport.destroy_qp(in.object);
}

CommandReply cmd_attach_mcast(DeviceObjects& objects, const CommandInput& in) {
    const auto mcast = in.as<pib_hca_mcast>();
    return all_zero(mcast.reserved) ? objects.transport.attach_mcast(in.object, mcast)
                                    : PIB_HCA_CMD_STATUS_BAD_RESERVED;
}

CommandReply cmd_detach_mcast(DeviceObjects& objects, const CommandInput& in) {
    const auto mcast = in.as<pib_hca_mcast>();
    return all_zero(mcast.reserved) ? objects.transport.detach_mcast(in.object, mcast)
                                    : PIB_HCA_CMD_STATUS_BAD_RESERVED;
}

}  // namespace pib::hca
