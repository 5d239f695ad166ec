// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The device's limits. Sizes of rings and WQEs are computed from them, so each is cut to what the
 * interface permits, whatever the device reports.
 */
#include <config.h>

#include "pib.h"
#include "pib_hca_abi.h"

#define PIB_MOST_WQE_DATA ((1u << PIB_HCA_MAX_LOG_WQE_STRIDE) - 64) /* after the longest header */

void pib_keep_limits(struct pib_context *ctx, const struct pib_hca_alloc_ucontext_resp *resp)
{
	ctx->max_qp_wr = min_t(uint32_t, resp->max_qp_wr, 1u << PIB_HCA_MAX_WQ_LOG_DEPTH);
	ctx->max_sge = min_t(uint32_t, resp->max_sge,
			     PIB_MOST_WQE_DATA / sizeof(struct pib_hca_sge));
	ctx->max_inline_data = min_t(uint32_t, resp->max_inline_data, PIB_MOST_WQE_DATA);
	ctx->max_cqe = min_t(uint32_t, resp->max_cqe, 1u << PIB_HCA_MAX_CQ_LOG_DEPTH);
}
