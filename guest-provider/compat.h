/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The differences between the releases of rdma-core that the provider compiles in, 44 and newer.
 * CMakeLists.txt looks for each PIB_HAS_* in their headers:
 *
 * PIB_HAS_GET_CONTEXT_FDS: ibv_cmd_get_context() takes descriptors to hand to the kernel.
 * PIB_HAS_CREATE_CQ_PROV_ATTR: ibv_cmd_create_cq_ex() takes a buffer to hand to the kernel.
 */
#ifndef __PIB_COMPAT_H__
#define __PIB_COMPAT_H__

#include <infiniband/driver.h>

static inline int pib_compat_get_context(struct verbs_context *context,
					 struct ibv_get_context *cmd, size_t cmd_size,
					 struct ib_uverbs_get_context_resp *resp,
					 size_t resp_size)
{
#ifdef PIB_HAS_GET_CONTEXT_FDS
	return ibv_cmd_get_context(context, cmd, cmd_size, NULL, resp, resp_size);
#else
	return ibv_cmd_get_context(context, cmd, cmd_size, resp, resp_size);
#endif
}

static inline int pib_compat_create_cq_ex(struct ibv_context *context,
					  const struct ibv_cq_init_attr_ex *attr,
					  struct verbs_cq *cq, struct ibv_create_cq_ex *cmd,
					  size_t cmd_size,
					  struct ib_uverbs_ex_create_cq_resp *resp,
					  size_t resp_size)
{
#ifdef PIB_HAS_CREATE_CQ_PROV_ATTR
	return ibv_cmd_create_cq_ex(context, attr, NULL, cq, cmd, cmd_size, resp, resp_size, 0);
#else
	return ibv_cmd_create_cq_ex(context, attr, cq, cmd, cmd_size, resp, resp_size, 0);
#endif
}

#endif /* __PIB_COMPAT_H__ */
