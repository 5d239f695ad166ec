// SPDX-License-Identifier: GPL-2.0-or-later
// Commands about UARs, protection domains, XRC domains, memory regions, windows and page faults.
#include "commands/command_table.h"
#include "commands/interface_records.h"

namespace pib::hca {

namespace {

template <typename T>
CommandReply allocate(Table<T>& table) {
    const uint32_t number = table.insert({});
    return number == Table<T>::kFull ? CommandReply(refuse(Rule::kObjectLimit, 0, table.capacity()))
                                     : CommandReply::number(number);
}

// Number of QPs whose member `object` is `number`.
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
        return refuse(Rule::kNoUar, in.object);
    }
    objects.transport.verbs().note_search(objects.cqs.count());
    const uint32_t users =
        qps_with(objects, &QueuePair::uar, in.object) + objects.cqs.cqs_of_uar(in.object);
    if (users != 0) {
        return refuse(Rule::kUarBusy, in.object, users);
    }
    if (objects.shadow_doorbells.has(in.object)) {
        (void)objects.shadow_doorbells.set(in.object, 0);  // 0 is always accepted
    }
    objects.uars.erase(in.object);
    return {};
}

CommandReply cmd_set_shadow_page(DeviceObjects& objects, const CommandInput& in) {
    if (!objects.config.shadow_doorbells) {
        return refuse(Rule::kShadowOffered);
    }
    if (!objects.has_uar(in.object)) {
        return refuse(Rule::kNoUar, in.object);
    }
    return objects.shadow_doorbells.set(in.object, in.as<pib_hca_set_shadow_page>().addr);
}

CommandReply cmd_alloc_pd(DeviceObjects& objects, const CommandInput&) {
    return allocate(objects.pds);
}

CommandReply cmd_free_pd(DeviceObjects& objects, const CommandInput& in) {
    if (!objects.has_pd(in.object)) {
        return refuse(Rule::kNoPd, in.object);
    }
    objects.transport.verbs().note_search(objects.srqs.count());
    const uint32_t users = qps_with(objects, &QueuePair::pd, in.object) +
                           objects.srqs.srqs_of_pd(in.object) +
                           objects.mpt.keys().keys_of_pd(in.object);
    if (users != 0) {
        return refuse(Rule::kPdBusy, in.object, users);
    }
    objects.pds.erase(in.object);
    return {};
}

CommandReply cmd_alloc_xrcd(DeviceObjects& objects, const CommandInput&) {
    return allocate(objects.xrcds);
}

CommandReply cmd_free_xrcd(DeviceObjects& objects, const CommandInput& in) {
    if (objects.xrcds.find(in.object) == nullptr) {
        return refuse(Rule::kNoXrcd, in.object);
    }
    objects.transport.verbs().note_search(objects.srqs.count());
    const uint32_t users =
        qps_with(objects, &QueuePair::xrcd, in.object) + objects.srqs.srqs_of_xrcd(in.object);
    if (users != 0) {
        return refuse(Rule::kXrcdBusy, in.object, users);
    }
    objects.xrcds.erase(in.object);
    return {};
}

CommandReply cmd_create_mr(DeviceObjects& objects, const CommandInput& in) {
    const auto mr = registration(in.as<pib_hca_create_mr>());
    if (!mr) {
        return mr.error();
    }
    if (!objects.has_pd(mr->pd)) {
        return refuse(Rule::kRegionPd, mr->pd);
    }
    return CommandReply::number(objects.mpt.create(*mr));
}

CommandReply cmd_destroy_mr(DeviceObjects& objects, const CommandInput& in) {
    return objects.mpt.destroy(in.object);
}

CommandReply cmd_rereg_mr(DeviceObjects& objects, const CommandInput& in) {
    const auto rereg = reregistration(in.as<pib_hca_rereg_mr>());
    if (!rereg) {
        return rereg.error();
    }
    if (rereg->mask == 0) {
        return refuse(Rule::kReregNothing);
    }
    if ((rereg->mask & rereg_mask::kPd) != 0 && !objects.has_pd(rereg->mr.pd)) {
        return refuse(Rule::kRegionPd, rereg->mr.pd);
    }
    return CommandReply::number(objects.mpt.reregister(in.object, *rereg));
}

CommandReply cmd_query_page_fault(DeviceObjects& objects, const CommandInput&) {
    return CommandReply::data(fault_record(objects.transport.verbs().next_page_fault()));
}

CommandReply cmd_resume_page_fault(DeviceObjects& objects, const CommandInput& in) {
    constexpr uint32_t kFlags = PIB_HCA_PAGE_FAULT_RESPONDER | PIB_HCA_PAGE_FAULT_REFUSED;
    const auto resume = in.as<pib_hca_resume_page_fault>();
    if (resume.reserved != 0) {
        return refuse(Rule::kResumeReserved, resume.reserved);
    }
    if ((resume.flags & ~kFlags) != 0) {
        return refuse(Rule::kResumeFlags, resume.flags, kFlags);
    }
    const bool responder = (resume.flags & PIB_HCA_PAGE_FAULT_RESPONDER) != 0;
    return objects.transport.verbs().resume_page_fault(
        in.object, responder ? QpHalf::kResponder : QpHalf::kRequester,
        (resume.flags & PIB_HCA_PAGE_FAULT_REFUSED) != 0);
}

CommandReply cmd_alloc_mw(DeviceObjects& objects, const CommandInput& in) {
    const auto mw = window_request(in.as<pib_hca_alloc_mw>());
    if (!mw) {
        return mw.error();
    }
    if (!objects.has_pd(mw->pd)) {
        return refuse(Rule::kWindowPd, mw->pd);
    }
    return CommandReply::number(objects.mpt.alloc_window(*mw));
}

CommandReply cmd_dealloc_mw(DeviceObjects& objects, const CommandInput& in) {
    return objects.mpt.dealloc_window(in.object);
}

}  // namespace pib::hca
