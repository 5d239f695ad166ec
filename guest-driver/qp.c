// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Queue pairs: creation, destruction, layout of their queues (IBA vol. 1, 11.2.4). */
#include "pib_hca.h"

/* Number of QPs that have been made. */
static atomic64_t pib_hca_births = ATOMIC64_INIT(0);

void pib_hca_qp_cap(const struct pib_hca_qp *qp, struct ib_qp_cap *cap)
{
	cap->max_send_wr = qp->sq.depth;
	cap->max_recv_wr = qp->rq.depth;
	cap->max_send_sge = qp->sq.max_sge;
	cap->max_recv_sge = qp->rq.max_sge;
	cap->max_inline_data = qp->max_inline;
}

/* ---------------------------------------------------------------- layout --------------------- */

static void pib_hca_set_max_sge(struct pib_hca_dev *dev, struct pib_hca_qp *qp)
{
	u32 limit = le32_to_cpu(dev->caps.max_sge);
	u32 room;

	if (qp->sq.depth)
		qp->sq.max_sge = min(limit, pib_hca_send_max_sge(qp->ibqp.qp_type,
								 1U << qp->sq.log_stride));
	if (qp->rq.depth) {
		room = (1U << qp->rq.log_stride) - sizeof(struct pib_hca_recv_wqe);
		qp->rq.max_sge = min_t(u32, limit, room / sizeof(struct pib_hca_sge));
	}
}

/*
 * Places a queue at or after `offset` and returns its end. Each entry is at a multiple of its size,
 * so none crosses a chunk of the buffer.
 */
static size_t pib_hca_place_wq(struct pib_hca_wq *wq, u32 wr, u32 wqe_size, u8 min_log_stride,
			       size_t offset)
{
	if (!wr)
		return offset;
	wq->depth = roundup_pow_of_two(wr);
	wq->log_stride = max_t(u8, order_base_2(wqe_size), min_log_stride);
	wq->offset = ALIGN(offset, max(1U << wq->log_stride, PIB_HCA_QUEUE_HEADER_SIZE));
	return wq->offset + ((size_t)wq->depth << wq->log_stride);
}

static int pib_hca_alloc_wr_ids(struct pib_hca_wq *wq)
{
	if (!wq->depth)
		return 0;
	wq->wr_ids = kvcalloc(wq->depth, sizeof(*wq->wr_ids), GFP_KERNEL);
	return wq->wr_ids ? 0 : -ENOMEM;
}

static void pib_hca_free_queues(struct pib_hca_dev *dev, struct pib_hca_qp *qp)
{
	kvfree(qp->sq.wr_ids);
	kvfree(qp->rq.wr_ids);
	pib_hca_queue_mem_free(dev, &qp->mem);
}

static int pib_hca_layout_kernel(struct pib_hca_dev *dev, struct pib_hca_qp *qp,
				 const struct ib_qp_cap *cap)
{
	u32 send_size = pib_hca_send_wqe_size(qp->ibqp.qp_type, cap->max_send_sge,
					      cap->max_inline_data);
	u32 recv_size = sizeof(struct pib_hca_recv_wqe) +
			cap->max_recv_sge * sizeof(struct pib_hca_sge);
	size_t end = PIB_HCA_QUEUE_HEADER_SIZE;
	int ret;

	end = pib_hca_place_wq(&qp->sq, cap->max_send_wr, send_size, PIB_HCA_MIN_LOG_SQ_STRIDE,
			       end);
	end = pib_hca_place_wq(&qp->rq, cap->max_recv_wr, recv_size, PIB_HCA_MIN_LOG_RQ_STRIDE,
			       end);
	qp->max_inline = qp->sq.depth ? cap->max_inline_data : 0;
	ret = pib_hca_queue_mem_kernel(dev, &qp->mem, end);
	if (!ret)
		ret = pib_hca_alloc_wr_ids(&qp->sq);
	if (!ret)
		ret = pib_hca_alloc_wr_ids(&qp->rq);
	if (ret)
		pib_hca_free_queues(dev, qp);
	return ret;
}

/*
 * Takes the layout of a queue from user space. The device checks that the two queues do not
 * overlap.
 */
