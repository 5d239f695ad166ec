// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Protection domains: kept by the kernel, the number is the device's. */
#include <config.h>

#include <stdlib.h>

#include "pib.h"
#include "pib-abi.h"

struct ibv_pd *pib_alloc_pd(struct ibv_context *context)
{
	struct pib_alloc_pd_resp resp = {};
	struct ibv_alloc_pd cmd;
	struct pib_pd *pd;

	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	if (ibv_cmd_alloc_pd(context, &pd->ibv_pd, &cmd, sizeof(cmd),
			     &resp.ibv_resp, sizeof(resp))) {
		free(pd);
		return NULL;
	}
	pd->pdn = resp.drv_payload.pdn;
	return &pd->ibv_pd;
}

int pib_dealloc_pd(struct ibv_pd *ibpd)
{
	int ret;

	ret = ibv_cmd_dealloc_pd(ibpd);
	if (ret)
		return ret;
	free(to_ppd(ibpd));
	return 0;
}
