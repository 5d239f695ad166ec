// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completion queues (IBA vol. 1, 11.2.6 and 11.4.2). The provider polls the CQs of processes; the
 * polling here is for kernel CQs only.
 */
#include "pib_hca.h"

static struct pib_hca_cq_header *pib_hca_cq_header(struct pib_hca_cq *cq)
{
	return pib_hca_buf_at(&cq->mem.buf, 0);
}

static struct pib_hca_cqe *pib_hca_cqe_at(struct pib_hca_cq *cq, u32 counter)
{
	size_t index = counter & ((1U << cq->log_depth) - 1);

	return pib_hca_buf_at(&cq->mem.buf,
			      PIB_HCA_QUEUE_HEADER_SIZE + index * sizeof(struct pib_hca_cqe));
}

/* Returns the CQE of this counter; NULL: the device has not written it yet. */
static struct pib_hca_cqe *pib_hca_valid_cqe(struct pib_hca_cq *cq, u32 counter)
{
	struct pib_hca_cqe *cqe = pib_hca_cqe_at(cq, counter);
	u8 first_pass = !(counter & (1U << cq->log_depth));

	if ((READ_ONCE(cqe->owner) & PIB_HCA_OWNER_BIT) != first_pass)
		return NULL;
	dma_rmb(); /* read the owner bit before the body */
	return cqe;
}

static void pib_hca_publish_consumer(struct pib_hca_cq *cq)
{
	dma_mb(); /* read the CQEs before the device may overwrite them */
	WRITE_ONCE(pib_hca_cq_header(cq)->consumer, cpu_to_le32(cq->consumer));
}

/* ---------------------------------------------------------------- polling -------------------- */

static const enum ib_wc_opcode pib_hca_send_opcodes[] = {
	[PIB_HCA_CQE_SEND] = IB_WC_SEND,
	[PIB_HCA_CQE_RDMA_WRITE] = IB_WC_RDMA_WRITE,
	[PIB_HCA_CQE_RDMA_READ] = IB_WC_RDMA_READ,
	[PIB_HCA_CQE_CMP_SWAP] = IB_WC_COMP_SWAP,
	[PIB_HCA_CQE_FETCH_ADD] = IB_WC_FETCH_ADD,
	[PIB_HCA_CQE_LOCAL_INV] = IB_WC_LOCAL_INV,
	[PIB_HCA_CQE_BIND_MW] = IB_WC_BIND_MW,
	[PIB_HCA_CQE_REG_MR] = IB_WC_REG_MR,
	[PIB_HCA_CQE_ATOMIC_WRITE] = IB_WC_ATOMIC_WRITE,
	[PIB_HCA_CQE_MASKED_CMP_SWAP] = IB_WC_MASKED_COMP_SWAP,
	[PIB_HCA_CQE_MASKED_FETCH_ADD] = IB_WC_MASKED_FETCH_ADD,
};

static enum ib_wc_opcode pib_hca_wc_opcode(u8 opcode)
{
	if (opcode == PIB_HCA_CQE_RECV_RDMA_WITH_IMM)
		return IB_WC_RECV_RDMA_WITH_IMM;
	if (opcode & PIB_HCA_CQE_IS_RECV)
		return IB_WC_RECV;
	return opcode < ARRAY_SIZE(pib_hca_send_opcodes) ? pib_hca_send_opcodes[opcode] :
							   IB_WC_SEND;
}

/*
 * Returns the QP if it completes at this CQ, else NULL: a faulty device may name any other QP. The
 * caller holds cq->lock, which pib_hca_cq_remove_qp() takes before such a QP is freed.
 */
static struct pib_hca_qp *pib_hca_find_qp(struct pib_hca_cq *cq, u32 qpn)
{
	struct xarray *qps = &to_pdev(cq->ibcq.device)->qps;
	struct pib_hca_qp *qp;

	xa_lock(qps); /* a QP in the array is not freed */
	qp = xa_load(qps, qpn);
	if (qp && (!READ_ONCE(qp->completes) ||
		   (qp->ibqp.send_cq != &cq->ibcq && qp->ibqp.recv_cq != &cq->ibcq)))
		qp = NULL;
	xa_unlock(qps);
	return qp;
}

