// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Objects of a context whose file another process has passed on (ibv_import_device(3)). The kernel
 * counts an object once, so the importing process only drops its handle.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>

#include <rdma/ib_user_ioctl_cmds.h>

#include "pib.h"
#include "pib-abi.h"

int pib_query_context(struct pib_context *ctx, struct pib_hca_alloc_ucontext_resp *resp)
{
	DECLARE_COMMAND_BUFFER_LINK(driver, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT, 1,
				    NULL);

	fill_attr_out_ptr(driver, PIB_HCA_ATTR_QUERY_CONTEXT_RESP, resp);
	return ibv_cmd_query_context(&ctx->ibv_ctx.context, driver);
}

struct ibv_pd *pib_import_pd(struct ibv_context *context, uint32_t handle)
{
	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_PD, PIB_HCA_METHOD_PD_QUERY, 1);
	struct pib_pd *pd;
	int ret;

	fill_attr_in_obj(cmd, PIB_HCA_ATTR_PD_QUERY_HANDLE, handle);
	ret = execute_ioctl(context, cmd);
	if (ret) {
		errno = ret;
		return NULL;
	}
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	pd->ibv_pd.context = context;
	pd->ibv_pd.handle = handle;
	return &pd->ibv_pd;
}

void pib_unimport_pd(struct ibv_pd *ibpd)
{
	struct pib_pd *pd = to_ppd(ibpd);

	/* A parent domain that contains the PD is destroyed later, and then frees it. */
	if (!atomic_fetch_or(&pd->users, PIB_PD_UNIMPORTED))
		free(pd);
}

struct ibv_mr *pib_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct verbs_mr *vmr;
	int ret;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;
	ret = ibv_cmd_query_mr(pd, vmr, handle);
	if (ret) {
		free(vmr);
		errno = ret;
		return NULL;
	}
	return &vmr->ibv_mr;
}

void pib_unimport_mr(struct ibv_mr *ibmr)
{
	free(verbs_get_mr(ibmr));
}
