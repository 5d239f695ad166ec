// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Queue pairs: sizes and memory of their rings, the table of QPs, modify, query, destroy. */
#include <config.h>

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "pib.h"
#include "pib-abi.h"

/* The longest header before the data of a send WQE: an atomic's or a datagram's. */
#define PIB_SEND_WQE_OVERHEAD 64

/* NULL for the queue of an XRC QP that has no CQ. */
static struct pib_cq *pib_cq_or_null(struct ibv_cq *ibcq)
{
	return ibcq ? to_pcq(ibcq) : NULL;
}

/*
 * The QP's CQs in the order of their addresses, so that of two threads with crossed CQs one gets
 * both locks; one entry if both queues have the same CQ. The order is not that of their numbers,
 * which a faulty device may give twice.
 */
static int pib_cqs_of(struct pib_qp *qp, struct pib_cq *cqs[2])
{
	struct pib_cq *send_cq = pib_cq_or_null(qp->verbs_qp.qp.send_cq);
	struct pib_cq *recv_cq = pib_cq_or_null(qp->verbs_qp.qp.recv_cq);
	int count = 0;

	if (recv_cq && (!send_cq || (uintptr_t)recv_cq < (uintptr_t)send_cq))
		cqs[count++] = recv_cq;
	if (send_cq)
		cqs[count++] = send_cq;
	if (recv_cq && send_cq && (uintptr_t)recv_cq > (uintptr_t)send_cq)
		cqs[count++] = recv_cq;
	return count;
}

/*
 * A CQ that this thread polls counts as locked. Two threads that poll one CQ each, and both destroy
 * or reset a QP of both CQs before end_poll(), wait for one another: programs must not do that.
 * With other providers, such as mlx5, even a single thread that does so waits for itself.
 */
static bool pib_trylock_cqs(struct pib_qp *qp)
{
	struct pib_cq *cqs[2];
	int count = pib_cqs_of(qp, cqs), i;

	for (i = 0; i < count; i++) {
		if (pib_cq_trylock(cqs[i]))
			continue;
		while (i--)
			pib_cq_unlock(cqs[i]);
		return false;
	}
	return true;
}

static void pib_unlock_cqs(struct pib_qp *qp)
{
	struct pib_cq *cqs[2];
	int count = pib_cqs_of(qp, cqs), i;

	for (i = 0; i < count; i++)
		pib_cq_unlock(cqs[i]);
}

static void pib_clean_cqs(struct pib_qp *qp)
{
	struct pib_cq *cqs[2];
	int count = pib_cqs_of(qp, cqs), i;

	for (i = 0; i < count; i++)
		pib_cq_clean(cqs[i], qp);
}

/*
 * Removes the QP from the table, if it is there under this number, and its completions from its
 * CQs. The caller holds table_mutex, which this function releases before it waits for a CQ's lock:
 * the holder of that lock may wait for the mutex.
 */
static void pib_clear_qp(struct pib_context *ctx, struct pib_qp *qp, uint32_t qpn)
{
	/* A QP that has left the table may be freed: do not access it. */
	while (pib_table_owner(&ctx->qps, qpn) == qp) {
		if (pib_trylock_cqs(qp)) {
			pib_clean_cqs(qp);
			pib_table_clear(&ctx->qps, qpn);
			pib_unlock_cqs(qp);
			return;
		}
		pib_table_yield(ctx);
	}
}

/*
 * Makes the QP known to pollers of its CQs; 0 or an errno value. table_mutex is held. A QP that
 * another thread is destroying may still have the number in the table, because its destruction
 * waits for its events to be acknowledged: that QP leaves the table now, with its completions.
 */
static int pib_store_qp(struct pib_context *ctx, struct pib_qp *qp)
{
	int ret = pib_table_reserve(&ctx->qps, qp->qpn);
	struct pib_qp *leaving;

	if (ret)
		return ret;
	while ((leaving = pib_table_owner(&ctx->qps, qp->qpn)))
		pib_clear_qp(ctx, leaving, qp->qpn);
	pib_table_set(&ctx->qps, qp->qpn, qp, pib_cq_or_null(qp->verbs_qp.qp.send_cq),
		      pib_cq_or_null(qp->verbs_qp.qp.recv_cq));
	return 0;
}

