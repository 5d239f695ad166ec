// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Import of a context by another process that has its file (ibv_import_device(3)): repeats the
 * answer that the first process got, and reports whether a PD with a given handle exists.
 */
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/uverbs_ioctl.h>
#include <rdma/uverbs_std_types.h>

#include "pib_hca.h"

#define UVERBS_MODULE_NAME pib_hca
#include <rdma/uverbs_named_ioctl.h>

int pib_hca_query_ucontext(struct ib_ucontext *ibucontext, struct uverbs_attr_bundle *attrs)
{
	struct pib_hca_alloc_ucontext_resp resp;

	pib_hca_describe_ucontext(ibucontext, &resp);
	return uverbs_copy_to_struct_or_zero(attrs, PIB_HCA_ATTR_QUERY_CONTEXT_RESP, &resp,
					     sizeof(resp));
}

static int UVERBS_HANDLER(PIB_HCA_METHOD_PD_QUERY)(struct uverbs_attr_bundle *attrs)
{
	struct ib_pd *pd = uverbs_attr_get_obj(attrs, PIB_HCA_ATTR_PD_QUERY_HANDLE);

	return IS_ERR(pd) ? PTR_ERR(pd) : 0;
}

ADD_UVERBS_ATTRIBUTES_SIMPLE(pib_hca_query_context_def, UVERBS_OBJECT_DEVICE,
			     UVERBS_METHOD_QUERY_CONTEXT,
			     UVERBS_ATTR_PTR_OUT(PIB_HCA_ATTR_QUERY_CONTEXT_RESP,
						 UVERBS_ATTR_STRUCT(struct
								    pib_hca_alloc_ucontext_resp,
								    max_cqe),
						 UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD(PIB_HCA_METHOD_PD_QUERY,
			    UVERBS_ATTR_IDR(PIB_HCA_ATTR_PD_QUERY_HANDLE, UVERBS_OBJECT_PD,
					    UVERBS_ACCESS_READ, UA_MANDATORY));

ADD_UVERBS_METHODS(pib_hca_pd_query_def, UVERBS_OBJECT_PD,
		   &UVERBS_METHOD(PIB_HCA_METHOD_PD_QUERY));

const struct uapi_definition pib_hca_import_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DEVICE, &pib_hca_query_context_def),
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_PD, &pib_hca_pd_query_def),
	UAPI_DEF_CHAIN(pib_hca_dm_defs),
	{},
};
