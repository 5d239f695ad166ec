// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Protection and XRC domains, which the kernel keeps; parent and thread domains, which only the
 * provider has.
 */
#include <config.h>

#include <errno.h>
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
	return &pd->ibv_pd;
}

static void pib_leave_parent_domain(struct pib_pd *domain)
{
	if (atomic_fetch_sub(&domain->contained->users, 1) == (PIB_PD_UNIMPORTED | 1))
		free(domain->contained);
	if (domain->td)
		atomic_fetch_sub(&domain->td->users, 1);
}

int pib_dealloc_pd(struct ibv_pd *ibpd)
{
	struct pib_pd *pd = to_ppd(ibpd);
	int ret = 0;

	if (atomic_load(&pd->users))
		return EBUSY;
	if (pd->contained)
		pib_leave_parent_domain(pd);
	else
		ret = ibv_cmd_dealloc_pd(ibpd);
	if (ret)
		return ret;
	free(pd);
	return 0;
}

struct ibv_td *pib_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	struct pib_td *td;

	if (attr->comp_mask) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (!td)
		return NULL;
	td->ibv_td.context = context;
	return &td->ibv_td;
}

int pib_dealloc_td(struct ibv_td *ibtd)
{
	struct pib_td *td = container_of(ibtd, struct pib_td, ibv_td);

	if (atomic_load(&td->users))
		return EBUSY;
	free(td);
	return 0;
}

static int pib_check_parent_domain(const struct ibv_parent_domain_init_attr *attr)
{
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			       IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;

	if (!attr->pd || pib_parent_domain(attr->pd))
		return EINVAL;
	if (!check_comp_mask(attr->comp_mask, known))
		return EOPNOTSUPP;
	if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) &&
	    (!attr->alloc || !attr->free))
		return EINVAL;
	return 0;
}

struct ibv_pd *pib_alloc_parent_domain(struct ibv_context *context,
				       struct ibv_parent_domain_init_attr *attr)
{
	struct pib_pd *domain;
	int ret = pib_check_parent_domain(attr);

	if (ret) {
		errno = ret;
		return NULL;
	}
	domain = calloc(1, sizeof(*domain));
	if (!domain)
		return NULL;
	ibv_initialize_parent_domain(&domain->ibv_pd, attr->pd);
	domain->contained = to_ppd(attr->pd);
	atomic_fetch_add(&domain->contained->users, 1);
	if (attr->td) {
		domain->td = container_of(attr->td, struct pib_td, ibv_td);
		atomic_fetch_add(&domain->td->users, 1);
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		domain->alloc = attr->alloc;
		domain->free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		domain->pd_context = attr->pd_context;
	return &domain->ibv_pd;
}

struct ibv_xrcd *pib_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	struct ib_uverbs_open_xrcd_resp resp;
	struct verbs_xrcd *xrcd;
	struct ibv_open_xrcd cmd;
	int ret;

	xrcd = calloc(1, sizeof(*xrcd));
	if (!xrcd)
		return NULL;
	ret = ibv_cmd_open_xrcd(context, xrcd, sizeof(*xrcd), attr, &cmd, sizeof(cmd), &resp,
				sizeof(resp));
	if (ret) {
		free(xrcd);
		errno = ret;
		return NULL;
	}
	return &xrcd->xrcd;
}

int pib_close_xrcd(struct ibv_xrcd *ibxrcd)
{
	struct verbs_xrcd *xrcd = container_of(ibxrcd, struct verbs_xrcd, xrcd);
	int ret;

	ret = ibv_cmd_close_xrcd(xrcd);
	if (ret)
		return ret;
	free(xrcd);
	return 0;
}
