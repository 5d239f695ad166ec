// SPDX-License-Identifier: GPL-2.0-or-later
#include "commands/command_table.h"

#include <algorithm>
#include <cstddef>

namespace pib::hca {

namespace {

constexpr uint16_t kMcast = sizeof(pib_hca_mcast);
constexpr uint16_t kModifyQp = sizeof(pib_hca_modify_qp);

constexpr CommandSpec kCommands[] = {
    {PIB_HCA_CMD_NOP, "NOP", 0, 0, false, cmd_nop},
    {PIB_HCA_CMD_QUERY_DEVICE, "QUERY_DEVICE", 0, sizeof(pib_hca_query_device), false,
     cmd_query_device},
    {PIB_HCA_CMD_MODIFY_DEVICE, "MODIFY_DEVICE", sizeof(pib_hca_modify_device), 0, false,
     cmd_modify_device},
    {PIB_HCA_CMD_QUERY_PORT, "QUERY_PORT", 0, sizeof(pib_hca_query_port), true, cmd_query_port},
    {PIB_HCA_CMD_MODIFY_PORT, "MODIFY_PORT", sizeof(pib_hca_modify_port), 0, true, cmd_modify_port},
    {PIB_HCA_CMD_QUERY_PKEYS, "QUERY_PKEYS", 0, 2 * Limits::kPkeys, true, cmd_query_pkeys},
    {PIB_HCA_CMD_QUERY_GIDS, "QUERY_GIDS", 0, 16 * Limits::kGids, true, cmd_query_gids},
    {PIB_HCA_CMD_MAD_IFC, "MAD_IFC", sizeof(pib_hca_mad_ifc), 256, true, cmd_mad_ifc},
    {PIB_HCA_CMD_QUERY_COUNTERS, "QUERY_COUNTERS", 0, 8 * kCounters, true, cmd_query_counters},
    {PIB_HCA_CMD_ALLOC_UAR, "ALLOC_UAR", 0, 0, false, cmd_alloc_uar},
    {PIB_HCA_CMD_FREE_UAR, "FREE_UAR", 0, 0, true, cmd_free_uar},
    {PIB_HCA_CMD_SET_SHADOW_PAGE, "SET_SHADOW_PAGE", sizeof(pib_hca_set_shadow_page), 0, true,
     cmd_set_shadow_page},
    {PIB_HCA_CMD_ALLOC_PD, "ALLOC_PD", 0, 0, false, cmd_alloc_pd},
    {PIB_HCA_CMD_FREE_PD, "FREE_PD", 0, 0, true, cmd_free_pd},
    {PIB_HCA_CMD_ALLOC_XRCD, "ALLOC_XRCD", 0, 0, false, cmd_alloc_xrcd},
    {PIB_HCA_CMD_FREE_XRCD, "FREE_XRCD", 0, 0, true, cmd_free_xrcd},
    {PIB_HCA_CMD_CREATE_MR, "CREATE_MR", sizeof(pib_hca_create_mr), 0, false, cmd_create_mr,
     offsetof(pib_hca_create_mr, pages)},
    {PIB_HCA_CMD_DESTROY_MR, "DESTROY_MR", 0, 0, true, cmd_destroy_mr},
    {PIB_HCA_CMD_ALLOC_MW, "ALLOC_MW", sizeof(pib_hca_alloc_mw), 0, false, cmd_alloc_mw},
    {PIB_HCA_CMD_DEALLOC_MW, "DEALLOC_MW", 0, 0, true, cmd_dealloc_mw},
    {PIB_HCA_CMD_REREG_MR, "REREG_MR", sizeof(pib_hca_rereg_mr), 0, true, cmd_rereg_mr,
     offsetof(pib_hca_rereg_mr, mr.pages)},
    {PIB_HCA_CMD_QUERY_PAGE_FAULT, "QUERY_PAGE_FAULT", 0, sizeof(pib_hca_page_fault), false,
     cmd_query_page_fault},
    {PIB_HCA_CMD_RESUME_PAGE_FAULT, "RESUME_PAGE_FAULT", sizeof(pib_hca_resume_page_fault), 0, true,
     cmd_resume_page_fault},
    {PIB_HCA_CMD_CREATE_EQ, "CREATE_EQ", sizeof(pib_hca_create_eq), 0, false, cmd_create_eq,
     offsetof(pib_hca_create_eq, pages)},
    {PIB_HCA_CMD_DESTROY_EQ, "DESTROY_EQ", 0, 0, true, cmd_destroy_eq},
    {PIB_HCA_CMD_CREATE_CQ, "CREATE_CQ", sizeof(pib_hca_create_cq), 0, false, cmd_create_cq,
     offsetof(pib_hca_create_cq, pages)},
    {PIB_HCA_CMD_DESTROY_CQ, "DESTROY_CQ", 0, 0, true, cmd_destroy_cq},
    {PIB_HCA_CMD_RESIZE_CQ, "RESIZE_CQ", sizeof(pib_hca_resize_cq), 0, true, cmd_resize_cq,
     offsetof(pib_hca_resize_cq, pages)},
    {PIB_HCA_CMD_CREATE_SRQ, "CREATE_SRQ", sizeof(pib_hca_create_srq), 0, false, cmd_create_srq,
     offsetof(pib_hca_create_srq, pages)},
    {PIB_HCA_CMD_MODIFY_SRQ, "MODIFY_SRQ", sizeof(pib_hca_modify_srq), 0, true, cmd_modify_srq,
     offsetof(pib_hca_modify_srq, pages)},
    {PIB_HCA_CMD_QUERY_SRQ, "QUERY_SRQ", 0, sizeof(pib_hca_query_srq), true, cmd_query_srq},
    {PIB_HCA_CMD_DESTROY_SRQ, "DESTROY_SRQ", 0, 0, true, cmd_destroy_srq},
    {PIB_HCA_CMD_CREATE_QP, "CREATE_QP", sizeof(pib_hca_create_qp), 0, false, cmd_create_qp,
     offsetof(pib_hca_create_qp, pages)},
    {PIB_HCA_CMD_MODIFY_QP, "MODIFY_QP", kModifyQp, 0, true, cmd_modify_qp},
    {PIB_HCA_CMD_QUERY_QP, "QUERY_QP", 0, kModifyQp, true, cmd_query_qp},
    {PIB_HCA_CMD_DESTROY_QP, "DESTROY_QP", 0, 0, true, cmd_destroy_qp},
    {PIB_HCA_CMD_ATTACH_MCAST, "ATTACH_MCAST", kMcast, 0, true, cmd_attach_mcast},
    {PIB_HCA_CMD_DETACH_MCAST, "DETACH_MCAST", kMcast, 0, true, cmd_detach_mcast},
    {PIB_HCA_CMD_QUERY_EQ, "QUERY_EQ", 0, sizeof(pib_hca_query_eq), true, cmd_query_eq},
    {PIB_HCA_CMD_QUERY_CQ, "QUERY_CQ", 0, sizeof(pib_hca_query_cq), true, cmd_query_cq},
    {PIB_HCA_CMD_QUERY_KEY, "QUERY_KEY", 0, sizeof(pib_hca_query_key), true, cmd_query_key},
    {PIB_HCA_CMD_QUERY_QP_PROGRESS, "QUERY_QP_PROGRESS", 0, sizeof(pib_hca_query_qp_progress), true,
     cmd_query_qp_progress},
    {PIB_HCA_CMD_MODERATE_CQ, "MODERATE_CQ", sizeof(pib_hca_moderate_cq), 0, true, cmd_moderate_cq},
    {PIB_HCA_CMD_INJECT_EVENT, "INJECT_EVENT", sizeof(pib_hca_inject_event), 0, true,
     cmd_inject_event},
    {PIB_HCA_CMD_QUERY_REFUSAL, "QUERY_REFUSAL", 0, sizeof(pib_hca_refusal), true,
     cmd_query_refusal},
};

static_assert(std::ranges::all_of(kCommands, [](const CommandSpec& spec) {
    return spec.in_length <= kMaxCommandData && spec.out_length <= kMaxCommandData &&
           (spec.pages_at == CommandSpec::kNoPages ||
            spec.pages_at + sizeof(pib_hca_pages) <= spec.in_length);
}));

}  // namespace

const CommandSpec* find_command(uint16_t opcode) {
    const auto it = std::ranges::find(kCommands, opcode, &CommandSpec::opcode);
    return it == std::end(kCommands) ? nullptr : it;
}

}  // namespace pib::hca