static int pib_hca_take_wq(struct pib_hca_wq *wq, u32 offset, u8 log_depth, u8 log_stride)
{
	if (!offset) /* there is no such queue */
		return log_depth || log_stride ? -EINVAL : 0;
	if (log_depth > PIB_HCA_MAX_WQ_LOG_DEPTH || log_stride < PIB_HCA_MIN_LOG_RQ_STRIDE ||
	    log_stride > PIB_HCA_MAX_LOG_WQE_STRIDE)
		return -EINVAL;
	wq->offset = offset;
	wq->depth = 1U << log_depth;
	wq->log_stride = log_stride;
	return 0;
}

static u64 pib_hca_wq_end(const struct pib_hca_wq *wq)
{
	return wq->offset + ((u64)wq->depth << wq->log_stride);
}

static int pib_hca_layout_user(struct pib_hca_dev *dev, struct pib_hca_qp *qp,
			       struct ib_udata *udata)
{
	struct pib_hca_create_qp_req req;
	u64 bytes;
	int ret;

	ret = pib_hca_udata_in(udata, &req, sizeof(req));
	if (ret)
		return ret;
	if (memchr_inv(req.reserved, 0, sizeof(req.reserved)))
		return -EOPNOTSUPP;
	ret = pib_hca_take_wq(&qp->sq, req.sq_offset, req.log_sq_depth, req.log_sq_stride);
	if (ret)
		return ret;
	ret = pib_hca_take_wq(&qp->rq, req.rq_offset, req.log_rq_depth, req.log_rq_stride);
	if (ret)
		return ret;
	if (qp->sq.depth && qp->sq.log_stride < PIB_HCA_MIN_LOG_SQ_STRIDE)
		return -EINVAL;
	qp->max_inline = req.max_inline;
	bytes = max3((u64)PIB_HCA_QUEUE_HEADER_SIZE, pib_hca_wq_end(&qp->sq),
		     pib_hca_wq_end(&qp->rq));
	return pib_hca_queue_mem_user(dev, &qp->mem, req.buf_addr, req.buf_length, bytes);
}

/* ---------------------------------------------------------------- create --------------------- */

static bool pib_hca_cap_is_valid(struct pib_hca_dev *dev, const struct ib_qp_cap *cap)
{
	u32 max_wr = le32_to_cpu(dev->caps.max_qp_wr);
	u32 max_sge = le32_to_cpu(dev->caps.max_sge);

	return cap->max_send_wr <= max_wr && cap->max_recv_wr <= max_wr &&
	       cap->max_send_sge <= max_sge && cap->max_recv_sge <= max_sge &&
	       cap->max_inline_data <= le32_to_cpu(dev->caps.max_inline_data);
}

/* The layout must have room for the sizes that the verb requests. */
static bool pib_hca_cap_is_met(const struct pib_hca_qp *qp, const struct ib_qp_cap *cap)
{
	struct ib_qp_cap have;

	pib_hca_qp_cap(qp, &have);
	return cap->max_send_wr <= have.max_send_wr && cap->max_recv_wr <= have.max_recv_wr &&
	       (!have.max_send_wr || (cap->max_send_sge <= have.max_send_sge &&
				      cap->max_inline_data <= have.max_inline_data)) &&
	       (!have.max_recv_wr || cap->max_recv_sge <= have.max_recv_sge);
}

static int pib_hca_check_init_attr(struct pib_hca_dev *dev,
				   const struct ib_qp_init_attr *init_attr, bool user)
{
	enum ib_qp_type type = init_attr->qp_type;
	bool special = type == IB_QPT_SMI || type == IB_QPT_GSI;
	bool target = type == IB_QPT_XRC_TGT;
	bool xrc = target || type == IB_QPT_XRC_INI;

	/*
	 * XRC initiators are for processes, special QPs for the kernel. A target belongs to the XRC
	 * domain, because the core does not say which process creates it.
	 */
	if ((type > IB_QPT_UD && !xrc) || (special && user) || (type == IB_QPT_XRC_INI && !user))
		return -EOPNOTSUPP;
	if (init_attr->create_flags || init_attr->rwq_ind_tbl)
		return -EOPNOTSUPP;
	if (target == !init_attr->xrcd)
		return -EINVAL;
	if ((special || xrc) && init_attr->srq)
		return -EINVAL;
	if (!target && (!init_attr->send_cq || (!xrc && !init_attr->recv_cq)))
		return -EINVAL;
	return pib_hca_cap_is_valid(dev, &init_attr->cap) ? 0 : -EINVAL;
}