/* Returns a CQE's QP; NULL if it has been destroyed: its last completions are dropped. */
static struct pib_hca_qp *pib_hca_cqe_qp(struct pib_hca_cq *cq, u32 qpn)
{
	if (!cq->last_qp || cq->last_qp->qpn != qpn)
		cq->last_qp = pib_hca_find_qp(cq, qpn);
	return cq->last_qp;
}

/* Returns the wr_id of a completed WQE; also retires the unsignaled WQEs before it. */
static u64 pib_hca_retire(struct pib_hca_wq *wq, u32 counter)
{
	u64 wr_id = wq->wr_ids[counter & (wq->depth - 1)];

	/* Read wr_id before a poster may reuse its slot. */
	smp_store_release(&wq->tail, counter + 1);
	return wr_id;
}

/* False for a WQE that has completed already or is not posted: a faulty device may name any WQE. */
static bool pib_hca_is_posted(struct pib_hca_wq *wq, u32 counter)
{
	u32 head = smp_load_acquire(&wq->head); /* acquire: reads the wr_ids stored before head */

	return counter - wq->tail < head - wq->tail;
}

/* Retires the work request of a CQE; false if no such work request is posted. */
static bool pib_hca_retire_cqe(struct pib_hca_cq *cq, struct pib_hca_qp *qp,
			       const struct pib_hca_cqe *cqe, u64 *wr_id)
{
	bool recv = cqe->opcode & PIB_HCA_CQE_IS_RECV;
	u32 counter = le32_to_cpu(cqe->wqe_counter);
	struct pib_hca_wq *wq;

	/* The lock of this CQ guards the tails of queues that complete here, and no others. */
	if ((recv ? qp->ibqp.recv_cq : qp->ibqp.send_cq) != &cq->ibcq)
		return false;
	if (cqe->flags & PIB_HCA_CQE_FLAG_SRQ) {
		return recv && qp->ibqp.srq &&
		       pib_hca_srq_retire(to_psrq(qp->ibqp.srq), counter, wr_id);
	}
	wq = recv ? &qp->rq : &qp->sq;
	if (!wq->depth || !wq->wr_ids || !pib_hca_is_posted(wq, counter))
		return false;
	*wr_id = pib_hca_retire(wq, counter);
	return true;
}

static bool pib_hca_fill_wc(struct pib_hca_cq *cq, const struct pib_hca_cqe *cqe, struct ib_wc *wc)
{
	struct pib_hca_qp *qp = pib_hca_cqe_qp(cq, le32_to_cpu(cqe->qpn));
	u64 wr_id;

	if (!qp || !pib_hca_retire_cqe(cq, qp, cqe, &wr_id))
		return false;

	memset(wc, 0, sizeof(*wc));
	wc->wr_id = wr_id;
	wc->qp = &qp->ibqp;
	wc->status = cqe->status;
	wc->opcode = pib_hca_wc_opcode(cqe->opcode);
	wc->vendor_err = cqe->vendor_error;
	wc->byte_len = le32_to_cpu(cqe->byte_count);
	wc->src_qp = le32_to_cpu(cqe->src_qp);
	wc->slid = le16_to_cpu(cqe->slid);
	wc->pkey_index = le16_to_cpu(cqe->pkey_index);
	wc->sl = cqe->sl;
	wc->dlid_path_bits = cqe->dlid_path_bits;
	wc->port_num = cqe->port;
	if (cqe->flags & PIB_HCA_CQE_FLAG_GRH)
		wc->wc_flags |= IB_WC_GRH;
	if (cqe->flags & PIB_HCA_CQE_FLAG_IMM) {
		wc->wc_flags |= IB_WC_WITH_IMM;
		wc->ex.imm_data = cqe->imm_data;
	} else if (cqe->flags & PIB_HCA_CQE_FLAG_INVALIDATED) {
		wc->wc_flags |= IB_WC_WITH_INVALIDATE;
		wc->ex.invalidate_rkey = le32_to_cpu((__force __le32)cqe->imm_data);
	}
	return true;
}

/* ---------------------------------------------------------------- without a device ----------- */

static int pib_hca_flush_wq(struct pib_hca_qp *qp, struct pib_hca_wq *wq, int room,
			    struct ib_wc *wc)
{
	u32 head = smp_load_acquire(&wq->head); /* acquire: reads the wr_ids stored before head */
	int filled;

