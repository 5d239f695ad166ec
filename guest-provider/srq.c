// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Shared receive queues (IBA vol. 1, 10.2.9). WQEs are taken in order and complete in any order, so
 * each WQE carries an id, the index of its wr_id. No more WQEs are posted than the ring has
 * entries, so the next entry is always one that the device has taken. Posting consists of stores to
 * memory: no doorbell is needed.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wqe.h"
#include "pib-abi.h"

/* ---------------------------------------------------------------- posting -------------------- */

static uint32_t pib_srq_posted(const struct pib_srq *srq)
{
	return srq->id_count - srq->free_count;
}

static int pib_build_srq_recv(struct pib_srq *srq, const struct ibv_recv_wr *wr)
{
	size_t index = srq->head & (srq->depth - 1);
	uint32_t id;

	if (wr->num_sge < 0 || wr->num_sge > srq->max_sge)
		return EINVAL;
	if (pib_srq_posted(srq) >= srq->depth)
		return ENOMEM;
	id = srq->free_ids[--srq->free_count];
	srq->wr_ids[id] = wr->wr_id;
	pib_wqe_put_recv(srq->buf.addr + PIB_HCA_QUEUE_HEADER_SIZE + (index << srq->log_stride),
			 wr, id);
	srq->head++;
	return 0;
}

int pib_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr,
		      struct ibv_recv_wr **bad_wr)
{
	struct pib_srq *srq = to_psrq(ibsrq);
	int ret = 0;

	pthread_spin_lock(&srq->lock);
	for (; wr; wr = wr->next) {
		ret = pib_build_srq_recv(srq, wr);
		if (ret) {
			*bad_wr = wr;
			break;
		}
	}
	/* Stores the WQEs before the counter that gives them to the device. */
	udma_to_device_barrier();
	atomic_store_explicit((_Atomic(uint32_t) *)&srq->header->producer, htole32(srq->head),
			      memory_order_relaxed);
	pthread_spin_unlock(&srq->lock);
	return ret;
}

/* A faulty device may name any id: the check only keeps wr_ids and free_ids within their bounds. */
bool pib_srq_retire(struct pib_srq *srq, uint32_t id, uint64_t *wr_id)
{
	bool is_one;

	pthread_spin_lock(&srq->lock);
	is_one = id < srq->id_count && pib_srq_posted(srq) != 0;
	if (is_one) {
		*wr_id = srq->wr_ids[id];
		srq->free_ids[srq->free_count++] = id;
	}
	pthread_spin_unlock(&srq->lock);
	return is_one;
}

/* ---------------------------------------------------------------- create and destroy --------- */

static size_t pib_srq_bytes(const struct pib_srq *srq, uint32_t depth)
{
	return PIB_HCA_QUEUE_HEADER_SIZE + ((size_t)depth << srq->log_stride);
}

/* Makes room for the ids of `depth` WQEs; ids in use stay as they are. */
static int pib_srq_grow_ids(struct pib_srq *srq, uint32_t depth)
{
	uint64_t *wr_ids;
	uint32_t *free_ids;

	if (depth <= srq->id_count)
		return 0;
	wr_ids = realloc(srq->wr_ids, depth * sizeof(*wr_ids));
	if (!wr_ids)
		return ENOMEM;
	srq->wr_ids = wr_ids;
	free_ids = realloc(srq->free_ids, depth * sizeof(*free_ids));
	if (!free_ids)
		return ENOMEM;
	srq->free_ids = free_ids;
	while (srq->id_count < depth)
		srq->free_ids[srq->free_count++] = srq->id_count++;
	return 0;
}

static int pib_size_srq(struct pib_context *ctx, struct ibv_pd *pd, struct pib_srq *srq,
			const struct ibv_srq_attr *attr)
{
	uint32_t size = sizeof(struct pib_hca_recv_wqe) +
			attr->max_sge * sizeof(struct pib_hca_sge);
	uint32_t room;
	int ret;

	if (!attr->max_wr || attr->max_wr > ctx->max_qp_wr || attr->max_sge > ctx->max_sge)
		return EINVAL;
	srq->depth = 1u << ilog32(attr->max_wr - 1);
	srq->log_stride = max_t(uint8_t, ilog32(size - 1), PIB_HCA_MIN_LOG_RQ_STRIDE);
	room = (1u << srq->log_stride) - sizeof(struct pib_hca_recv_wqe);
	srq->max_sge = min_t(uint32_t, room / sizeof(struct pib_hca_sge), ctx->max_sge);
	ret = pib_srq_grow_ids(srq, srq->depth);
	if (ret)
		return ret;
	ret = pib_alloc_buf(ctx, pd, PIB_RESOURCE_SRQ, &srq->buf,
			    pib_srq_bytes(srq, srq->depth));
	if (ret)
		return ret;
	srq->header = srq->buf.addr;
	return 0;
}

