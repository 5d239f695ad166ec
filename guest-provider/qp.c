// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Queue pairs: sizing and sharing their rings, the table of QPs, modify, query, destroy. */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pib.h"
#include "pib-abi.h"

/* What stands before the data in the longest send WQE, an atomic or a datagram. */
#define PIB_SEND_WQE_OVERHEAD 64

struct pib_qp *pib_find_qp(struct pib_context *ctx, uint32_t qpn)
{
	struct pib_qp **page = atomic_load_explicit(
		&ctx->qp_table[(qpn & PIB_HCA_DB_NUMBER_MASK) >> PIB_QP_TABLE_SHIFT],
		memory_order_acquire);

	return page ? page[qpn & PIB_QP_TABLE_MASK] : NULL;
}

static void pib_lock_cqs(struct pib_qp *qp)
{
	struct pib_cq *send_cq = to_pcq(qp->verbs_qp.qp.send_cq);
	struct pib_cq *recv_cq = to_pcq(qp->verbs_qp.qp.recv_cq);

	/* By number, so that two QPs with crossed CQs cannot block each other. */
	if (recv_cq->cqn < send_cq->cqn)
		pthread_spin_lock(&recv_cq->lock);
	pthread_spin_lock(&send_cq->lock);
	if (recv_cq->cqn > send_cq->cqn)
		pthread_spin_lock(&recv_cq->lock);
}

static void pib_unlock_cqs(struct pib_qp *qp)
{
	struct pib_cq *send_cq = to_pcq(qp->verbs_qp.qp.send_cq);
	struct pib_cq *recv_cq = to_pcq(qp->verbs_qp.qp.recv_cq);

	pthread_spin_unlock(&send_cq->lock);
	if (recv_cq != send_cq)
		pthread_spin_unlock(&recv_cq->lock);
}

static void pib_clean_cqs(struct pib_qp *qp)
{
	struct pib_cq *send_cq = to_pcq(qp->verbs_qp.qp.send_cq);
	struct pib_cq *recv_cq = to_pcq(qp->verbs_qp.qp.recv_cq);

	pib_cq_clean(send_cq, qp);
	if (recv_cq != send_cq)
		pib_cq_clean(recv_cq, qp);
}

/* qp_mutex is held. A page stays until the context goes: pollers of other CQs look into it. */
static int pib_store_qp(struct pib_context *ctx, struct pib_qp *qp)
{
	pib_qp_page *slot = &ctx->qp_table[qp->qpn >> PIB_QP_TABLE_SHIFT];
	struct pib_qp **page = atomic_load_explicit(slot, memory_order_relaxed);

	if (!page) {
		page = calloc(PIB_QP_TABLE_SIZE, sizeof(*page));
		if (!page)
			return ENOMEM;
		atomic_store_explicit(slot, page, memory_order_release);
	}
	pib_lock_cqs(qp);
	page[qp->qpn & PIB_QP_TABLE_MASK] = qp;
	pib_unlock_cqs(qp);
	return 0;
}

static void pib_clear_qp(struct pib_context *ctx, struct pib_qp *qp)
{
	struct pib_qp **page = atomic_load_explicit(
		&ctx->qp_table[qp->qpn >> PIB_QP_TABLE_SHIFT], memory_order_relaxed);

	pib_lock_cqs(qp);
	pib_clean_cqs(qp);
	page[qp->qpn & PIB_QP_TABLE_MASK] = NULL;
	pib_unlock_cqs(qp);
}

void pib_free_qp_table(struct pib_context *ctx)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ctx->qp_table); i++)
		free(atomic_load_explicit(&ctx->qp_table[i], memory_order_relaxed));
}

/* A queue of `wr` entries with `wqe_size` bytes each; no entries, no queue. */
static int pib_size_wq(struct pib_wq *wq, uint32_t wr, uint32_t wqe_size,
		       uint8_t min_log_stride)
{
	if (!wr)
		return 0;
	wq->log_depth = ilog32(wr - 1);
	wq->depth = 1u << wq->log_depth;
	wq->log_stride = max_t(uint8_t, ilog32(wqe_size - 1), min_log_stride);
	wq->wr_ids = calloc(wq->depth, sizeof(*wq->wr_ids));
	return wq->wr_ids ? 0 : ENOMEM;
}