	for (filled = 0; filled < room && wq->tail != head; filled++) {
		memset(&wc[filled], 0, sizeof(wc[filled]));
		wc[filled].wr_id = pib_hca_retire(wq, wq->tail);
		wc[filled].qp = &qp->ibqp;
		wc[filled].status = IB_WC_WR_FLUSH_ERR;
		wc[filled].opcode = wq == &qp->rq ? IB_WC_RECV : IB_WC_SEND;
	}
	return filled;
}

/*
 * A dead device completes nothing, but consumers wait for their posted work requests before they
 * leave, so the driver flushes these requests (IBA vol. 1, 10.3.1.7). cq->lock is held.
 */
static int pib_hca_flush_cq(struct pib_hca_cq *cq, int room, struct ib_wc *wc)
{
	struct pib_hca_qp *qp;
	int filled = 0;

	list_for_each_entry(qp, &cq->send_qps, send_entry)
		filled += pib_hca_flush_wq(qp, &qp->sq, room - filled, wc + filled);
	list_for_each_entry(qp, &cq->recv_qps, recv_entry)
		filled += pib_hca_flush_wq(qp, &qp->rq, room - filled, wc + filled);
	return filled;
}

static bool pib_hca_has_posted(const struct pib_hca_wq *wq)
{
	return READ_ONCE(wq->head) != wq->tail;
}

/* Returns whether pib_hca_flush_cq() finds a work request. cq->lock is held. */
static bool pib_hca_can_flush(struct pib_hca_cq *cq)
{
	struct pib_hca_qp *qp;

	list_for_each_entry(qp, &cq->send_qps, send_entry)
		if (pib_hca_has_posted(&qp->sq))
			return true;
	list_for_each_entry(qp, &cq->recv_qps, recv_entry)
		if (pib_hca_has_posted(&qp->rq))
			return true;
	return false;
}

int pib_hca_poll_cq(struct ib_cq *ibcq, int num_entries, struct ib_wc *wc)
{
	struct pib_hca_cq *cq = to_pcq(ibcq);
	struct pib_hca_cqe *cqe, copy;
	unsigned long flags;
	int polled = 0;
	u32 first;

	spin_lock_irqsave(&cq->lock, flags);
	first = cq->consumer;
	/* At most one pass: a faulty device may write CQEs that name no WQE without end. */
	while (polled < num_entries && cq->consumer - first < 1U << cq->log_depth &&
	       (cqe = pib_hca_valid_cqe(cq, cq->consumer))) {
		copy = *cqe; /* a faulty device may write the CQE again while it is checked */
		polled += pib_hca_fill_wc(cq, &copy, &wc[polled]);
		cq->consumer++;
	}
	if (cq->consumer != first)
		pib_hca_publish_consumer(cq);
	if (unlikely(pib_hca_is_quiet(to_pdev(ibcq->device))))
		polled += pib_hca_flush_cq(cq, num_entries - polled, wc + polled);
	spin_unlock_irqrestore(&cq->lock, flags);
	return polled;
}

int pib_hca_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	struct pib_hca_dev *dev = to_pdev(ibcq->device);
	struct pib_hca_cq *cq = to_pcq(ibcq);
	unsigned long irq_flags;
	bool pending;
	u64 value;

	spin_lock_irqsave(&cq->lock, irq_flags);
	pending = pib_hca_valid_cqe(cq, cq->consumer);
	/*
	 * A consumer that polled before the device was quiet polls again: pib_hca_flush_work() may
	 * have called its handler meanwhile, and irq_poll_sched() does nothing during a poll. The
	 * barrier pairs with that in pib_hca_cut_off(): the end of the poll is visible before the
	 * flag is loaded.
	 */
	smp_mb();
	if (unlikely(pib_hca_is_quiet(dev)))
		pending = pending || pib_hca_can_flush(cq);
	value = (u64)cq->consumer << PIB_HCA_DB_COUNTER_SHIFT | cq->cqn;
	spin_unlock_irqrestore(&cq->lock, irq_flags);

	/* A consumer that learns of missed events polls again, so it needs no event. */
	if (pending && (flags & IB_CQ_REPORT_MISSED_EVENTS))
		return 1;
	if ((flags & IB_CQ_SOLICITED_MASK) == IB_CQ_SOLICITED)
		value |= PIB_HCA_DB_CQ_SOLICITED;
	/*
	 * The device compares the counter with the CQEs that it has written. If there are newer
	 * ones when it sees the doorbell, it sends the event at once, so no event is lost.
	 */
	writeq(value, dev->uar0 + PIB_HCA_UAR_CQ_ARM);
	return 0;
}

