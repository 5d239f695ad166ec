// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Posting by builder and setter functions (ibv_wr_start() to ibv_wr_complete()). After an error,
 * ibv_wr_complete() returns the first one and publishes no WQE of the batch.
 */
#include <config.h>

#include <errno.h>

#include "wqe.h"

static struct pib_qp *to_pqp_ex(struct ibv_qp_ex *qp_ex)
{
	return container_of(qp_ex, struct pib_qp, verbs_qp.qp_ex);
}

static void pib_wr_start(struct ibv_qp_ex *qp_ex)
{
	struct pib_qp *qp = to_pqp_ex(qp_ex);

	pthread_spin_lock(&qp->sq.lock);
	qp->ex_head = qp->sq.head;
	qp->ex_error = pib_sq_can_post(qp) ? 0 : EINVAL;
	qp->ex_wqe = NULL;
}

static int pib_wr_complete(struct ibv_qp_ex *qp_ex)
{
	struct pib_qp *qp = to_pqp_ex(qp_ex);
	int error = qp->ex_error;

	pib_sq_publish(qp, error ? qp->sq.head : qp->ex_head);
	return error;
}

static void pib_wr_abort(struct ibv_qp_ex *qp_ex)
{
	pthread_spin_unlock(&to_pqp_ex(qp_ex)->sq.lock);
}

/* The WQE of a new work request with its control segment, NULL after an error. */
static void *pib_ex_begin(struct pib_qp *qp, enum ibv_wr_opcode opcode, __be32 imm_data)
{
	struct ibv_qp_ex *qp_ex = &qp->verbs_qp.qp_ex;
	const struct pib_send_op *op;
	void *wqe;

	if (qp->ex_error)
		return NULL;
	if (pib_wq_full(&qp->sq, qp->ex_head)) {
		qp->ex_error = ENOMEM;
		return NULL;
	}
	/* `op` is not NULL: only the builders of the QP's own operations are installed. */
	op = pib_find_send_op(qp->verbs_qp.qp.qp_type, opcode);
	wqe = pib_wqe_at(&qp->sq, qp->ex_head);
	qp->ex_error = pib_wqe_put_control(wqe, op, qp_ex->wr_flags & ~IBV_SEND_INLINE,
					   imm_data);
	if (qp->ex_error)
		return NULL;
	qp->sq.wr_ids[qp->ex_head & (qp->sq.depth - 1)] = qp_ex->wr_id;
	qp->ex_head++;
	qp->ex_wqe = wqe;
	qp->ex_data_offset = op->data_offset;
	qp->ex_inline_allowed = op->may_inline;
	return wqe;
}

static void pib_wr_send(struct ibv_qp_ex *qp_ex)
{
	pib_ex_begin(to_pqp_ex(qp_ex), IBV_WR_SEND, 0);
}

static void pib_wr_send_imm(struct ibv_qp_ex *qp_ex, __be32 imm_data)
{
	pib_ex_begin(to_pqp_ex(qp_ex), IBV_WR_SEND_WITH_IMM, imm_data);
}

static void pib_ex_rdma(struct ibv_qp_ex *qp_ex, enum ibv_wr_opcode opcode, uint32_t rkey,
			uint64_t remote_addr, __be32 imm_data)
{
	void *wqe = pib_ex_begin(to_pqp_ex(qp_ex), opcode, imm_data);

	if (wqe)
		pib_wqe_put_rdma(wqe, rkey, remote_addr);
}

static void pib_wr_rdma_write(struct ibv_qp_ex *qp_ex, uint32_t rkey, uint64_t remote_addr)
{
	pib_ex_rdma(qp_ex, IBV_WR_RDMA_WRITE, rkey, remote_addr, 0);
}

static void pib_wr_rdma_write_imm(struct ibv_qp_ex *qp_ex, uint32_t rkey,
				  uint64_t remote_addr, __be32 imm_data)
{
	pib_ex_rdma(qp_ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr, imm_data);
}

static void pib_wr_rdma_read(struct ibv_qp_ex *qp_ex, uint32_t rkey, uint64_t remote_addr)
{
	pib_ex_rdma(qp_ex, IBV_WR_RDMA_READ, rkey, remote_addr, 0);
}

static void pib_wr_atomic_cmp_swp(struct ibv_qp_ex *qp_ex, uint32_t rkey,
				  uint64_t remote_addr, uint64_t compare, uint64_t swap)
{
	void *wqe = pib_ex_begin(to_pqp_ex(qp_ex), IBV_WR_ATOMIC_CMP_AND_SWP, 0);

	if (wqe)
		pib_wqe_put_atomic(wqe, rkey, remote_addr, swap, compare);
}

