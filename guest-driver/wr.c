// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Posting the kernel's work requests (IBA vol. 1, 11.4.1): WQEs, producer counters, doorbells. */
#include "pib_hca.h"

enum pib_hca_segment {
	PIB_HCA_SEGMENT_NONE,
	PIB_HCA_SEGMENT_RDMA,
	PIB_HCA_SEGMENT_ATOMIC,
	PIB_HCA_SEGMENT_KEY,
	PIB_HCA_SEGMENT_REG,
};

/* Transport services that have an operation (IBA vol. 1, table 81). */
#define PIB_HCA_ON_RC BIT(0)
#define PIB_HCA_ON_UC BIT(1)
#define PIB_HCA_ON_UD BIT(2)
#define PIB_HCA_ON_CONNECTED (PIB_HCA_ON_RC | PIB_HCA_ON_UC)
#define PIB_HCA_ON_ALL (PIB_HCA_ON_CONNECTED | PIB_HCA_ON_UD)

/* One row for each opcode. */
static const struct pib_hca_send_op {
	u8 services;
	bool has_imm;
	bool allows_inline;
	u8 opcode;
	u8 segment;
} pib_hca_send_ops[] = {
	[IB_WR_SEND] = { PIB_HCA_ON_ALL, false, true,
		PIB_HCA_WQE_SEND, PIB_HCA_SEGMENT_NONE },
	[IB_WR_SEND_WITH_IMM] = { PIB_HCA_ON_ALL, true, true,
		PIB_HCA_WQE_SEND_WITH_IMM, PIB_HCA_SEGMENT_NONE },
	[IB_WR_RDMA_WRITE] = { PIB_HCA_ON_CONNECTED, false, true,
		PIB_HCA_WQE_RDMA_WRITE, PIB_HCA_SEGMENT_RDMA },
	[IB_WR_RDMA_WRITE_WITH_IMM] = { PIB_HCA_ON_CONNECTED, true, true,
		PIB_HCA_WQE_RDMA_WRITE_WITH_IMM, PIB_HCA_SEGMENT_RDMA },
	[IB_WR_RDMA_READ] = { PIB_HCA_ON_RC, false, false,
		PIB_HCA_WQE_RDMA_READ, PIB_HCA_SEGMENT_RDMA },
	[IB_WR_ATOMIC_CMP_AND_SWP] = { PIB_HCA_ON_RC, false, false,
		PIB_HCA_WQE_CMP_SWAP, PIB_HCA_SEGMENT_ATOMIC },
	[IB_WR_ATOMIC_FETCH_AND_ADD] = { PIB_HCA_ON_RC, false, false,
		PIB_HCA_WQE_FETCH_ADD, PIB_HCA_SEGMENT_ATOMIC },
	[IB_WR_MASKED_ATOMIC_CMP_AND_SWP] = { PIB_HCA_ON_RC, false, false,
		PIB_HCA_WQE_MASKED_CMP_SWAP, PIB_HCA_SEGMENT_ATOMIC },
	[IB_WR_MASKED_ATOMIC_FETCH_AND_ADD] = { PIB_HCA_ON_RC, false, false,
		PIB_HCA_WQE_MASKED_FETCH_ADD, PIB_HCA_SEGMENT_ATOMIC },
	[IB_WR_ATOMIC_WRITE] = { PIB_HCA_ON_RC, false, true,
		PIB_HCA_WQE_ATOMIC_WRITE, PIB_HCA_SEGMENT_RDMA },
	[IB_WR_SEND_WITH_INV] = { PIB_HCA_ON_RC, false, true,
		PIB_HCA_WQE_SEND_WITH_INV, PIB_HCA_SEGMENT_NONE },
	[IB_WR_LOCAL_INV] = { PIB_HCA_ON_CONNECTED, false, false,
		PIB_HCA_WQE_LOCAL_INV, PIB_HCA_SEGMENT_KEY },
	[IB_WR_REG_MR] = { PIB_HCA_ON_CONNECTED, false, false,
		PIB_HCA_WQE_REG_MR, PIB_HCA_SEGMENT_REG },
};

