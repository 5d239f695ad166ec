// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Posting work requests (IBA vol. 1, 11.4.1). WQEs are written into the ring, the producer counter
 * in the queue's header gives them to the device, and a doorbell wakes it.
 */
#include <config.h>

#include <errno.h>

#include "doorbell.h"
#include "wqe.h"

static void pib_set_producer(__le32 *producer, uint32_t head)
{
	/* Stores WQEs and their data before the counter that gives them to the device. */
	udma_to_device_barrier();
	atomic_store_explicit((_Atomic(uint32_t) *)producer, htole32(head),
			      memory_order_relaxed);
}

/* C10-97: in Reset, Init and RTR a send is refused at once; later states queue or flush it. */
bool pib_sq_can_post(const struct pib_qp *qp)
{
	return qp->sq.depth && qp->verbs_qp.qp.state >= IBV_QPS_RTS;
}

void pib_sq_publish(struct pib_qp *qp, uint32_t head)
{
	struct pib_context *ctx = to_pctx(qp->verbs_qp.qp.context);
	bool ring = head != qp->sq.head;

	if (ring) {
		qp->sq.head = head;
		pib_set_producer(&qp->header->sq_producer, head);
	}
	pthread_spin_unlock(&qp->sq.lock);
	/*
	 * The device may execute WQEs inside this store, so the lock is released first. The device
	 * reads the counter itself, so the order of two doorbells does not matter.
	 */
	if (ring) {
		udma_to_device_barrier();
		pib_ring_send(ctx, qp->qpn);
	}
}

static int pib_put_inline(struct pib_qp *qp, void *wqe, const struct pib_send_op *op,
			  const struct ibv_send_wr *wr)
{
	void *to = wqe + op->data_offset;
	uint32_t length = 0;
	int i;

	if (wr->num_sge < 0)
		return EINVAL;
	for (i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		if (sge->length > qp->max_inline_data - length)
			return EINVAL;
		memcpy(to + length, (void *)(uintptr_t)sge->addr, sge->length);
		length += sge->length;
	}
	pib_wqe_set_inline(wqe, length);
	return 0;
}

static int pib_put_data(struct pib_qp *qp, void *wqe, const struct pib_send_op *op,
			const struct ibv_send_wr *wr)
{
	if (wr->send_flags & IBV_SEND_INLINE)
		return pib_put_inline(qp, wqe, op, wr);
	if (wr->num_sge < 0 || wr->num_sge > qp->sq.max_sge)
		return EINVAL;
	pib_put_sges(wqe + op->data_offset, wr->sg_list, wr->num_sge);
	pib_wqe_set_num_sge(wqe, wr->num_sge);
	return 0;
}