static void pib_wr_atomic_fetch_add(struct ibv_qp_ex *qp_ex, uint32_t rkey,
				    uint64_t remote_addr, uint64_t add)
{
	void *wqe = pib_ex_begin(to_pqp_ex(qp_ex), IBV_WR_ATOMIC_FETCH_AND_ADD, 0);

	if (wqe)
		pib_wqe_put_atomic(wqe, rkey, remote_addr, add, 0);
}

static void pib_wr_send_inv(struct ibv_qp_ex *qp_ex, uint32_t invalidate_rkey)
{
	void *wqe = pib_ex_begin(to_pqp_ex(qp_ex), IBV_WR_SEND_WITH_INV, 0);

	if (wqe)
		pib_wqe_put_invalidate(wqe, invalidate_rkey);
}

static void pib_wr_local_inv(struct ibv_qp_ex *qp_ex, uint32_t invalidate_rkey)
{
	void *wqe = pib_ex_begin(to_pqp_ex(qp_ex), IBV_WR_LOCAL_INV, 0);

	if (wqe)
		pib_wqe_put_key(wqe, invalidate_rkey);
}

static void pib_wr_bind_mw(struct ibv_qp_ex *qp_ex, struct ibv_mw *mw, uint32_t rkey,
			   const struct ibv_mw_bind_info *bind_info)
{
	struct pib_qp *qp = to_pqp_ex(qp_ex);
	void *wqe;

	if (!qp->ex_error && mw->type != IBV_MW_TYPE_2)
		qp->ex_error = EINVAL;
	wqe = pib_ex_begin(qp, IBV_WR_BIND_MW, 0);
	if (wqe)
		pib_wqe_put_bind(wqe, rkey, bind_info);
}

static void pib_wr_set_xrc_srqn(struct ibv_qp_ex *qp_ex, uint32_t remote_srqn)
{
	struct pib_qp *qp = to_pqp_ex(qp_ex);

	if (!qp->ex_error)
		pib_wqe_put_srqn(qp->ex_wqe, remote_srqn);
}

#ifdef PIB_HAVE_FLUSH
static void pib_wr_flush(struct ibv_qp_ex *qp_ex, uint32_t rkey, uint64_t remote_addr,
			 size_t length, uint8_t type, uint8_t level)
{
	struct pib_qp *qp = to_pqp_ex(qp_ex);
	void *wqe;

	if (!qp->ex_error && level != IBV_FLUSH_MR && length > UINT32_MAX)
		qp->ex_error = EINVAL;
	wqe = pib_ex_begin(qp, IBV_WR_FLUSH, 0);
	if (wqe)
		pib_wqe_put_flush(wqe, rkey, remote_addr, length, type, level);
}

#define PIB_FLUSH_OP IBV_QP_EX_WITH_FLUSH
#else
#define PIB_FLUSH_OP 0
#endif

#ifdef PIB_HAVE_ATOMIC_WRITE
static void pib_wr_atomic_write(struct ibv_qp_ex *qp_ex, uint32_t rkey,
				uint64_t remote_addr, const void *atomic_wr)
{
	struct pib_qp *qp = to_pqp_ex(qp_ex);
	void *wqe = pib_ex_begin(qp, IBV_WR_ATOMIC_WRITE, 0);

	if (!wqe)
		return;
	pib_wqe_put_rdma(wqe, rkey, remote_addr);
	memcpy(wqe + qp->ex_data_offset, atomic_wr, sizeof(uint64_t));
	pib_wqe_set_inline(wqe, sizeof(uint64_t));
	/* The WQE has its data already: refuse more. */
	qp->ex_data_offset = 0;
	qp->ex_inline_allowed = false;
}

#define PIB_ATOMIC_WRITE_OP IBV_QP_EX_WITH_ATOMIC_WRITE
#else
#define PIB_ATOMIC_WRITE_OP 0
#endif

static void pib_wr_set_ud_addr(struct ibv_qp_ex *qp_ex, struct ibv_ah *ah,
			       uint32_t remote_qpn, uint32_t remote_qkey)
{
	struct pib_qp *qp = to_pqp_ex(qp_ex);

	if (!qp->ex_error)
		pib_wqe_put_ud(qp->ex_wqe, ah, remote_qpn, remote_qkey);
}

static void pib_wr_set_sge_list(struct ibv_qp_ex *qp_ex, size_t num_sge,
				const struct ibv_sge *sg_list)
{
	struct pib_qp *qp = to_pqp_ex(qp_ex);

	if (qp->ex_error)
		return;
	/* Offset 0: the operation has no data, or the builder has written it. */
	if (num_sge > qp->sq.max_sge || !qp->ex_data_offset) {
		qp->ex_error = EINVAL;
		return;
	}
	pib_put_sges(qp->ex_wqe + qp->ex_data_offset, sg_list, num_sge);
	pib_wqe_set_num_sge(qp->ex_wqe, num_sge);
}

