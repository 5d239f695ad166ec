// SPDX-License-Identifier: GPL-2.0-or-later
// Commands about UARs, protection domains, memory regions and windows.
#include "commands/command_table.h"

namespace pib::hca {

namespace {

template <typename T>
CommandReply allocate(Table<T>& table) {
    const uint32_t number = table.insert({});
    return number == Table<T>::kFull ? CommandReply(PIB_HCA_CMD_STATUS_NO_RESOURCES)
                                     : CommandReply::number(number);
}

// Number of QPs that name this object.
uint32_t qps_with(DeviceObjects& objects, uint32_t QueuePair::* object, uint32_t number) {
    return objects.transport.verbs().count_if(
        [&](const QueuePair& qp) { return qp.*object == number; });
}

}  // namespace

CommandReply cmd_alloc_uar(DeviceObjects& objects, const CommandInput&) {
    return allocate(objects.uars);
}

CommandReply cmd_free_uar(DeviceObjects& objects, const CommandInput& in) {
    if (objects.uars.find(in.object) == nullptr) {
        return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
    }
    if (qps_with(objects, &QueuePair::uar, in.object) != 0 ||
        objects.cqs.cqs_of_uar(in.object) != 0) {
        return PIB_HCA_CMD_STATUS_BUSY;
    }
    if (objects.shadow_doorbells.has(in.object)) {
        objects.shadow_doorbells.set(in.object, 0);
    }
    objects.uars.erase(in.object);
    return {};
}

CommandReply cmd_set_shadow_page(DeviceObjects& objects, const CommandInput& in) {
    if (!objects.config.shadow_doorbells) {
        return PIB_HCA_CMD_STATUS_NOT_SUPPORTED;
    }
    if (!objects.has_uar(in.object)) {
        return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
    }
    return objects.shadow_doorbells.set(in.object, in.as<pib_hca_set_shadow_page>().addr);
}

CommandReply cmd_alloc_pd(DeviceObjects& objects, const CommandInput&) {
    return allocate(objects.pds);
}

CommandReply cmd_free_pd(DeviceObjects& objects, const CommandInput& in) {
    if (!objects.has_pd(in.object)) {
        return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
    }
    if (qps_with(objects, &QueuePair::pd, in.object) != 0 ||
        objects.srqs.srqs_of_pd(in.object) != 0 || objects.mpt.keys_of_pd(in.object) != 0) {
        return PIB_HCA_CMD_STATUS_BUSY;
    }
    objects.pds.erase(in.object);
    return {};
}

CommandReply cmd_alloc_xrcd(DeviceObjects& objects, const CommandInput&) {
    return allocate(objects.xrcds);
}

CommandReply cmd_free_xrcd(DeviceObjects& objects, const CommandInput& in) {
    if (objects.xrcds.find(in.object) == nullptr) {
        return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
    }
    if (qps_with(objects, &QueuePair::xrcd, in.object) != 0 ||
        objects.srqs.srqs_of_xrcd(in.object) != 0) {
        return PIB_HCA_CMD_STATUS_BUSY;
    }
    objects.xrcds.erase(in.object);
    return {};
}

CommandReply cmd_create_mr(DeviceObjects& objects, const CommandInput& in) {
    const auto mr = in.as<pib_hca_create_mr>();
    if (!objects.has_pd(mr.pd)) {
        return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
    }
    return CommandReply::number(objects.mpt.create(mr));
}

CommandReply cmd_destroy_mr(DeviceObjects& objects, const CommandInput& in) {
    return objects.mpt.destroy(in.object);
}

CommandReply cmd_rereg_mr(DeviceObjects& objects, const CommandInput& in) {
    constexpr uint32_t kMask =
        PIB_HCA_REREG_MR_TRANSLATION | PIB_HCA_REREG_MR_PD | PIB_HCA_REREG_MR_ACCESS;
    const auto rereg = in.as<pib_hca_rereg_mr>();
    if (rereg.reserved != 0 || (rereg.mask & ~kMask) != 0 || rereg.mr.flags != 0) {
        return PIB_HCA_CMD_STATUS_BAD_RESERVED;
    }
    if (rereg.mask == 0) {
        return PIB_HCA_CMD_STATUS_BAD_PARAM;
    }
    if ((rereg.mask & PIB_HCA_REREG_MR_PD) != 0 && !objects.has_pd(rereg.mr.pd)) {
        return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
    }
    return CommandReply::number(objects.mpt.reregister(in.object, rereg));
}

CommandReply cmd_query_page_fault(DeviceObjects& objects, const CommandInput&) {
    return CommandReply::data(objects.transport.verbs().next_page_fault());
}

CommandReply cmd_resume_page_fault(DeviceObjects& objects, const CommandInput& in) {
    constexpr uint32_t kFlags = PIB_HCA_PAGE_FAULT_RESPONDER | PIB_HCA_PAGE_FAULT_REFUSED;
    const auto resume = in.as<pib_hca_resume_page_fault>();
    if (resume.reserved != 0 || (resume.flags & ~kFlags) != 0) {
        return PIB_HCA_CMD_STATUS_BAD_RESERVED;
    }
    return objects.transport.verbs().resume_page_fault(in.object, resume);
}

CommandReply cmd_alloc_mw(DeviceObjects& objects, const CommandInput& in) {
    const auto mw = in.as<pib_hca_alloc_mw>();
    if (!all_zero(mw.reserved)) {
        return PIB_HCA_CMD_STATUS_BAD_RESERVED;
    }
    if (!objects.has_pd(mw.pd)) {
        return PIB_HCA_CMD_STATUS_BAD_RESOURCE;
    }
    return CommandReply::number(objects.mpt.alloc_window(mw));
}

CommandReply cmd_dealloc_mw(DeviceObjects& objects, const CommandInput& in) {
    return objects.mpt.dealloc_window(in.object);
}

}  // namespace pib::hca