static void pib_free_srq(struct pib_srq *srq)
{
	pthread_spin_destroy(&srq->lock);
	pib_free_buf(&srq->buf);
	free(srq->wr_ids);
	free(srq->free_ids);
	free(srq);
}

/* Allocates an SRQ with its ring and ids; NULL, with errno, on failure. */
static struct pib_srq *pib_alloc_srq(struct pib_context *ctx, struct ibv_pd *pd,
				     const struct ibv_srq_attr *attr,
				     struct pib_hca_create_srq_req *req)
{
	struct pib_srq *srq = calloc(1, sizeof(*srq));
	int ret;

	if (!srq)
		return NULL;
	pthread_spin_init(&srq->lock, PTHREAD_PROCESS_PRIVATE);
	ret = pib_size_srq(ctx, pd, srq, attr);
	if (ret) {
		pib_free_srq(srq);
		errno = ret;
		return NULL;
	}
	req->buf_addr = (uintptr_t)srq->buf.addr;
	req->buf_length = srq->buf.length;
	req->log_depth = ilog32(srq->depth - 1);
	req->log_stride = srq->log_stride;
	return srq;
}

struct ibv_srq *pib_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct pib_context *ctx = to_pctx(pd->context);
	struct pib_create_srq_resp resp = {};
	struct pib_create_srq cmd = {};
	struct pib_srq *srq;
	int ret;

	srq = pib_alloc_srq(ctx, pd, &attr->attr, &cmd.drv_payload);
	if (!srq)
		return NULL;
	ret = ibv_cmd_create_srq(pd, &srq->verbs_srq.srq, attr, &cmd.ibv_cmd, sizeof(cmd),
				 &resp.ibv_resp, sizeof(resp));
	if (ret) {
		pib_free_srq(srq);
		errno = ret;
		return NULL;
	}
	srq->srqn = resp.drv_payload.srqn;
	attr->attr.max_wr = srq->depth;
	attr->attr.max_sge = srq->max_sge;
	return &srq->verbs_srq.srq;
}

/* As pib_clear_qp(), for an XRC SRQ. */
static void pib_forget_xrc_srq(struct pib_context *ctx, struct pib_srq *srq, uint32_t srqn)
{
	while (pib_table_owner(&ctx->xrc_srqs, srqn) == srq) {
		struct pib_cq *cq = srq->cq;

		if (pib_cq_trylock(cq)) {
			pib_cq_clean_srq(cq, srqn);
			pib_table_clear(&ctx->xrc_srqs, srqn);
			pib_cq_unlock(cq);
			return;
		}
		pib_table_yield(ctx);
	}
}

/* Creates an XRC SRQ in the kernel and makes it known to the pollers of its CQ. */
static int pib_register_xrc_srq(struct pib_context *ctx, struct pib_srq *srq,
				struct ibv_srq_init_attr_ex *attr, struct pib_create_xsrq *cmd)
{
	struct pib_create_xsrq_resp resp = {};
	struct pib_srq *leaving;
	int ret;

	pthread_mutex_lock(&ctx->table_mutex);
	ret = ibv_cmd_create_srq_ex(&ctx->ibv_ctx.context, &srq->verbs_srq, attr, &cmd->ibv_cmd,
				    sizeof(*cmd), &resp.ibv_resp, sizeof(resp));
	if (!ret) {
		srq->srqn = resp.drv_payload.srqn;
		srq->cq = to_pcq(attr->cq);
		ret = pib_table_reserve(&ctx->xrc_srqs, srq->srqn);
		if (ret)
			ibv_cmd_destroy_srq(&srq->verbs_srq.srq);
	}
	if (!ret) {
		/* As in pib_store_qp(): another thread may be destroying an SRQ of this number. */
		while ((leaving = pib_table_owner(&ctx->xrc_srqs, srq->srqn)))
			pib_forget_xrc_srq(ctx, leaving, srq->srqn);
		pib_table_set(&ctx->xrc_srqs, srq->srqn, srq, srq->cq, NULL);
	}
	pthread_mutex_unlock(&ctx->table_mutex);
	return ret;
}

static struct ibv_srq *pib_create_xrc_srq(struct ibv_context *context,
					  struct ibv_srq_init_attr_ex *attr)
{
	const uint32_t needed = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
				IBV_SRQ_INIT_ATTR_CQ;
	struct pib_create_xsrq cmd = {};
	struct pib_srq *srq;
	int ret;

	if ((attr->comp_mask & needed) != needed) {
		errno = EINVAL;
		return NULL;
	}
	srq = pib_alloc_srq(to_pctx(context), attr->pd, &attr->attr, &cmd.drv_payload);
	if (!srq)
		return NULL;
	ret = pib_register_xrc_srq(to_pctx(context), srq, attr, &cmd);
	if (ret) {
		pib_free_srq(srq);
		errno = ret;
		return NULL;
	}
	attr->attr.max_wr = srq->depth;
	attr->attr.max_sge = srq->max_sge;
	return &srq->verbs_srq.srq;
}