static void pib_wr_set_sge(struct ibv_qp_ex *qp_ex, uint32_t lkey, uint64_t addr,
			   uint32_t length)
{
	const struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

	pib_wr_set_sge_list(qp_ex, 1, &sge);
}

static void pib_wr_set_inline_data_list(struct ibv_qp_ex *qp_ex, size_t num_buf,
					const struct ibv_data_buf *buf_list)
{
	struct pib_qp *qp = to_pqp_ex(qp_ex);
	uint32_t length = 0;
	size_t i;

	if (qp->ex_error)
		return;
	if (!qp->ex_inline_allowed)
		goto err;
	for (i = 0; i < num_buf; i++) {
		if (buf_list[i].length > qp->max_inline_data - length)
			goto err;
		memcpy(qp->ex_wqe + qp->ex_data_offset + length, buf_list[i].addr,
		       buf_list[i].length);
		length += buf_list[i].length;
	}
	pib_wqe_set_inline(qp->ex_wqe, length);
	return;

err:
	qp->ex_error = EINVAL;
}

static void pib_wr_set_inline_data(struct ibv_qp_ex *qp_ex, void *addr, size_t length)
{
	const struct ibv_data_buf buf = { .addr = addr, .length = length };

	pib_wr_set_inline_data_list(qp_ex, 1, &buf);
}

#define PIB_UD_SEND_OPS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define PIB_UC_SEND_OPS                                                                \
	(PIB_UD_SEND_OPS | IBV_QP_EX_WITH_RDMA_WRITE |                                 \
	 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV |               \
	 IBV_QP_EX_WITH_BIND_MW)
#define PIB_RC_SEND_OPS                                                                \
	(PIB_UC_SEND_OPS | PIB_FLUSH_OP | PIB_ATOMIC_WRITE_OP | IBV_QP_EX_WITH_RDMA_READ | \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |     \
	 IBV_QP_EX_WITH_SEND_WITH_INV)

uint64_t pib_send_ops_supported(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_UD:
		return PIB_UD_SEND_OPS;
	case IBV_QPT_UC:
		return PIB_UC_SEND_OPS;
	default:
		return PIB_RC_SEND_OPS;
	}
}

void pib_qp_set_wr_ops(struct pib_qp *qp)
{
	struct ibv_qp_ex *qp_ex = &qp->verbs_qp.qp_ex;

	qp_ex->wr_start = pib_wr_start;
	qp_ex->wr_complete = pib_wr_complete;
	qp_ex->wr_abort = pib_wr_abort;
	qp_ex->wr_send = pib_wr_send;
	qp_ex->wr_send_imm = pib_wr_send_imm;
	qp_ex->wr_set_sge = pib_wr_set_sge;
	qp_ex->wr_set_sge_list = pib_wr_set_sge_list;
	qp_ex->wr_set_inline_data = pib_wr_set_inline_data;
	qp_ex->wr_set_inline_data_list = pib_wr_set_inline_data_list;
	if (qp->verbs_qp.qp.qp_type == IBV_QPT_UD) {
		qp_ex->wr_set_ud_addr = pib_wr_set_ud_addr;
		return;
	}
	qp_ex->wr_rdma_write = pib_wr_rdma_write;
	qp_ex->wr_rdma_write_imm = pib_wr_rdma_write_imm;
	qp_ex->wr_local_inv = pib_wr_local_inv;
	qp_ex->wr_bind_mw = pib_wr_bind_mw;
	if (qp->verbs_qp.qp.qp_type == IBV_QPT_UC)
		return;
	if (qp->verbs_qp.qp.qp_type == IBV_QPT_XRC_SEND)
		qp_ex->wr_set_xrc_srqn = pib_wr_set_xrc_srqn;
	qp_ex->wr_rdma_read = pib_wr_rdma_read;
	qp_ex->wr_atomic_cmp_swp = pib_wr_atomic_cmp_swp;
	qp_ex->wr_atomic_fetch_add = pib_wr_atomic_fetch_add;
	qp_ex->wr_send_inv = pib_wr_send_inv;
#ifdef PIB_HAVE_FLUSH
	qp_ex->wr_flush = pib_wr_flush;
#endif
#ifdef PIB_HAVE_ATOMIC_WRITE
	qp_ex->wr_atomic_write = pib_wr_atomic_write;
#endif
}
