// SPDX-License-Identifier: GPL-2.0-or-later
// Commands about queue pairs and multicast groups.
#include "commands/command_table.h"
#include "commands/interface_records.h"

namespace pib::hca {

CommandReply cmd_create_qp(DeviceObjects& objects, const CommandInput& in) {
    const auto qp = qp_request(in.as<pib_hca_create_qp>());
    if (!qp) {
        return qp.error();
    }
    // An XRC target QP belongs to an XRC domain and not to a PD.
    const bool target = qp->type == QpType::kXrcTgt;
    if (target && objects.xrcds.find(qp->xrcd) == nullptr) {
        return refuse(Rule::kQpXrcd, qp->xrcd);
    }
    if (!target && !objects.has_pd(qp->pd)) {
        return refuse(Rule::kQpPd, qp->pd);
    }
    if (!objects.has_uar(qp->uar)) {
        return refuse(Rule::kQpUar, qp->uar);
    }
    return CommandReply::number(objects.transport.verbs().create(*qp));
}

CommandReply cmd_modify_qp(DeviceObjects& objects, const CommandInput& in) {
    const auto qp = qp_attributes(in.as<pib_hca_modify_qp>());
    return qp ? objects.transport.verbs().modify(in.object, *qp) : qp.error();
}

CommandReply cmd_query_qp(DeviceObjects& objects, const CommandInput& in) {
    const auto qp = objects.transport.verbs().query(in.object);
    return qp ? CommandReply::data(attributes_record(*qp)) : CommandReply(qp.error());
}

CommandReply cmd_destroy_qp(DeviceObjects& objects, const CommandInput& in) {
    return objects.transport.verbs().destroy(in.object);
}

CommandReply cmd_attach_mcast(DeviceObjects& objects, const CommandInput& in) {
    const auto group = mcast_group(in.as<pib_hca_mcast>());
    return group ? objects.transport.verbs().attach_mcast(in.object, *group) : group.error();
}

CommandReply cmd_detach_mcast(DeviceObjects& objects, const CommandInput& in) {
    const auto group = mcast_group(in.as<pib_hca_mcast>());
    return group ? objects.transport.verbs().detach_mcast(in.object, *group) : group.error();
}

}  // namespace pib::hca