/* Sizes a queue for `wr` entries of `wqe_size` bytes each; with no entries there is no queue. */
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
			   const struct ibv_qp_cap *cap, bool has_rq)
{
	uint32_t sges = cap->max_send_sge * sizeof(struct pib_hca_sge);
	int ret;

	ret = pib_size_wq(&qp->sq, cap->max_send_wr,
			  PIB_SEND_WQE_OVERHEAD + max_t(uint32_t, sges, cap->max_inline_data),
			  PIB_HCA_MIN_LOG_SQ_STRIDE);
	if (ret)
		return ret;
	/* Ignore max_recv_wr without a receive queue (ibv_create_qp(3)). */
	ret = pib_size_wq(&qp->rq, has_rq ? cap->max_recv_wr : 0,
			  sizeof(struct pib_hca_recv_wqe) +
				  cap->max_recv_sge * sizeof(struct pib_hca_sge),
			  PIB_HCA_MIN_LOG_RQ_STRIDE);
	if (ret)
		return ret;

	/* Report all the room that the strides have after rounding up. */
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

/* Allocates the buffer: header, send queue, receive queue. Describes it in `req`. */
static int pib_alloc_rings(struct pib_context *ctx, struct ibv_pd *pd, struct pib_qp *qp,
			   struct pib_hca_create_qp_req *req)
{
	size_t sq_offset = PIB_HCA_QUEUE_HEADER_SIZE;
	size_t rq_offset = sq_offset + ((size_t)qp->sq.depth << qp->sq.log_stride);
	size_t length = rq_offset + ((size_t)qp->rq.depth << qp->rq.log_stride);
	int ret;

	/* rq_offset is a multiple of 64, because strides of send queues are multiples of 64. */
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
	    attr->qp_type != IBV_QPT_UD && attr->qp_type != IBV_QPT_XRC_SEND)
		return EOPNOTSUPP;
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) &&
	    (attr->send_ops_flags & ~pib_send_ops_supported(attr->qp_type)))
		return EOPNOTSUPP;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->send_cq)
		return EINVAL;
	if (attr->qp_type == IBV_QPT_XRC_SEND ? !!attr->srq : !attr->recv_cq)
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

	pthread_mutex_lock(&ctx->table_mutex);
	ret = ibv_cmd_create_qp_ex(&ctx->ibv_ctx.context, &qp->verbs_qp, attr,
				   &cmd->ibv_cmd, sizeof(*cmd), &resp.ibv_resp,
				   sizeof(resp));
	if (!ret) {
		qp->qpn = resp.drv_payload.qpn;
		ret = pib_store_qp(ctx, qp);
		if (ret)
			ibv_cmd_destroy_qp(&qp->verbs_qp.qp);
	}
	pthread_mutex_unlock(&ctx->table_mutex);
	return ret;
}

/*
 * Creates an XRC target, or opens one if `attr` is NULL. XRC targets have no queues, and outlive
 * this process in their domain: the provider keeps only their handle.
 */
static struct ibv_qp *pib_new_target(struct ibv_context *context,
				     struct ibv_qp_init_attr_ex *attr,
				     struct ibv_qp_open_attr *open_attr)
{
	struct pib_create_qp_resp resp = {};
	struct ib_uverbs_create_qp_resp open_resp;
	struct pib_create_qp cmd = {};
	struct ibv_open_qp open_cmd;
	struct pib_qp *qp;
	int ret;

	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	pthread_spin_init(&qp->sq.lock, PTHREAD_PROCESS_PRIVATE);
	pthread_spin_init(&qp->rq.lock, PTHREAD_PROCESS_PRIVATE);
	if (attr)
		ret = ibv_cmd_create_qp_ex(context, &qp->verbs_qp, attr, &cmd.ibv_cmd, sizeof(cmd),
					   &resp.ibv_resp, sizeof(resp));
	else
		ret = ibv_cmd_open_qp(context, &qp->verbs_qp, sizeof(qp->verbs_qp), open_attr,
				      &open_cmd, sizeof(open_cmd), &open_resp, sizeof(open_resp));
	if (ret) {
		pib_free_qp(qp);
		errno = ret;
		return NULL;
	}
	qp->is_target = true;
	return &qp->verbs_qp.qp;
}

static struct ibv_qp *pib_create_target(struct ibv_context *context,
					struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp_init_attr_ex kernel_attr = *attr;

	if (!check_comp_mask(attr->comp_mask, IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_PD)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD)) {
		errno = EINVAL;
		return NULL;
	}
	kernel_attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	memset(&kernel_attr.cap, 0, sizeof(kernel_attr.cap));
	return pib_new_target(context, &kernel_attr, NULL);
}

struct ibv_qp *pib_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	return pib_new_target(context, NULL, attr);
}

struct ibv_qp *pib_create_qp_ex(struct ibv_context *context,
				struct ibv_qp_init_attr_ex *attr)
{
	struct pib_context *ctx = to_pctx(context);
	struct ibv_qp_init_attr_ex kernel_attr = *attr;
	struct pib_create_qp cmd = {};
	struct pib_qp *qp;
	int ret;

	if (attr->qp_type == IBV_QPT_XRC_RECV)
		return pib_create_target(context, attr);
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
	ret = pib_size_queues(ctx, qp, &attr->cap,
			      !attr->srq && attr->qp_type != IBV_QPT_XRC_SEND);
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

/*
 * Empties the queues, as the device does in Reset, before the QP leaves Reset. No CQ's lock is held
 * while the thread waits for the other one: a thread that polls the other CQ may wait for the first
 * one, to poll it, too, or to reset a QP.
 */
static void pib_reset_queues(struct pib_qp *qp)
{
	while (!pib_trylock_cqs(qp))
		sched_yield();
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
	if (!ret && (attr_mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET &&
	    !to_pqp(ibqp)->is_target)
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

	/*
	 * The command waits until the QP's events are acknowledged, perhaps by a thread that waits
	 * for table_mutex to create a QP.
	 */
	ret = ibv_cmd_destroy_qp(ibqp);
	if (ret)
		return ret;
	pthread_mutex_lock(&ctx->table_mutex);
	if (!qp->is_target)
		pib_clear_qp(ctx, qp, qp->qpn);
	pthread_mutex_unlock(&ctx->table_mutex);
	pib_free_qp(qp);
	return 0;
}