#define PIB_HCA_UD_DATA_OFFSET \
	(sizeof(struct pib_hca_wqe_control) + sizeof(struct pib_hca_wqe_ud))
#define PIB_HCA_RDMA_DATA_OFFSET \
	(sizeof(struct pib_hca_wqe_control) + sizeof(struct pib_hca_wqe_rdma))
#define PIB_HCA_ATOMIC_DATA_OFFSET \
	(sizeof(struct pib_hca_wqe_control) + sizeof(struct pib_hca_wqe_atomic))

static u32 pib_hca_max_data_offset(enum ib_qp_type type)
{
	return pib_hca_qp_is_datagram(type) ? PIB_HCA_UD_DATA_OFFSET : PIB_HCA_RDMA_DATA_OFFSET;
}

u32 pib_hca_send_wqe_size(enum ib_qp_type type, u32 max_sge, u32 max_inline)
{
	u32 size = pib_hca_max_data_offset(type) + max_sge * sizeof(struct pib_hca_sge);

	/* max_inline counts from the end of the longest header (pib_hca_create_qp.max_inline). */
	size = max_t(u32, size, PIB_HCA_UD_DATA_OFFSET + max_inline);
	/* An atomic has one SGE, but a longer header. Other WQEs use the greater size for SGEs. */
	if (type == IB_QPT_RC)
		size = max_t(u32, size, PIB_HCA_ATOMIC_DATA_OFFSET + sizeof(struct pib_hca_sge));
	return size;
}

u32 pib_hca_send_max_sge(enum ib_qp_type type, u32 stride)
{
	return (stride - pib_hca_max_data_offset(type)) / sizeof(struct pib_hca_sge);
}

static struct pib_hca_qp_header *pib_hca_qp_header(struct pib_hca_qp *qp)
{
	return pib_hca_buf_at(&qp->mem.buf, 0);
}

void pib_hca_reset_rings(struct pib_hca_qp *qp)
{
	struct pib_hca_qp_header *header = pib_hca_qp_header(qp);

	qp->sq.head = 0;
	qp->sq.tail = 0;
	qp->rq.head = 0;
	qp->rq.tail = 0;
	WRITE_ONCE(header->sq_producer, 0);
	WRITE_ONCE(header->rq_producer, 0);
}

static void *pib_hca_wqe_at(struct pib_hca_qp *qp, struct pib_hca_wq *wq, u32 counter)
{
	size_t index = counter & (wq->depth - 1);

	return pib_hca_buf_at(&qp->mem.buf, wq->offset + (index << wq->log_stride));
}

static bool pib_hca_wq_full(struct pib_hca_wq *wq, u32 head)
{
	/* Pairs with the release in pib_hca_retire(). */
	return head - smp_load_acquire(&wq->tail) >= wq->depth;
}

static void pib_hca_put_sges(struct pib_hca_sge *to, const struct ib_sge *from, int count)
{
	int i;

	for (i = 0; i < count; i++) {
		to[i].addr = cpu_to_le64(from[i].addr);
		to[i].length = cpu_to_le32(from[i].length);
		to[i].lkey = cpu_to_le32(from[i].lkey);
	}
}

/* ---------------------------------------------------------------- send ----------------------- */

static u32 pib_hca_put_rdma(void *segment, const struct ib_send_wr *wr)
{
	struct pib_hca_wqe_rdma *rdma = segment;

	rdma->remote_addr = cpu_to_le64(rdma_wr(wr)->remote_addr);
	rdma->rkey = cpu_to_le32(rdma_wr(wr)->rkey);
	rdma->reserved = 0;
	return sizeof(*rdma);
}