static int pib_size_queues(struct pib_context *ctx, struct pib_qp *qp,
			   const struct ibv_qp_cap *cap, bool has_srq)
{
	uint32_t sges = cap->max_send_sge * sizeof(struct pib_hca_sge);
	int ret;

	ret = pib_size_wq(&qp->sq, cap->max_send_wr,
			  PIB_SEND_WQE_OVERHEAD + max_t(uint32_t, sges, cap->max_inline_data),
			  PIB_HCA_MIN_LOG_SQ_STRIDE);
	if (ret)
		return ret;
	/* With an SRQ there is no receive queue, whatever is asked for (ibv_create_qp(3)). */
	ret = pib_size_wq(&qp->rq, has_srq ? 0 : cap->max_recv_wr,
			  sizeof(struct pib_hca_recv_wqe) +
				  cap->max_recv_sge * sizeof(struct pib_hca_sge),
			  PIB_HCA_MIN_LOG_RQ_STRIDE);
	if (ret)
		return ret;

	/* Rounding up left room; all of it is offered. */
	if (qp->sq.depth) {
		uint32_t room = (1u << qp->sq.log_stride) - PIB_SEND_WQE_OVERHEAD;

		qp->max_inline_data = min_t(uint32_t, room, ctx->max_inline_data);
		qp->sq.max_sge = min_t(uint32_t, room / sizeof(struct pib_hca_sge),
				       ctx->max_sge);
	}
	if (qp->rq.depth) {
		uint32_t room =
			(1u << qp->rq.log_stride) - sizeof(struct pib_hca_recv_wqe);

		qp->rq.max_sge = min_t(uint32_t, room / sizeof(struct pib_hca_sge),
				       ctx->max_sge);
	}
	return 0;
}

/* Header, send queue, receive queue, one after the other. */
static int pib_alloc_rings(struct pib_context *ctx, struct ibv_pd *pd, struct pib_qp *qp,
			   struct pib_hca_create_qp_req *req)
{
	size_t sq_offset = PIB_HCA_QUEUE_HEADER_SIZE;
	size_t rq_offset = sq_offset + ((size_t)qp->sq.depth << qp->sq.log_stride);
	size_t length = rq_offset + ((size_t)qp->rq.depth << qp->rq.log_stride);
	int ret;

	/* A one-entry send queue ends on a multiple of 64 anyhow: its stride is one. */
	ret = pib_alloc_buf(ctx, pd, PIB_RESOURCE_QP, &qp->buf, length);
	if (ret)
		return ret;
	qp->header = qp->buf.addr;
	qp->sq.ring = qp->buf.addr + sq_offset;
	qp->rq.ring = qp->buf.addr + rq_offset;

	req->buf_addr = (uintptr_t)qp->buf.addr;
	req->buf_length = qp->buf.length;
	if (qp->sq.depth) {
		req->sq_offset = sq_offset;
		req->max_inline = qp->max_inline_data;
		req->log_sq_depth = qp->sq.log_depth;
		req->log_sq_stride = qp->sq.log_stride;
	}
	if (qp->rq.depth) {
		req->rq_offset = rq_offset;
		req->log_rq_depth = qp->rq.log_depth;
		req->log_rq_stride = qp->rq.log_stride;
	}
	return 0;
}

static void pib_free_qp(struct pib_qp *qp)
{
	pthread_spin_destroy(&qp->sq.lock);
	pthread_spin_destroy(&qp->rq.lock);
	pib_free_buf(&qp->buf);
	free(qp->sq.wr_ids);
	free(qp->rq.wr_ids);
	free(qp);
}

static int pib_check_qp_attr(struct pib_context *ctx,
			     const struct ibv_qp_init_attr_ex *attr)
{
	const struct ibv_qp_cap *cap = &attr->cap;

	if (!check_comp_mask(attr->comp_mask, IBV_QP_INIT_ATTR_PD |
						      IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
						      IBV_QP_INIT_ATTR_CREATE_FLAGS))
		return EOPNOTSUPP;
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags)
		return EOPNOTSUPP;
	if (attr->qp_type != IBV_QPT_RC && attr->qp_type != IBV_QPT_UC &&
	    attr->qp_type != IBV_QPT_UD)
		return EOPNOTSUPP;
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) &&
	    (attr->send_ops_flags & ~pib_send_ops_supported(attr->qp_type)))
		return EOPNOTSUPP;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->send_cq || !attr->recv_cq)
		return EINVAL;
	if (cap->max_send_wr > ctx->max_qp_wr || cap->max_recv_wr > ctx->max_qp_wr ||
	    cap->max_send_sge > ctx->max_sge || cap->max_recv_sge > ctx->max_sge ||
	    cap->max_inline_data > ctx->max_inline_data)
		return EINVAL;
	return 0;
}

static void pib_report_cap(const struct pib_qp *qp, struct ibv_qp_cap *cap)
{
	cap->max_send_wr = qp->sq.depth;
	cap->max_recv_wr = qp->rq.depth;
	cap->max_send_sge = qp->sq.max_sge;
	cap->max_recv_sge = qp->rq.max_sge;
	cap->max_inline_data = qp->max_inline_data;
}