/* ---------------------------------------------------------------- the QPs of a CQ ------------ */

static void pib_hca_lock_cqs(struct pib_hca_cq *a, struct pib_hca_cq *b)
	__acquires(&a->lock) __acquires(&b->lock)
{
	if (a == b) {
		spin_lock_irq(&a->lock);
		__acquire(&b->lock);
	} else if (a->cqn < b->cqn) {
		spin_lock_irq(&a->lock);
		spin_lock_nested(&b->lock, SINGLE_DEPTH_NESTING);
	} else {
		spin_lock_irq(&b->lock);
		spin_lock_nested(&a->lock, SINGLE_DEPTH_NESTING);
	}
}

static void pib_hca_unlock_cqs(struct pib_hca_cq *a, struct pib_hca_cq *b)
	__releases(&a->lock) __releases(&b->lock)
{
	if (a == b) {
		__release(&b->lock);
		spin_unlock_irq(&a->lock);
	} else if (a->cqn < b->cqn) {
		spin_unlock(&b->lock);
		spin_unlock_irq(&a->lock);
	} else {
		spin_unlock(&a->lock);
		spin_unlock_irq(&b->lock);
	}
}

/* Removes the QP's CQEs from the CQ; the other CQEs move up. cq->lock is held. */
static void pib_hca_clean_cq(struct pib_hca_cq *cq, struct pib_hca_qp *qp)
{
	u32 depth = 1U << cq->log_depth;
	u32 counter = cq->consumer;
	struct pib_hca_cqe *cqe;
	u32 dropped = 0;
	u64 wr_id;

	while (counter - cq->consumer < depth && pib_hca_valid_cqe(cq, counter))
		counter++;
	while (counter != cq->consumer) {
		cqe = pib_hca_cqe_at(cq, --counter);
		if (le32_to_cpu(cqe->qpn) == qp->qpn) {
			if (cqe->flags & PIB_HCA_CQE_FLAG_SRQ)
				pib_hca_retire_cqe(cq, qp, cqe, &wr_id);
			dropped++;
		} else if (dropped) { /* move the CQE without its owner bit */
			memcpy(pib_hca_cqe_at(cq, counter + dropped), cqe,
			       offsetof(struct pib_hca_cqe, owner));
		}
	}
	if (dropped) {
		cq->consumer += dropped;
		pib_hca_publish_consumer(cq);
	}
	cq->last_qp = NULL;
}

void pib_hca_cq_add_qp(struct pib_hca_qp *qp)
{
	struct pib_hca_cq *send_cq = to_pcq(qp->ibqp.send_cq);
	struct pib_hca_cq *recv_cq = to_pcq(qp->ibqp.recv_cq);

	pib_hca_lock_cqs(send_cq, recv_cq);
	list_add_tail(&qp->send_entry, &send_cq->send_qps);
	list_add_tail(&qp->recv_entry, &recv_cq->recv_qps);
	WRITE_ONCE(qp->completes, true);
	pib_hca_unlock_cqs(send_cq, recv_cq);
}

void pib_hca_cq_remove_qp(struct pib_hca_qp *qp)
{
	struct pib_hca_cq *send_cq = to_pcq(qp->ibqp.send_cq);
	struct pib_hca_cq *recv_cq = to_pcq(qp->ibqp.recv_cq);

	pib_hca_lock_cqs(send_cq, recv_cq);
	WRITE_ONCE(qp->completes, false);
	list_del(&qp->send_entry);
	list_del(&qp->recv_entry);
	pib_hca_clean_cq(send_cq, qp);
	if (recv_cq != send_cq)
		pib_hca_clean_cq(recv_cq, qp);
	pib_hca_unlock_cqs(send_cq, recv_cq);
}