static u32 pib_hca_put_atomic(void *segment, const struct ib_send_wr *wr)
{
	bool is_swap = wr->opcode == IB_WR_ATOMIC_CMP_AND_SWP ||
		       wr->opcode == IB_WR_MASKED_ATOMIC_CMP_AND_SWP;
	bool is_masked = wr->opcode == IB_WR_MASKED_ATOMIC_CMP_AND_SWP ||
			 wr->opcode == IB_WR_MASKED_ATOMIC_FETCH_AND_ADD;
	const struct ib_atomic_wr *from = atomic_wr(wr);
	struct pib_hca_wqe_atomic *atomic = segment;

	memset(atomic, 0, sizeof(*atomic));
	atomic->remote_addr = cpu_to_le64(from->remote_addr);
	atomic->rkey = cpu_to_le32(from->rkey);
	atomic->swap_or_add = cpu_to_le64(is_swap ? from->swap : from->compare_add);
	atomic->compare = cpu_to_le64(is_swap ? from->compare_add : 0);
	if (is_masked) {
		atomic->swap_mask = cpu_to_le64(is_swap ? from->swap_mask : 0);
		atomic->compare_mask = cpu_to_le64(from->compare_add_mask);
	}
	return sizeof(*atomic);
}

static u32 pib_hca_put_key(void *segment, const struct ib_send_wr *wr)
{
	struct pib_hca_wqe_key *key = segment;

	memset(key, 0, sizeof(*key));
	key->key = cpu_to_le32(wr->ex.invalidate_rkey);
	return sizeof(*key);
}

static u32 pib_hca_put_reg(void *segment, const struct ib_send_wr *wr)
{
	const struct ib_reg_wr *from = container_of(wr, struct ib_reg_wr, wr);
	const struct pib_hca_mr *mr = to_pmr(from->mr);
	struct pib_hca_wqe_reg *reg = segment;

	memset(reg, 0, sizeof(*reg));
	reg->key = cpu_to_le32(from->key);
	reg->access = cpu_to_le32(from->access & ~PIB_HCA_ACCESS_HINTS);
	reg->iova = cpu_to_le64(mr->ibmr.iova);
	reg->length = cpu_to_le64(mr->ibmr.length);
	reg->page_offset = cpu_to_le32(mr->ibmr.iova & (mr->ibmr.page_size - 1));
	pib_hca_table_view(&mr->fast_table, &reg->pages, mr->fast_pages, mr->ibmr.page_size);
	return sizeof(*reg);
}

static u32 pib_hca_put_ud(struct pib_hca_qp *qp, void *segment, const struct ib_send_wr *wr)
{
	const struct ib_ud_wr *from = ud_wr(wr);
	struct pib_hca_wqe_ud *ud = segment;

	memset(ud, 0, sizeof(*ud));
	ud->av = to_pah(from->ah)->av;
	ud->dest_qpn = cpu_to_le32(from->remote_qpn);
	ud->qkey = cpu_to_le32(from->remote_qkey);
	if (qp->ibqp.qp_type == IB_QPT_GSI)
		ud->pkey_index = cpu_to_le16(from->pkey_index);
	return sizeof(*ud);
}

/* Functions that write the segment before the data on connected QPs and return its length. */
static u32 (*const pib_hca_put_segment[])(void *segment, const struct ib_send_wr *wr) = {
	[PIB_HCA_SEGMENT_NONE] = NULL,
	[PIB_HCA_SEGMENT_RDMA] = pib_hca_put_rdma,
	[PIB_HCA_SEGMENT_ATOMIC] = pib_hca_put_atomic,
	[PIB_HCA_SEGMENT_KEY] = pib_hca_put_key,
	[PIB_HCA_SEGMENT_REG] = pib_hca_put_reg,
};

static int pib_hca_put_inline(struct pib_hca_qp *qp, void *to, const struct ib_send_wr *wr)
{
	u32 length = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		const struct ib_sge *sge = &wr->sg_list[i];

		if (sge->length > qp->max_inline - length)
			return -EINVAL;
		memcpy(to + length, (void *)(uintptr_t)sge->addr, sge->length);
		length += sge->length;
	}
	return length;
}

static u8 pib_hca_wqe_flags(const struct pib_hca_qp *qp, const struct ib_send_wr *wr)
{
	return (qp->signal_all || (wr->send_flags & IB_SEND_SIGNALED) ? PIB_HCA_WQE_SIGNALED : 0) |
	       (wr->send_flags & IB_SEND_SOLICITED ? PIB_HCA_WQE_SOLICITED : 0) |
	       (wr->send_flags & IB_SEND_FENCE ? PIB_HCA_WQE_FENCE : 0) |
	       (wr->send_flags & IB_SEND_INLINE ? PIB_HCA_WQE_INLINE : 0);
}

