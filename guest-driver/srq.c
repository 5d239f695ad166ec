// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Shared receive queues (IBA vol. 1, 10.2.9 and 11.2.3). WQEs are taken in order and complete in
 * any order, so each WQE carries an id, the index of its wr_id. No more WQEs are posted than there
 * are ids, so the next entry to fill is always one that the device has taken; see
 * docs/device-spec.md, "Shared receive queues".
 */
#include <linux/bitmap.h>

#include "pib_hca.h"

/* ---------------------------------------------------------------- posting -------------------- */

static int pib_hca_build_srq_recv(struct pib_hca_srq *srq, const struct ib_recv_wr *wr)
{
	size_t index = srq->head & (srq->depth - 1);
	struct pib_hca_recv_wqe *wqe =
		pib_hca_buf_at(&srq->mem.buf, srq->offset + (index << srq->log_stride));
	u32 id;

	if (wr->num_sge < 0 || wr->num_sge > srq->max_sge)
		return -EINVAL;
	if (!srq->free_count)
		return -ENOMEM;
	id = srq->free_ids[--srq->free_count];
	srq->wr_ids[id] = wr->wr_id;
	__set_bit(id, srq->posted);
	pib_hca_put_recv(wqe, wr, id);
	srq->head++;
	return 0;
}

int pib_hca_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
			  const struct ib_recv_wr **bad_wr)
{
	struct pib_hca_srq *srq = to_psrq(ibsrq);
	struct pib_hca_srq_header *header = pib_hca_buf_at(&srq->mem.buf, 0);
	unsigned long flags;
	int ret = 0;

	spin_lock_irqsave(&srq->lock, flags);
	for (; wr; wr = wr->next) {
		ret = pib_hca_build_srq_recv(srq, wr);
		if (ret) {
			*bad_wr = wr;
			break;
		}
	}
	dma_wmb(); /* store the WQEs before the counter that gives them to the device */
	WRITE_ONCE(header->producer, cpu_to_le32(srq->head));
	spin_unlock_irqrestore(&srq->lock, flags);
	return ret;
}

/* A faulty device may name an id that is not posted. */
bool pib_hca_srq_retire(struct pib_hca_srq *srq, u32 id, u64 *wr_id)
{
	unsigned long flags;
	bool posted;

	spin_lock_irqsave(&srq->lock, flags);
	posted = id < srq->depth && __test_and_clear_bit(id, srq->posted);
	if (posted) {
		*wr_id = srq->wr_ids[id];
		srq->free_ids[srq->free_count++] = id;
	}
	spin_unlock_irqrestore(&srq->lock, flags);
	return posted;
}

/* ---------------------------------------------------------------- create --------------------- */

static int pib_hca_srq_layout_kernel(struct pib_hca_dev *dev, struct pib_hca_srq *srq,
				     const struct ib_srq_attr *attr)
{
	u32 size = sizeof(struct pib_hca_recv_wqe) + attr->max_sge * sizeof(struct pib_hca_sge);
	u32 i;

	srq->depth = roundup_pow_of_two(attr->max_wr);
	srq->log_stride = max_t(u8, order_base_2(size), PIB_HCA_MIN_LOG_RQ_STRIDE);
	srq->wr_ids = kvcalloc(srq->depth, sizeof(*srq->wr_ids), GFP_KERNEL);
	srq->free_ids = kvcalloc(srq->depth, sizeof(*srq->free_ids), GFP_KERNEL);
	srq->posted = bitmap_zalloc(srq->depth, GFP_KERNEL);
	if (!srq->wr_ids || !srq->free_ids || !srq->posted)
		return -ENOMEM;
	for (i = 0; i < srq->depth; i++)
		srq->free_ids[i] = i;
	srq->free_count = srq->depth;
	/* A multiple of an entry's size, so that no entry crosses a chunk of the buffer. */
	srq->offset = max_t(u32, 1U << srq->log_stride, PIB_HCA_QUEUE_HEADER_SIZE);
	return pib_hca_queue_mem_kernel(dev, &srq->mem, pib_hca_srq_bytes(srq, srq->depth));
}

static int pib_hca_srq_layout_user(struct pib_hca_dev *dev, struct pib_hca_srq *srq,
				   struct ib_udata *udata)
{
	struct pib_hca_create_srq_req req;
	int ret;

	ret = pib_hca_udata_in(udata, &req, sizeof(req));
	if (ret)
		return ret;
	if (memchr_inv(req.reserved, 0, sizeof(req.reserved)))
		return -EOPNOTSUPP;
	if (req.log_depth > PIB_HCA_MAX_WQ_LOG_DEPTH ||
	    req.log_stride < PIB_HCA_MIN_LOG_RQ_STRIDE ||
	    req.log_stride > PIB_HCA_MAX_LOG_WQE_STRIDE)
		return -EINVAL;
	srq->depth = 1U << req.log_depth;
	srq->log_stride = req.log_stride;
	srq->offset = PIB_HCA_QUEUE_HEADER_SIZE;
	return pib_hca_queue_mem_user(dev, &srq->mem, req.buf_addr, req.buf_length,
				      pib_hca_srq_bytes(srq, srq->depth));
}