void pib_hca_cq_reset_qp(struct pib_hca_qp *qp)
{
	struct pib_hca_cq *send_cq = to_pcq(qp->ibqp.send_cq);
	struct pib_hca_cq *recv_cq = to_pcq(qp->ibqp.recv_cq);

	pib_hca_lock_cqs(send_cq, recv_cq);
	pib_hca_clean_cq(send_cq, qp);
	if (recv_cq != send_cq)
		pib_hca_clean_cq(recv_cq, qp);
	pib_hca_reset_rings(qp);
	pib_hca_unlock_cqs(send_cq, recv_cq);
}

/* ---------------------------------------------------------------- create and destroy --------- */

static u64 pib_hca_cq_bytes(u8 log_depth)
{
	return PIB_HCA_QUEUE_HEADER_SIZE + ((u64)sizeof(struct pib_hca_cqe) << log_depth);
}

static int pib_hca_cq_mem_alloc(struct pib_hca_dev *dev, struct pib_hca_cq *cq, u32 entries,
				struct ib_udata *udata)
{
	struct pib_hca_create_cq_req req;
	u64 bytes;
	int ret;

	cq->log_depth = order_base_2(entries);
	if (udata) {
		ret = pib_hca_udata_in(udata, &req, sizeof(req));
		if (ret)
			return ret;
		if (memchr_inv(req.reserved, 0, sizeof(req.reserved)))
			return -EOPNOTSUPP;
		if (req.log_depth < cq->log_depth || req.log_depth > PIB_HCA_MAX_CQ_LOG_DEPTH)
			return -EINVAL;
		cq->log_depth = req.log_depth;
	}
	bytes = pib_hca_cq_bytes(cq->log_depth);
	return udata ? pib_hca_queue_mem_user(dev, &cq->mem, req.buf_addr, req.buf_length, bytes) :
		       pib_hca_queue_mem_kernel(dev, &cq->mem, bytes);
}

static int pib_hca_cq_create_cmd(struct pib_hca_dev *dev, struct pib_hca_cq *cq, u32 vector,
				 u32 uar)
{
	struct pib_hca_create_cq in = {
		.eqn = cpu_to_le32(dev->eqs[1 + vector].eqn),
		.uar = cpu_to_le32(uar),
		.log_depth = cq->log_depth,
	};
	struct pib_hca_page_table table = {};
	int ret;

	ret = pib_hca_queue_mem_table(dev, &table, &in.pages, &cq->mem);
	if (!ret)
		ret = pib_hca_cmd_create(dev, PIB_HCA_CMD_CREATE_CQ, &in, sizeof(in), &cq->cqn);
	pib_hca_table_free(dev, &table);
	return ret;
}

/* Ends all use of the CQ by event handlers and of its memory by the device. */
static void pib_hca_cq_withdraw(struct pib_hca_dev *dev, struct pib_hca_cq *cq)
{
	/* Leave the array first: after the command the device may give the number to another CQ. */
	xa_erase_irq(&dev->cqs, cq->cqn);
	pib_hca_cmd_destroy(dev, PIB_HCA_CMD_DESTROY_CQ, cq->cqn);
	/*
	 * Running handlers may have found the CQ already. Later handlers find nothing, because the
	 * device reuses a number only after the driver has taken the events that name it.
	 */
	pib_hca_eqs_sync(dev);
	pib_hca_ref_wait(&cq->ref);
}

int pib_hca_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		      struct ib_udata *udata)
{
	struct pib_hca_dev *dev = to_pdev(ibcq->device);
	struct pib_hca_create_cq_resp resp = {};
	struct pib_hca_cq *cq = to_pcq(ibcq);
	int ret;

	if (attr->flags)
		return -EOPNOTSUPP;
	if (attr->cqe < 1 || attr->cqe > le32_to_cpu(dev->caps.max_cqe) ||
	    attr->comp_vector >= dev->ibdev.num_comp_vectors)
		return -EINVAL;

	spin_lock_init(&cq->lock);
	mutex_init(&cq->mutex);
	INIT_LIST_HEAD(&cq->send_qps);
	INIT_LIST_HEAD(&cq->recv_qps);
	pib_hca_ref_init(&cq->ref);
	ret = pib_hca_cq_mem_alloc(dev, cq, attr->cqe, udata);
	if (ret)
		return ret;
	ibcq->cqe = 1 << cq->log_depth;
	ret = pib_hca_cq_create_cmd(dev, cq, attr->comp_vector, pib_hca_uar_of(udata));
	if (ret)
		goto err_mem;
	ret = xa_insert_irq(&dev->cqs, cq->cqn, cq, GFP_KERNEL);
	if (ret)
		goto err_cq;
	if (udata) {
		resp.cqn = cq->cqn;
		ret = pib_hca_udata_out(udata, &resp, sizeof(resp));
		if (ret)
			goto err_withdraw;
	}
	return 0;

err_withdraw:
	pib_hca_cq_withdraw(dev, cq);
	goto err_mem;
err_cq:
	pib_hca_cmd_destroy(dev, PIB_HCA_CMD_DESTROY_CQ, cq->cqn);
err_mem:
	pib_hca_queue_mem_free(dev, &cq->mem);
	return ret;
}