static bool pib_hca_sges_fit(const struct pib_hca_qp *qp, const struct pib_hca_send_op *op,
			     const struct ib_send_wr *wr)
{
	switch (op->segment) {
	case PIB_HCA_SEGMENT_ATOMIC:
		return wr->num_sge == 1 && qp->sq.max_sge;
	case PIB_HCA_SEGMENT_KEY:
	case PIB_HCA_SEGMENT_REG:
		return wr->num_sge == 0;
	default:
		return wr->num_sge >= 0 && wr->num_sge <= qp->sq.max_sge;
	}
}

static u8 pib_hca_service_of(enum ib_qp_type type)
{
	if (pib_hca_qp_is_datagram(type))
		return PIB_HCA_ON_UD;
	return type == IB_QPT_UC ? PIB_HCA_ON_UC : PIB_HCA_ON_RC;
}

static const struct pib_hca_send_op *pib_hca_find_send_op(const struct pib_hca_qp *qp,
							  const struct ib_send_wr *wr)
{
	const struct pib_hca_send_op *op;

	if (wr->opcode >= ARRAY_SIZE(pib_hca_send_ops))
		return NULL;
	op = &pib_hca_send_ops[wr->opcode];
	return op->services & pib_hca_service_of(qp->ibqp.qp_type) ? op : NULL;
}

static int pib_hca_put_data(struct pib_hca_qp *qp, struct pib_hca_wqe_control *control, void *to,
			    const struct ib_send_wr *wr)
{
	int length;

	if (!(wr->send_flags & IB_SEND_INLINE)) {
		control->num_sge = wr->num_sge;
		pib_hca_put_sges(to, wr->sg_list, wr->num_sge);
		return 0;
	}
	length = pib_hca_put_inline(qp, to, wr);
	if (length < 0)
		return length;
	control->inline_length = cpu_to_le32(length);
	return 0;
}

static int pib_hca_build_send(struct pib_hca_qp *qp, void *wqe, const struct ib_send_wr *wr)
{
	const struct pib_hca_send_op *op = pib_hca_find_send_op(qp, wr);
	struct pib_hca_wqe_control *control = wqe;
	void *next = control + 1;

	if (!op || !pib_hca_sges_fit(qp, op, wr) ||
	    ((wr->send_flags & IB_SEND_INLINE) && !op->allows_inline))
		return -EINVAL;

	memset(control, 0, sizeof(*control));
	control->opcode = op->opcode;
	control->flags = pib_hca_wqe_flags(qp, wr);
	if (op->has_imm)
		control->imm_data = wr->ex.imm_data;
	else if (op->opcode == PIB_HCA_WQE_SEND_WITH_INV)
		control->imm_data = (__force __be32)cpu_to_le32(wr->ex.invalidate_rkey);
	if (pib_hca_qp_is_datagram(qp->ibqp.qp_type))
		next += pib_hca_put_ud(qp, next, wr);
	else if (pib_hca_put_segment[op->segment])
		next += pib_hca_put_segment[op->segment](next, wr);
	return pib_hca_put_data(qp, control, next, wr);
}

/*
 * Stores the WQEs, and head, before the counter that gives them to the device: pib_hca_is_posted()
 * must know a work request when its completion comes.
 */
static void pib_hca_set_producer(struct pib_hca_wq *wq, __le32 *producer, u32 head)
{
	/* Release: pairs with the acquires in cq.c, before wr_ids are read. */
	smp_store_release(&wq->head, head);
	dma_wmb();
	WRITE_ONCE(*producer, cpu_to_le32(head));
}

/* Flushes work requests posted to a dead device; pib_hca_cut_off() flushes earlier ones. */
static void pib_hca_flush_if_dead(struct pib_hca_dev *dev)
{
	smp_mb(); /* store head, then load the flag; a flush loads head after the flag is set */
	if (unlikely(pib_hca_is_dead(dev)))
		schedule_work(&dev->flush_work);
}