static void pib_hca_srq_free(struct pib_hca_dev *dev, struct pib_hca_srq *srq)
{
	pib_hca_queue_mem_free(dev, &srq->mem);
	kvfree(srq->wr_ids);
	kvfree(srq->free_ids);
	bitmap_free(srq->posted);
}

/* The layout must have room for the sizes that the verb requests. */
static int pib_hca_srq_set_max_sge(struct pib_hca_dev *dev, struct pib_hca_srq *srq,
				   const struct ib_srq_attr *attr)
{
	u32 room = (1U << srq->log_stride) - sizeof(struct pib_hca_recv_wqe);

	srq->max_sge = min_t(u32, le32_to_cpu(dev->caps.max_srq_sge),
			     room / sizeof(struct pib_hca_sge));
	return attr->max_sge <= srq->max_sge && attr->max_wr <= srq->depth ? 0 : -EINVAL;
}

static int pib_hca_create_srq_cmd(struct pib_hca_dev *dev, struct pib_hca_srq *srq,
				  const struct ib_srq_init_attr *init_attr)
{
	bool xrc = init_attr->srq_type == IB_SRQT_XRC;
	struct pib_hca_create_srq in = {
		.pd = cpu_to_le32(to_ppd(srq->ibsrq.pd)->pdn),
		.flags = cpu_to_le32((srq->mem.umem ? 0 : PIB_HCA_SRQ_PRIVILEGED) |
				     (xrc ? PIB_HCA_SRQ_XRC : 0)),
		.xrcd = cpu_to_le32(xrc ? to_pxrcd(init_attr->ext.xrc.xrcd)->xrcdn : 0),
		.cq = cpu_to_le32(xrc ? to_pcq(init_attr->ext.cq)->cqn : 0),
		.offset = cpu_to_le32(srq->offset),
		.log_depth = ilog2(srq->depth),
		.log_stride = srq->log_stride,
	};
	struct pib_hca_page_table table = {};
	int ret;

	ret = pib_hca_queue_mem_table(dev, &table, &in.pages, &srq->mem);
	if (!ret)
		ret = pib_hca_cmd_create(dev, PIB_HCA_CMD_CREATE_SRQ, &in, sizeof(in), &srq->srqn);
	pib_hca_table_free(dev, &table);
	return ret;
}

/* Ends all use of the SRQ by event handlers and of its memory by the device. */
static void pib_hca_srq_withdraw(struct pib_hca_dev *dev, struct pib_hca_srq *srq)
{
	/* Leave the array first: after the command another SRQ may get the number. */
	xa_erase_irq(&dev->srqs, srq->srqn);
	pib_hca_cmd_destroy(dev, PIB_HCA_CMD_DESTROY_SRQ, srq->srqn);
	/*
	 * Running handlers may have found the SRQ already. Later handlers find nothing, because the
	 * device reuses a number only after the driver has taken the events that name it.
	 */
	pib_hca_eqs_sync(dev);
	pib_hca_ref_wait(&srq->ref);
}

static int pib_hca_srq_tell_user(struct pib_hca_srq *srq, struct ib_udata *udata)
{
	struct pib_hca_create_srq_resp resp = { .srqn = srq->srqn };

	return pib_hca_udata_out(udata, &resp, sizeof(resp));
}

/* attr->srq_limit means nothing at creation: no WQE is posted yet, so any limit is reached. */
static int pib_hca_srq_layout(struct pib_hca_dev *dev, struct pib_hca_srq *srq,
			      const struct ib_srq_attr *attr, struct ib_udata *udata)
{
	int ret;

	if (!attr->max_wr || attr->max_wr > le32_to_cpu(dev->caps.max_srq_wr) ||
	    attr->max_sge > le32_to_cpu(dev->caps.max_srq_sge))
		return -EINVAL;
	ret = udata ? pib_hca_srq_layout_user(dev, srq, udata) :
		      pib_hca_srq_layout_kernel(dev, srq, attr);
	return ret ?: pib_hca_srq_set_max_sge(dev, srq, attr);
}

int pib_hca_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init_attr,
		       struct ib_udata *udata)
{
	struct pib_hca_dev *dev = to_pdev(ibsrq->device);
	struct pib_hca_srq *srq = to_psrq(ibsrq);
	int ret;