/* Creates the QP in the kernel and makes it known to pollers; 0 or an errno value. */
static int pib_register_qp(struct pib_context *ctx, struct pib_qp *qp,
			   struct ibv_qp_init_attr_ex *attr, struct pib_create_qp *cmd)
{
	struct pib_create_qp_resp resp = {};
	int ret;

	/*
	 * The mutex keeps the order of create and destroy: a number that the kernel has just
	 * given back must not enter the table before it has left it.
	 */
	pthread_mutex_lock(&ctx->qp_mutex);
	ret = ibv_cmd_create_qp_ex(&ctx->ibv_ctx.context, &qp->verbs_qp, attr,
				   &cmd->ibv_cmd, sizeof(*cmd), &resp.ibv_resp,
				   sizeof(resp));
	if (!ret) {
		qp->qpn = resp.drv_payload.qpn & PIB_HCA_DB_NUMBER_MASK;
		ret = pib_store_qp(ctx, qp);
		if (ret)
			ibv_cmd_destroy_qp(&qp->verbs_qp.qp);
	}
	pthread_mutex_unlock(&ctx->qp_mutex);
	return ret;
}

struct ibv_qp *pib_create_qp_ex(struct ibv_context *context,
				struct ibv_qp_init_attr_ex *attr)
{
	struct pib_context *ctx = to_pctx(context);
	struct ibv_qp_init_attr_ex kernel_attr = *attr;
	struct pib_create_qp cmd = {};
	struct pib_qp *qp;
	int ret;

	ret = pib_check_qp_attr(ctx, attr);
	if (ret) {
		errno = ret;
		return NULL;
	}
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	pthread_spin_init(&qp->sq.lock, PTHREAD_PROCESS_PRIVATE);
	pthread_spin_init(&qp->rq.lock, PTHREAD_PROCESS_PRIVATE);
	ret = pib_size_queues(ctx, qp, &attr->cap, attr->srq);
	if (!ret)
		ret = pib_alloc_rings(ctx, attr->pd, qp, &cmd.drv_payload);
	if (ret)
		goto err;

	pib_report_cap(qp, &kernel_attr.cap);
	kernel_attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	ret = pib_register_qp(ctx, qp, &kernel_attr, &cmd);
	if (ret)
		goto err;
	pib_report_cap(qp, &attr->cap);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		qp->verbs_qp.comp_mask |= VERBS_QP_EX;
		pib_qp_set_wr_ops(qp);
	}
	return &qp->verbs_qp.qp;

err:
	pib_free_qp(qp);
	errno = ret;
	return NULL;
}

struct ibv_qp *pib_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex attr_ex = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct ibv_qp *qp;

	qp = pib_create_qp_ex(pd->context, &attr_ex);
	if (qp)
		attr->cap = attr_ex.cap;
	return qp;
}

/* The device has forgotten the queues' contents; so do we, before the QP leaves Reset. */
static void pib_reset_queues(struct pib_qp *qp)
{
	pib_lock_cqs(qp);
	pib_clean_cqs(qp);
	qp->sq.head = 0;
	qp->rq.head = 0;
	atomic_store_explicit(&qp->sq.tail, 0, memory_order_relaxed);
	atomic_store_explicit(&qp->rq.tail, 0, memory_order_relaxed);
	qp->header->sq_producer = 0;
	qp->header->rq_producer = 0;
	pib_unlock_cqs(qp);
}

int pib_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask)
{
	struct ibv_modify_qp cmd = {};
	int ret;

	ret = ibv_cmd_modify_qp(ibqp, attr, attr_mask, &cmd, sizeof(cmd));
	if (!ret && (attr_mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET)
		pib_reset_queues(to_pqp(ibqp));
	return ret;
}

int pib_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask,
		 struct ibv_qp_init_attr *init_attr)
{
	struct ibv_query_qp cmd;
	int ret;

	ret = ibv_cmd_query_qp(ibqp, attr, attr_mask, init_attr, &cmd, sizeof(cmd));
	if (ret)
		return ret;
	pib_report_cap(to_pqp(ibqp), &attr->cap);
	init_attr->cap = attr->cap;
	return 0;
}

int pib_destroy_qp(struct ibv_qp *ibqp)
{
	struct pib_context *ctx = to_pctx(ibqp->context);
	struct pib_qp *qp = to_pqp(ibqp);
	int ret;

	pthread_mutex_lock(&ctx->qp_mutex);
	ret = ibv_cmd_destroy_qp(ibqp);
	if (!ret)
		pib_clear_qp(ctx, qp);
	pthread_mutex_unlock(&ctx->qp_mutex);
	if (ret)
		return ret;
	pib_free_qp(qp);
	return 0;
}