static void pib_put_segment(void *wqe, const struct pib_send_op *op,
			    const struct ibv_send_wr *wr)
{
	bool is_swap = op->opcode == PIB_HCA_WQE_CMP_SWAP;

	switch (op->segment) {
	case PIB_SEGMENT_RDMA:
		pib_wqe_put_rdma(wqe, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case PIB_SEGMENT_ATOMIC:
		pib_wqe_put_atomic(wqe, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
				   is_swap ? wr->wr.atomic.swap :
					     wr->wr.atomic.compare_add,
				   is_swap ? wr->wr.atomic.compare_add : 0);
		break;
	case PIB_SEGMENT_UD:
		pib_wqe_put_ud(wqe, wr->wr.ud.ah, wr->wr.ud.remote_qpn,
			       wr->wr.ud.remote_qkey);
		break;
	case PIB_SEGMENT_KEY:
		pib_wqe_put_key(wqe, wr->invalidate_rkey);
		break;
	case PIB_SEGMENT_BIND:
		pib_wqe_put_bind(wqe, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
		break;
	case PIB_SEGMENT_FLUSH: /* only by ibv_wr_flush() */
		break;
	case PIB_SEGMENT_NONE:
		if (op->opcode == PIB_HCA_WQE_SEND_WITH_INV)
			pib_wqe_put_invalidate(wqe, wr->invalidate_rkey);
		break;
	}
}

static int pib_build_send(struct pib_qp *qp, void *wqe, const struct ibv_send_wr *wr)
{
	const struct pib_send_op *op =
		pib_find_send_op(qp->verbs_qp.qp.qp_type, wr->opcode);
	int ret;

	/* struct ibv_send_wr has no fields for a FLUSH. */
	if (!op || op->segment == PIB_SEGMENT_FLUSH)
		return EINVAL;
	/* Only ibv_bind_mw() binds windows of type 1 (IBA 11.2.8.10). */
	if (op->segment == PIB_SEGMENT_BIND && wr->bind_mw.mw->type != IBV_MW_TYPE_2)
		return EINVAL;
	ret = pib_wqe_put_control(wqe, op, wr->send_flags, wr->imm_data);
	if (ret)
		return ret;
	if (qp->verbs_qp.qp.qp_type == IBV_QPT_XRC_SEND)
		pib_wqe_put_srqn(wqe, wr->qp_type.xrc.remote_srqn);
	pib_put_segment(wqe, op, wr);
	return op->no_data ? 0 : pib_put_data(qp, wqe, op, wr);
}

int pib_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
		  struct ibv_send_wr **bad_wr)
{
	struct pib_qp *qp = to_pqp(ibqp);
	uint32_t head;
	int ret = 0;

	if (!pib_sq_can_post(qp)) {
		*bad_wr = wr;
		return EINVAL;
	}
	pthread_spin_lock(&qp->sq.lock);
	for (head = qp->sq.head; wr; wr = wr->next, head++) {
		ret = pib_wq_full(&qp->sq, head) ?
			      ENOMEM :
			      pib_build_send(qp, pib_wqe_at(&qp->sq, head), wr);
		if (ret) {
			*bad_wr = wr;
			break;
		}
		qp->sq.wr_ids[head & (qp->sq.depth - 1)] = wr->wr_id;
	}
	/* Post the work requests before the bad one. */
	pib_sq_publish(qp, head);
	return ret;
}

static int pib_build_recv(struct pib_qp *qp, void *wqe, const struct ibv_recv_wr *wr)
{
	if (wr->num_sge < 0 || wr->num_sge > qp->rq.max_sge)
		return EINVAL;
	pib_wqe_put_recv(wqe, wr, 0);
	return 0;
}

static void pib_rq_publish(struct pib_qp *qp, uint32_t head)
{
	struct pib_context *ctx = to_pctx(qp->verbs_qp.qp.context);
	__le32 flags;

	qp->rq.head = head;
	pib_set_producer(&qp->header->rq_producer, head);
	/*
	 * The device sets RECV_NOTIFY and then reads the producer; here the producer is stored and
	 * then the flag is read. A full fence between the two, which no udma barrier is, makes sure
	 * that at least one side sees the other's store.
	 */
	pib_full_barrier();
	flags = atomic_load_explicit((_Atomic(uint32_t) *)&qp->header->flags,
				     memory_order_relaxed);
	if (le32toh(flags) & PIB_HCA_QP_HEADER_RECV_NOTIFY)
		pib_ring_recv(ctx, qp->qpn);
}

int pib_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
		  struct ibv_recv_wr **bad_wr)
{
	struct pib_qp *qp = to_pqp(ibqp);
	uint32_t head;
	int ret = 0;

	if (!qp->rq.depth || ibqp->state == IBV_QPS_RESET) {
		*bad_wr = wr;
		return EINVAL;
	}
	pthread_spin_lock(&qp->rq.lock);
	for (head = qp->rq.head; wr; wr = wr->next, head++) {
		ret = pib_wq_full(&qp->rq, head) ?
			      ENOMEM :
			      pib_build_recv(qp, pib_wqe_at(&qp->rq, head), wr);
		if (ret) {
			*bad_wr = wr;
			break;
		}
		qp->rq.wr_ids[head & (qp->rq.depth - 1)] = wr->wr_id;
	}
	if (head != qp->rq.head)
		pib_rq_publish(qp, head);
	pthread_spin_unlock(&qp->rq.lock);
	return ret;
}
