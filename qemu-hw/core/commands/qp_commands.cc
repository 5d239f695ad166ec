// SPDX-License-Identifier: GPL-2.0-or-later
// Commands about queue pairs and multicast groups.
#include "commands/command_table.h"

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
    return CommandReply::number(objects.transport.verbs().create(qp));
}

CommandReply cmd_modify_qp(DeviceObjects& objects, const CommandInput& in) {
    const auto qp = in.as<pib_hca_modify_qp>();
    if (!reserved_is_zero(qp)) {
        return PIB_HCA_CMD_STATUS_BAD_RESERVED;
    }
    return objects.transport.verbs().modify(in.object, qp);
}

CommandReply cmd_query_qp(DeviceObjects& objects, const CommandInput& in) {
    const auto qp = objects.transport.verbs().query(in.object);
    return qp ? CommandReply::data(*qp) : CommandReply(qp.error());
}

CommandReply cmd_destroy_qp(DeviceObjects& objects, const CommandInput& in) {
    return objects.transport.verbs().destroy(in.object);
}

CommandReply cmd_attach_mcast(DeviceObjects& objects, const CommandInput& in) {
    const auto mcast = in.as<pib_hca_mcast>();
    return all_zero(mcast.reserved) ? objects.transport.verbs().attach_mcast(in.object, mcast)
                                    : PIB_HCA_CMD_STATUS_BAD_RESERVED;
}

CommandReply cmd_detach_mcast(DeviceObjects& objects, const CommandInput& in) {
    const auto mcast = in.as<pib_hca_mcast>();
    return all_zero(mcast.reserved) ? objects.transport.verbs().detach_mcast(in.object, mcast)
                                    : PIB_HCA_CMD_STATUS_BAD_RESERVED;
}

}  // namespace pib::hca