int pib_hca_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		      const struct ib_send_wr **bad_wr)
{
	struct pib_hca_dev *dev = to_pdev(ibqp->device);
	struct pib_hca_qp *qp = to_pqp(ibqp);
	struct pib_hca_wq *wq = &qp->sq;
	unsigned long flags;
	u32 first, head;
	int ret = 0;

	/* C10-97: a send is refused in Reset, Init and RTR; later states queue or flush it. */
	if (!wq->depth || READ_ONCE(qp->state) < IB_QPS_RTS) {
		*bad_wr = wr;
		return -EINVAL;
	}
	spin_lock_irqsave(&wq->lock, flags);
	first = wq->head;
	for (head = first; wr; wr = wr->next, head++) {
		ret = pib_hca_wq_full(wq, head) ?
			      -ENOMEM :
			      pib_hca_build_send(qp, pib_hca_wqe_at(qp, wq, head), wr);
		if (ret) {
			*bad_wr = wr;
			break;
		}
		wq->wr_ids[head & (wq->depth - 1)] = wr->wr_id;
	}
	if (head != first)
		pib_hca_set_producer(wq, &pib_hca_qp_header(qp)->sq_producer, head);
	spin_unlock_irqrestore(&wq->lock, flags);

	/*
	 * The device may execute WQEs inside this store, so the lock is released first. The device
	 * reads the counter itself, so the order of two doorbells does not matter. The counter is
	 * ordered before the doorbell.
	 */
	if (head != first) {
		pib_hca_ring_send(dev, qp->qpn);
		pib_hca_flush_if_dead(dev);
	}
	return ret;
}

/* ---------------------------------------------------------------- receive -------------------- */

void pib_hca_put_recv(struct pib_hca_recv_wqe *wqe, const struct ib_recv_wr *wr, u32 id)
{
	memset(wqe, 0, sizeof(*wqe));
	wqe->num_sge = cpu_to_le32(wr->num_sge);
	wqe->id = cpu_to_le32(id);
	pib_hca_put_sges((struct pib_hca_sge *)(wqe + 1), wr->sg_list, wr->num_sge);
}

static int pib_hca_build_recv(struct pib_hca_qp *qp, struct pib_hca_recv_wqe *wqe,
			      const struct ib_recv_wr *wr)
{
	if (wr->num_sge < 0 || wr->num_sge > qp->rq.max_sge)
		return -EINVAL;
	pib_hca_put_recv(wqe, wr, 0);
	return 0;
}

static void pib_hca_notify_recv(struct pib_hca_dev *dev, struct pib_hca_qp *qp)
{
	/*
	 * The device sets the flag and then reads the producer; the driver stores the producer and
	 * then reads the flag. With a full barrier between the two, one side sees the other's
	 * store.
	 */
	mb();
	if (le32_to_cpu(READ_ONCE(pib_hca_qp_header(qp)->flags)) & PIB_HCA_QP_HEADER_RECV_NOTIFY)
		writel(qp->qpn, dev->uar0 + PIB_HCA_UAR_RECV);
}

int pib_hca_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		      const struct ib_recv_wr **bad_wr)
{
	struct pib_hca_dev *dev = to_pdev(ibqp->device);
	struct pib_hca_qp *qp = to_pqp(ibqp);
	struct pib_hca_wq *wq = &qp->rq;
	unsigned long flags;
	u32 first, head;
	int ret = 0;

	if (!wq->depth || READ_ONCE(qp->state) == IB_QPS_RESET) {
		*bad_wr = wr;
		return -EINVAL;
	}
	spin_lock_irqsave(&wq->lock, flags);
	first = wq->head;
	for (head = first; wr; wr = wr->next, head++) {
		ret = pib_hca_wq_full(wq, head) ?
			      -ENOMEM :
			      pib_hca_build_recv(qp, pib_hca_wqe_at(qp, wq, head), wr);
		if (ret) {
			*bad_wr = wr;
			break;
		}
		wq->wr_ids[head & (wq->depth - 1)] = wr->wr_id;
	}
	if (head != first)
		pib_hca_set_producer(wq, &pib_hca_qp_header(qp)->rq_producer, head);
	spin_unlock_irqrestore(&wq->lock, flags);

	if (head != first) {
		pib_hca_notify_recv(dev, qp);
		pib_hca_flush_if_dead(dev);
	}
	return ret;
}