/* Sets the moderation of completion events, the only attribute that can be modified. */
int pib_hca_modify_cq(struct ib_cq *ibcq, u16 count, u16 period_us)
{
	struct pib_hca_moderate_cq in = {
		.count = cpu_to_le16(count),
		.period = cpu_to_le16(period_us),
	};

	return pib_hca_cmd_set(to_pdev(ibcq->device), PIB_HCA_CMD_MODERATE_CQ, to_pcq(ibcq)->cqn,
			       &in, sizeof(in));
}

int pib_hca_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct pib_hca_dev *dev = to_pdev(ibcq->device);
	struct pib_hca_cq *cq = to_pcq(ibcq);

	pib_hca_cq_withdraw(dev, cq);
	/*
	 * The core cancels the work of a CQ before it calls the driver, and a handler may have
	 * queued the work since. CQs of other kinds are no longer polled at this time.
	 */
	if (ibcq->poll_ctx == IB_POLL_WORKQUEUE || ibcq->poll_ctx == IB_POLL_UNBOUND_WORKQUEUE)
		cancel_work_sync(&ibcq->work);
	pib_hca_queue_mem_free(dev, &cq->mem);
	return 0;
}

/* ---------------------------------------------------------------- resize --------------------- */

static int pib_hca_cq_resize_cmd(struct pib_hca_dev *dev, struct pib_hca_cq *cq,
				 const struct pib_hca_queue_mem *mem, u8 log_depth)
{
	struct pib_hca_resize_cq in = { .log_depth = log_depth };
	struct pib_hca_page_table table = {};
	int ret;

	ret = pib_hca_queue_mem_table(dev, &table, &in.pages, mem);
	if (!ret)
		ret = pib_hca_cmd_set(dev, PIB_HCA_CMD_RESIZE_CQ, cq->cqn, &in, sizeof(in));
	pib_hca_table_free(dev, &table);
	return ret;
}

/* Resizes a process's CQ. The device moves waiting CQEs; the provider does not poll meanwhile. */
int pib_hca_resize_cq(struct ib_cq *ibcq, unsigned int entries, struct ib_udata *udata)
{
	struct pib_hca_dev *dev = to_pdev(ibcq->device);
	struct pib_hca_cq *cq = to_pcq(ibcq);
	struct pib_hca_queue_mem mem = {};
	struct pib_hca_resize_cq_req req;
	int ret;

	if (!udata) /* the driver does not resize kernel CQs */
		return -EOPNOTSUPP;
	if (entries < 1 || entries > le32_to_cpu(dev->caps.max_cqe))
		return -EINVAL;
	ret = pib_hca_udata_in(udata, &req, sizeof(req));
	if (ret)
		return ret;
	if (memchr_inv(req.reserved, 0, sizeof(req.reserved)))
		return -EOPNOTSUPP;
	if (req.log_depth < order_base_2(entries) || req.log_depth > PIB_HCA_MAX_CQ_LOG_DEPTH)
		return -EINVAL;
	ret = pib_hca_queue_mem_user(dev, &mem, req.buf_addr, req.buf_length,
				     pib_hca_cq_bytes(req.log_depth));
	if (ret)
		return ret;
	mutex_lock(&cq->mutex);
	ret = pib_hca_cq_resize_cmd(dev, cq, &mem, req.log_depth);
	if (!ret) {
		swap(cq->mem, mem);
		cq->log_depth = req.log_depth;
		ibcq->cqe = 1 << cq->log_depth;
	}
	mutex_unlock(&cq->mutex);
	pib_hca_queue_mem_free(dev, &mem);
	return ret;
}
