// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Contexts: their verbs, and the mapping of the UAR page and the shadow doorbell page. */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "pib.h"
#include "pib-abi.h"
#include "compat.h"

static int pib_query_device_ex(struct ibv_context *context,
			       const struct ibv_query_device_ex_input *input,
			       struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct ib_uverbs_ex_query_device_resp resp;
	size_t resp_size = sizeof(resp);
	uint64_t fw_ver;
	int ret;

	ret = ibv_cmd_query_device_any(context, input, attr, attr_size, &resp,
				       &resp_size);
	if (ret)
		return ret;

	fw_ver = resp.base.fw_ver;
	snprintf(attr->orig_attr.fw_ver, sizeof(attr->orig_attr.fw_ver), "%u.%u.%u",
		 (unsigned int)(fw_ver >> 32) & 0xffff,
		 (unsigned int)(fw_ver >> 16) & 0xffff,
		 (unsigned int)fw_ver & 0xffff);
	return 0;
}

static int pib_query_port(struct ibv_context *context, uint8_t port,
			  struct ibv_port_attr *attr)
{
	struct ibv_query_port cmd;

	return ibv_cmd_query_port(context, port, attr, &cmd, sizeof(cmd));
}

static void pib_free_context(struct ibv_context *ibctx)
{
	struct pib_context *ctx = to_pctx(ibctx);

	munmap(ctx->uar, ctx->uar_size);
	if (ctx->shadow)
		munmap(ctx->shadow, ctx->uar_size);
	pib_table_free(&ctx->qps);
	pib_table_free(&ctx->xrc_srqs);
	pthread_mutex_destroy(&ctx->table_mutex);
	verbs_uninit_context(&ctx->ibv_ctx);
	free(ctx);
}

static const struct verbs_context_ops pib_ctx_ops = {
	.advise_mr = pib_advise_mr,
	.alloc_dm = pib_alloc_dm,
	.alloc_mw = pib_alloc_mw,
	.alloc_parent_domain = pib_alloc_parent_domain,
	.alloc_pd = pib_alloc_pd,
	.alloc_td = pib_alloc_td,
	.attach_mcast = ibv_cmd_attach_mcast,
	.bind_mw = pib_bind_mw,
	.close_xrcd = pib_close_xrcd,
	.create_ah = pib_create_ah,
	.create_cq = pib_create_cq,
	.create_cq_ex = pib_create_cq_ex,
	.create_qp = pib_create_qp,
	.create_qp_ex = pib_create_qp_ex,
	.create_srq = pib_create_srq,
	.create_srq_ex = pib_create_srq_ex,
	.dealloc_mw = pib_dealloc_mw,
	.dealloc_pd = pib_dealloc_pd,
	.dealloc_td = pib_dealloc_td,
	.dereg_mr = pib_dereg_mr,
	.destroy_ah = pib_destroy_ah,
	.destroy_cq = pib_destroy_cq,
	.destroy_qp = pib_destroy_qp,
	.destroy_srq = pib_destroy_srq,
	.detach_mcast = ibv_cmd_detach_mcast,
	.free_context = pib_free_context,
	.free_dm = pib_free_dm,
	.get_srq_num = pib_get_srq_num,
	.import_dm = pib_import_dm,
	.import_mr = pib_import_mr,
	.import_pd = pib_import_pd,
	.modify_cq = pib_modify_cq,
	.modify_qp = pib_modify_qp,
	.modify_srq = pib_modify_srq,
	.open_qp = pib_open_qp,
	.open_xrcd = pib_open_xrcd,
	.poll_cq = pib_poll_cq,
	.post_recv = pib_post_recv,
	.post_send = pib_post_send,
	.post_srq_recv = pib_post_srq_recv,
	.query_device_ex = pib_query_device_ex,
	.query_port = pib_query_port,
	.query_qp = pib_query_qp,
	.query_rt_values = pib_query_rt_values,
	.query_srq = pib_query_srq,
	.reg_dm_mr = pib_reg_dm_mr,
	.reg_dmabuf_mr = pib_reg_dmabuf_mr,
	.reg_mr = pib_reg_mr,
	.req_notify_cq = pib_req_notify_cq,
	.rereg_mr = pib_rereg_mr,
	.resize_cq = pib_resize_cq,
	.unimport_dm = pib_unimport_dm,
	.unimport_mr = pib_unimport_mr,
	.unimport_pd = pib_unimport_pd,
};

