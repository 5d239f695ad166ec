/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Wraps the structures of pib_hca_abi.h, which the driver shares, into the uverbs commands
 * that carry them. Payload fields are reached through drv_payload.
 */
#ifndef __PIB_ABI_H__
#define __PIB_ABI_H__

#include <infiniband/kern-abi.h>
#include <rdma/ib_user_verbs.h>

#include "pib_hca_abi.h"

/*
 * rdma-core makes a macro _STRUCT_NAME for each structure in its own headers. The macro repeats
 * the payload's fields in the command's structure, which the provider does not need.
 */
#define _STRUCT_pib_hca_alloc_ucontext_req _STRUCT_empty
#define _STRUCT_pib_hca_alloc_ucontext_resp _STRUCT_empty
#define _STRUCT_pib_hca_alloc_pd_resp _STRUCT_empty
#define _STRUCT_pib_hca_create_cq_req _STRUCT_empty
#define _STRUCT_pib_hca_create_cq_resp _STRUCT_empty
#define _STRUCT_pib_hca_resize_cq_req _STRUCT_empty
#define _STRUCT_pib_hca_create_qp_req _STRUCT_empty
#define _STRUCT_pib_hca_create_qp_resp _STRUCT_empty
#define _STRUCT_pib_hca_create_srq_req _STRUCT_empty
#define _STRUCT_pib_hca_create_srq_resp _STRUCT_empty
#define _STRUCT_pib_hca_modify_srq_req _STRUCT_empty

DECLARE_DRV_CMD(pib_alloc_ucontext, IB_USER_VERBS_CMD_GET_CONTEXT,
		pib_hca_alloc_ucontext_req, pib_hca_alloc_ucontext_resp);
DECLARE_DRV_CMD(pib_alloc_pd, IB_USER_VERBS_CMD_ALLOC_PD, empty,
		pib_hca_alloc_pd_resp);
DECLARE_DRV_CMD(pib_create_cq, IB_USER_VERBS_CMD_CREATE_CQ,
		pib_hca_create_cq_req, pib_hca_create_cq_resp);
DECLARE_DRV_CMD(pib_create_cq_ex, IB_USER_VERBS_EX_CMD_CREATE_CQ,
		pib_hca_create_cq_req, pib_hca_create_cq_resp);
DECLARE_DRV_CMD(pib_resize_cq, IB_USER_VERBS_CMD_RESIZE_CQ,
		pib_hca_resize_cq_req, empty);
DECLARE_DRV_CMD(pib_create_qp, IB_USER_VERBS_CMD_CREATE_QP,
		pib_hca_create_qp_req, pib_hca_create_qp_resp);
DECLARE_DRV_CMD(pib_create_srq, IB_USER_VERBS_CMD_CREATE_SRQ,
		pib_hca_create_srq_req, pib_hca_create_srq_resp);
DECLARE_DRV_CMD(pib_create_xsrq, IB_USER_VERBS_CMD_CREATE_XSRQ,
		pib_hca_create_srq_req, pib_hca_create_srq_resp);
DECLARE_DRV_CMD(pib_modify_srq, IB_USER_VERBS_CMD_MODIFY_SRQ,
		pib_hca_modify_srq_req, empty);

#endif /* __PIB_ABI_H__ */