	/* XRC SRQs are for processes only. */
	if (init_attr->srq_type != IB_SRQT_BASIC &&
	    (init_attr->srq_type != IB_SRQT_XRC || !udata))
		return -EOPNOTSUPP;
	spin_lock_init(&srq->lock);
	mutex_init(&srq->mutex);
	pib_hca_ref_init(&srq->ref);
	ret = pib_hca_srq_layout(dev, srq, &init_attr->attr, udata);
	if (!ret)
		ret = pib_hca_create_srq_cmd(dev, srq, init_attr);
	if (ret)
		goto err_free;
	ret = xa_insert_irq(&dev->srqs, srq->srqn, srq, GFP_KERNEL);
	if (ret)
		goto err_srq;
	if (udata) {
		ret = pib_hca_srq_tell_user(srq, udata);
		if (ret)
			goto err_withdraw;
	}
	if (init_attr->srq_type == IB_SRQT_XRC)
		ibsrq->ext.xrc.srq_num = srq->srqn;
	init_attr->attr.max_wr = srq->depth;
	init_attr->attr.max_sge = srq->max_sge;
	return 0;

err_withdraw:
	pib_hca_srq_withdraw(dev, srq);
	goto err_free;
err_srq:
	pib_hca_cmd_destroy(dev, PIB_HCA_CMD_DESTROY_SRQ, srq->srqn);
err_free:
	pib_hca_srq_free(dev, srq);
	return ret;
}

int pib_hca_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	struct pib_hca_dev *dev = to_pdev(ibsrq->device);
	struct pib_hca_srq *srq = to_psrq(ibsrq);

	pib_hca_srq_withdraw(dev, srq);
	pib_hca_srq_free(dev, srq);
	return 0;
}

/* ---------------------------------------------------------------- modify and query ----------- */

/*
 * Resizes a process's SRQ. The device moves waiting WQEs to the new buffer; the provider posts
 * nothing meanwhile. The same command also sets a limit, so that both take effect or neither.
 */
static int pib_hca_srq_resize(struct pib_hca_dev *dev, struct pib_hca_srq *srq, u32 max_wr,
			      struct pib_hca_modify_srq *in, struct ib_udata *udata)
{
	struct pib_hca_page_table table = {};
	struct pib_hca_modify_srq_req req;
	struct pib_hca_queue_mem mem = {};
	int ret;

	ret = pib_hca_udata_in(udata, &req, sizeof(req));
	if (ret)
		return ret;
	if (memchr_inv(req.reserved, 0, sizeof(req.reserved)))
		return -EOPNOTSUPP;
	if (req.log_depth > PIB_HCA_MAX_WQ_LOG_DEPTH || 1U << req.log_depth < max_wr)
		return -EINVAL;
	in->log_depth = req.log_depth;
	ret = pib_hca_queue_mem_user(dev, &mem, req.buf_addr, req.buf_length,
				     pib_hca_srq_bytes(srq, 1U << req.log_depth));
	if (ret)
		return ret;
	mutex_lock(&srq->mutex);
	ret = pib_hca_queue_mem_table(dev, &table, &in->pages, &mem);
	if (!ret)
		ret = pib_hca_cmd_set(dev, PIB_HCA_CMD_MODIFY_SRQ, srq->srqn, in, sizeof(*in));
	pib_hca_table_free(dev, &table);
	if (!ret) {
		swap(srq->mem, mem);
		srq->depth = 1U << req.log_depth;
	}
	mutex_unlock(&srq->mutex);
	pib_hca_queue_mem_free(dev, &mem);
	return ret;
}

int pib_hca_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		       enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	struct pib_hca_dev *dev = to_pdev(ibsrq->device);
	struct pib_hca_srq *srq = to_psrq(ibsrq);
	struct pib_hca_modify_srq in = {
		.attr_mask = cpu_to_le32(mask), /* same value: see abi_check.c */
		.limit = cpu_to_le32(mask & IB_SRQ_LIMIT ? attr->srq_limit : 0),
	};

	if (mask & ~(IB_SRQ_MAX_WR | IB_SRQ_LIMIT))
		return -EOPNOTSUPP;
	if (!(mask & IB_SRQ_MAX_WR))
		return pib_hca_udata_no_input(udata) ?:
		       pib_hca_cmd_set(dev, PIB_HCA_CMD_MODIFY_SRQ, srq->srqn, &in, sizeof(in));
	if (!udata) /* the driver does not resize kernel SRQs */
		return -EOPNOTSUPP;
	if (!attr->max_wr || attr->max_wr > le32_to_cpu(dev->caps.max_srq_wr))
		return -EINVAL;
	return pib_hca_srq_resize(dev, srq, attr->max_wr, &in, udata);
}

int pib_hca_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr)
{
	struct pib_hca_srq *srq = to_psrq(ibsrq);
	struct pib_hca_query_srq out;
	int ret;

	ret = pib_hca_cmd_query(to_pdev(ibsrq->device), PIB_HCA_CMD_QUERY_SRQ, srq->srqn, &out,
				sizeof(out));
	if (ret)
		return ret;
	attr->max_wr = 1U << out.log_depth;
	attr->max_sge = srq->max_sge;
	attr->srq_limit = le32_to_cpu(out.limit);
	return 0;
}