struct ibv_srq *pib_create_srq_ex(struct ibv_context *context,
				  struct ibv_srq_init_attr_ex *attr)
{
	bool xrc = (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type == IBV_SRQT_XRC;
	struct ibv_srq_init_attr basic = { .srq_context = attr->srq_context, .attr = attr->attr };
	struct ibv_srq *srq;

	if (xrc && check_comp_mask(attr->comp_mask,
				   IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
					   IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ))
		return pib_create_xrc_srq(context, attr);
	if (!check_comp_mask(attr->comp_mask, IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD) ||
	    ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type != IBV_SRQT_BASIC)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD)) {
		errno = EINVAL;
		return NULL;
	}
	srq = pib_create_srq(attr->pd, &basic);
	if (srq)
		attr->attr = basic.attr;
	return srq;
}

int pib_destroy_srq(struct ibv_srq *ibsrq)
{
	struct pib_context *ctx = to_pctx(ibsrq->context);
	struct pib_srq *srq = to_psrq(ibsrq);
	int ret;

	/*
	 * The command waits until the SRQ's events are acknowledged, perhaps by a thread that waits
	 * for table_mutex to create an SRQ.
	 */
	ret = ibv_cmd_destroy_srq(ibsrq);
	if (ret)
		return ret;
	pthread_mutex_lock(&ctx->table_mutex);
	if (srq->cq)
		pib_forget_xrc_srq(ctx, srq, srq->srqn);
	pthread_mutex_unlock(&ctx->table_mutex);
	pib_free_srq(srq);
	return 0;
}

int pib_get_srq_num(struct ibv_srq *ibsrq, uint32_t *number)
{
	struct pib_srq *srq = to_psrq(ibsrq);

	if (!srq->cq) /* only XRC SRQs have a number that peers use */
		return EOPNOTSUPP;
	*number = srq->srqn;
	return 0;
}

/* ---------------------------------------------------------------- modify and query ----------- */

/*
 * The lock is held: posting waits while the device moves WQEs to the new buffer. On success *buf
 * becomes the old one.
 */
static int pib_resize_locked(struct pib_srq *srq, struct ibv_srq_attr *attr, int attr_mask,
			     struct pib_buf *buf, uint32_t depth)
{
	struct pib_modify_srq cmd = {};
	struct pib_buf old = srq->buf;
	int ret;

	if (pib_srq_posted(srq) > depth)
		return EINVAL;
	ret = pib_srq_grow_ids(srq, depth);
	if (ret)
		return ret;
	cmd.drv_payload.buf_addr = (uintptr_t)buf->addr;
	cmd.drv_payload.buf_length = buf->length;
	cmd.drv_payload.log_depth = ilog32(depth - 1);
	ret = ibv_cmd_modify_srq(&srq->verbs_srq.srq, attr, attr_mask, &cmd.ibv_cmd, sizeof(cmd));
	if (ret)
		return ret;
	srq->buf = *buf;
	srq->header = buf->addr;
	srq->depth = depth;
	*buf = old;
	return 0;
}

/* Called without the lock: a parent domain's allocator may post to this SRQ. */
static int pib_resize_srq(struct pib_srq *srq, struct ibv_srq_attr *attr, int attr_mask)
{
	struct pib_context *ctx = to_pctx(srq->verbs_srq.srq.context);
	struct pib_buf buf;
	uint32_t depth;
	int ret;

	if (!attr->max_wr || attr->max_wr > ctx->max_qp_wr)
		return EINVAL;
	depth = 1u << ilog32(attr->max_wr - 1);
	ret = pib_alloc_buf(ctx, srq->verbs_srq.srq.pd, PIB_RESOURCE_SRQ, &buf,
			    pib_srq_bytes(srq, depth));
	if (ret)
		return ret;
	pthread_spin_lock(&srq->lock);
	ret = pib_resize_locked(srq, attr, attr_mask, &buf, depth);
	pthread_spin_unlock(&srq->lock);
	pib_free_buf(&buf);
	return ret;
}

int pib_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int attr_mask)
{
	struct ibv_modify_srq cmd;

	if (attr_mask & IBV_SRQ_MAX_WR)
		return pib_resize_srq(to_psrq(ibsrq), attr, attr_mask);
	return ibv_cmd_modify_srq(ibsrq, attr, attr_mask, &cmd, sizeof(cmd));
}

int pib_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
	struct ibv_query_srq cmd;

	return ibv_cmd_query_srq(ibsrq, attr, &cmd, sizeof(cmd));
}