static u32 pib_hca_create_flags(const struct pib_hca_qp *qp)
{
	return (qp->sq.depth && qp->signal_all ? PIB_HCA_QP_SIGNAL_ALL : 0) |
	       (qp->user ? 0 : PIB_HCA_QP_PRIVILEGED) |
	       (qp->sq.depth ? 0 : PIB_HCA_QP_NO_SQ) | (qp->rq.depth ? 0 : PIB_HCA_QP_NO_RQ) |
	       (qp->ibqp.srq ? PIB_HCA_QP_SRQ : 0);
}

static u32 pib_hca_cqn(struct ib_cq *ibcq)
{
	return ibcq ? to_pcq(ibcq)->cqn : 0;
}

static int pib_hca_create_qp_cmd(struct pib_hca_dev *dev, struct pib_hca_qp *qp,
				 struct ib_udata *udata)
{
	struct ib_pd *ibpd = qp->ibqp.pd; /* NULL for XRC targets, which have no UAR either */
	bool has_queues = qp->ibqp.qp_type != IB_QPT_XRC_TGT;
	struct pib_hca_create_qp in = {
		.pd = cpu_to_le32(ibpd ? to_ppd(ibpd)->pdn : 0),
		.send_cq = cpu_to_le32(pib_hca_cqn(qp->ibqp.send_cq)),
		.recv_cq = cpu_to_le32(pib_hca_cqn(qp->ibqp.recv_cq)),
		.uar = cpu_to_le32(has_queues ? pib_hca_uar_of(udata) : 0),
		.sq_offset = cpu_to_le32(qp->sq.offset),
		.rq_offset = cpu_to_le32(qp->rq.offset),
		.flags = cpu_to_le32(pib_hca_create_flags(qp)),
		.max_inline = cpu_to_le32(qp->max_inline),
		.type = qp->ibqp.qp_type, /* same value: see abi_check.c */
		.port = qp->port,
		.log_sq_depth = qp->sq.depth ? ilog2(qp->sq.depth) : 0,
		.log_rq_depth = qp->rq.depth ? ilog2(qp->rq.depth) : 0,
		.log_sq_stride = qp->sq.log_stride,
		.log_rq_stride = qp->rq.log_stride,
		.srq = cpu_to_le32(qp->ibqp.srq ? to_psrq(qp->ibqp.srq)->srqn : 0),
		.xrcd = cpu_to_le32(qp->xrcdn),
	};
	struct pib_hca_page_table table = {};
	int ret = 0;

	if (has_queues)
		ret = pib_hca_queue_mem_table(dev, &table, &in.pages, &qp->mem);
	if (!ret)
		ret = pib_hca_cmd_create(dev, PIB_HCA_CMD_CREATE_QP, &in, sizeof(in), &qp->qpn);
	pib_hca_table_free(dev, &table);
	return ret;
}

/* The QP's number on the wire; on every port the special QPs have the same numbers. */
static u32 pib_hca_wire_qpn(const struct pib_hca_qp *qp)
{
	switch (qp->ibqp.qp_type) {
	case IB_QPT_SMI:
		return 0;
	case IB_QPT_GSI:
		return 1;
	default:
		return qp->qpn;
	}
}

static void pib_hca_init_qp(struct pib_hca_qp *qp, const struct ib_qp_init_attr *init_attr,
			    bool user)
{
	mutex_init(&qp->mutex);
	qp->birth = atomic64_inc_return(&pib_hca_births);
	spin_lock_init(&qp->sq.lock);
	spin_lock_init(&qp->rq.lock);
	pib_hca_ref_init(&qp->ref);
	qp->state = IB_QPS_RESET;
	qp->signal_all = init_attr->sq_sig_type == IB_SIGNAL_ALL_WR;
	if (init_attr->qp_type == IB_QPT_SMI || init_attr->qp_type == IB_QPT_GSI)
		qp->port = init_attr->port_num;
	if (init_attr->xrcd)
		qp->xrcdn = to_pxrcd(init_attr->xrcd)->xrcdn;
	qp->user = user || init_attr->qp_type == IB_QPT_XRC_TGT;
}

static int pib_hca_tell_user(struct pib_hca_qp *qp, struct ib_udata *udata)
{
	struct pib_hca_create_qp_resp resp = { .qpn = qp->qpn };

	return pib_hca_udata_out(udata, &resp, sizeof(resp));
}

