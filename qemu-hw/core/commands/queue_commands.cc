// SPDX-License-Identifier: GPL-2.0-or-later
// Commands about event queues, completion queues and shared receive queues.
#include "commands/command_table.h"

namespace pib::hca {

CommandReply cmd_create_eq(DeviceObjects& objects, const CommandInput& in) {
    return CommandReply::number(objects.eqs.create(in.as<pib_hca_create_eq>()));
}

CommandReply cmd_destroy_eq(DeviceObjects& objects, const CommandInput& in) {
    return objects.eqs.destroy(in.object);
}

CommandReply cmd_create_cq(DeviceObjects& objects, const CommandInput& in) {
    const auto cq = in.as<pib_hca_create_cq>();
    if (!objects.has_uar(cq.uar)) {
        return refuse(Rule::kCqUar, cq.uar);
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
    if (!objects.has_pd(srq.pd)) {
        return refuse(Rule::kSrqPd, srq.pd);
    }
    if (xrc && objects.xrcds.find(srq.xrcd) == nullptr) {
        return refuse(Rule::kSrqXrcd, srq.xrcd);
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
    const Verdict verdict = objects.srqs.destroy(in.object);
    if (verdict == CmdStatus::kOk) {
        objects.transport.verbs().srq_destroyed(in.object);
    }
    return verdict;
}

}  // namespace pib::hca