/* Maps a page of the context's file; NULL, with errno, on failure. */
static void *pib_map_page(struct pib_context *ctx, int cmd_fd, uint64_t offset)
{
	void *at = mmap(NULL, ctx->uar_size, PROT_READ | PROT_WRITE, MAP_SHARED, cmd_fd, offset);

	return at == MAP_FAILED ? NULL : at;
}

/* Keeps the driver's answer, maps UAR and shadow doorbell page, sets the verbs; 0 or an errno. */
static int pib_setup_context(struct pib_context *ctx, int cmd_fd,
			     const struct pib_hca_alloc_ucontext_resp *resp)
{
	struct ibv_device_attr_ex attr;
	int ret;

	pib_keep_limits(ctx, resp);
	ret = ibv_cmd_query_device_any(&ctx->ibv_ctx.context, NULL, &attr,
				       sizeof(attr.orig_attr), NULL, NULL);
	if (ret)
		return ret;
	ctx->port_count = min_t(uint8_t, attr.orig_attr.phys_port_cnt,
				PIB_HCA_MAX_PORTS);

	ctx->uar_size = to_pdev(ctx->ibv_ctx.context.device)->page_size;
	ctx->uar = pib_map_page(ctx, cmd_fd, resp->uar_mmap_offset);
	if (!ctx->uar)
		return errno;
	if (resp->comp_mask & PIB_HCA_UCONTEXT_SHADOW_PAGE) {
		ctx->shadow = pib_map_page(ctx, cmd_fd, resp->shadow_mmap_offset);
		if (!ctx->shadow) {
			ret = errno;
			munmap(ctx->uar, ctx->uar_size);
			return ret;
		}
	}

	pthread_mutex_init(&ctx->table_mutex, NULL);
	verbs_set_ops(&ctx->ibv_ctx, &pib_ctx_ops);
	return 0;
}

/*
 * Sets up the context with the driver's answer. After an error, here or in the driver (`ret`),
 * frees it and returns NULL with errno.
 */
static struct verbs_context *pib_finish_context(struct pib_context *ctx, int cmd_fd, int ret,
						const struct pib_hca_alloc_ucontext_resp *resp)
{
	if (!ret)
		ret = pib_setup_context(ctx, cmd_fd, resp);
	if (!ret)
		return &ctx->ibv_ctx;
	verbs_uninit_context(&ctx->ibv_ctx);
	free(ctx);
	errno = ret;
	return NULL;
}

struct verbs_context *pib_alloc_context(struct ibv_device *ibdev, int cmd_fd, void *private_data)
{
	struct pib_alloc_ucontext_resp resp = {};
	struct pib_alloc_ucontext cmd = {};
	struct pib_context *ctx;
	int ret;

	ctx = verbs_init_and_alloc_context(ibdev, cmd_fd, ctx, ibv_ctx,
					   RDMA_DRIVER_UNKNOWN);
	if (!ctx)
		return NULL;
	ret = pib_compat_get_context(&ctx->ibv_ctx, &cmd.ibv_cmd, sizeof(cmd), &resp.ibv_resp,
				     sizeof(resp));
	return pib_finish_context(ctx, cmd_fd, ret, &resp.drv_payload);
}

struct verbs_context *pib_import_context(struct ibv_device *ibdev, int cmd_fd)
{
	struct pib_hca_alloc_ucontext_resp resp = {};
	struct pib_context *ctx;

	ctx = verbs_init_and_alloc_context(ibdev, cmd_fd, ctx, ibv_ctx,
					   RDMA_DRIVER_UNKNOWN);
	if (!ctx)
		return NULL;
	return pib_finish_context(ctx, cmd_fd, pib_query_context(ctx, &resp), &resp);
}