/* Ends all use of the QP by event handlers and of its memory by the device. */
static void pib_hca_withdraw_qp(struct pib_hca_dev *dev, struct pib_hca_qp *qp)
{
	mutex_lock(&qp->mutex);
	/* Leave the array first: after the command the device may give the number to another QP. */
	xa_erase_irq(&dev->qps, qp->qpn);
	pib_hca_cmd_destroy(dev, PIB_HCA_CMD_DESTROY_QP, qp->qpn);
	mutex_unlock(&qp->mutex);
	/*
	 * Running handlers may have found the QP already. Later handlers find nothing, because the
	 * device reuses a number only after the driver has taken the events that name it.
	 */
	pib_hca_eqs_sync(dev);
	pib_hca_ref_wait(&qp->ref);
}

/* Ignores the sizes of queues that the QP does not have: callers may pass any. */
static void pib_hca_trim_cap(struct ib_qp_init_attr *init_attr)
{
	struct ib_qp_cap *cap = &init_attr->cap;

	if (init_attr->srq || init_attr->qp_type == IB_QPT_XRC_INI) {
		cap->max_recv_wr = 0;
		cap->max_recv_sge = 0;
	} else if (init_attr->qp_type == IB_QPT_XRC_TGT) {
		*cap = (struct ib_qp_cap){};
	}
}

static int pib_hca_layout(struct pib_hca_dev *dev, struct pib_hca_qp *qp,
			  const struct ib_qp_init_attr *init_attr, struct ib_udata *udata)
{
	if (init_attr->qp_type == IB_QPT_XRC_TGT)
		return 0;
	return udata ? pib_hca_layout_user(dev, qp, udata) :
		       pib_hca_layout_kernel(dev, qp, &init_attr->cap);
}

int pib_hca_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init_attr,
		      struct ib_udata *udata)
{
	struct pib_hca_dev *dev = to_pdev(ibqp->device);
	struct pib_hca_qp *qp = to_pqp(ibqp);
	int ret;

	ret = pib_hca_check_init_attr(dev, init_attr, udata);
	if (ret)
		return ret;
	pib_hca_init_qp(qp, init_attr, udata);
	pib_hca_trim_cap(init_attr);
	ret = pib_hca_layout(dev, qp, init_attr, udata);
	if (ret)
		return ret;
	pib_hca_set_max_sge(dev, qp);
	ret = -EINVAL;
	if (!pib_hca_cap_is_met(qp, &init_attr->cap))
		goto err_queues;
	ret = pib_hca_create_qp_cmd(dev, qp, udata);
	if (ret)
		goto err_queues;
	ret = xa_insert_irq(&dev->qps, qp->qpn, qp, GFP_KERNEL);
	if (ret)
		goto err_qp;
	ret = udata ? pib_hca_tell_user(qp, udata) : 0;
	if (ret)
		goto err_withdraw;
	ibqp->qp_num = pib_hca_wire_qpn(qp);
	pib_hca_qp_cap(qp, &init_attr->cap);
	if (!qp->user)
		pib_hca_cq_add_qp(qp);
	return 0;

err_withdraw:
	pib_hca_withdraw_qp(dev, qp);
	goto err_queues;
err_qp:
	pib_hca_cmd_destroy(dev, PIB_HCA_CMD_DESTROY_QP, qp->qpn);
err_queues:
	pib_hca_free_queues(dev, qp);
	return ret;
}

/* ---------------------------------------------------------------- destroy -------------------- */

/*
 * Removes a kernel QP's completions from its CQs before another QP can get its number: resets the
 * QP first, which then keeps its number but makes no more completions.
 */
static void pib_hca_silence_qp(struct pib_hca_dev *dev, struct pib_hca_qp *qp)
{
	struct pib_hca_modify_qp in = {
		.attr_mask = cpu_to_le32(PIB_HCA_QP_ATTR_STATE),
		.state = PIB_HCA_QPS_RESET,
	};

	if (pib_hca_cmd_set(dev, PIB_HCA_CMD_MODIFY_QP, qp->qpn, &in, sizeof(in)))
		pib_hca_give_up(dev, "a QP cannot be reset");
	pib_hca_cq_remove_qp(qp);
}

int pib_hca_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct pib_hca_dev *dev = to_pdev(ibqp->device);
	struct pib_hca_qp *qp = to_pqp(ibqp);

	if (!qp->user)
		pib_hca_silence_qp(dev, qp);
	pib_hca_withdraw_qp(dev, qp);
	pib_hca_free_queues(dev, qp);
	return 0;
}
