// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory windows (IBA vol. 1, 10.6.7). Work requests bind windows of type 2. For type 1 the verb
 * ibv_bind_mw() posts the work request and chooses the new R_Key.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>

#include "wqe.h"

struct ibv_mw *pib_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ib_uverbs_alloc_mw_resp resp;
	struct ibv_alloc_mw cmd;
	struct ibv_mw *mw;
	int ret;

	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return NULL;
	ret = ibv_cmd_alloc_mw(pd, type, mw, &cmd, sizeof(cmd), &resp, sizeof(resp));
	if (ret) {
		free(mw);
		errno = ret;
		return NULL;
	}
	return mw;
}

int pib_dealloc_mw(struct ibv_mw *mw)
{
	int ret;

	ret = ibv_cmd_dealloc_mw(mw);
	if (ret)
		return ret;
	free(mw);
	return 0;
}

int pib_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind)
{
	const struct pib_send_op *op = pib_find_send_op(ibqp->qp_type, IBV_WR_BIND_MW);
	struct pib_qp *qp = to_pqp(ibqp);
	uint32_t head, rkey;
	void *wqe;
	int ret;

	if (!op || !pib_sq_can_post(qp))
		return EINVAL;
	pthread_spin_lock(&qp->sq.lock);
	head = qp->sq.head;
	wqe = pib_wqe_at(&qp->sq, head);
	ret = pib_wq_full(&qp->sq, head) ?
		      ENOMEM :
		      pib_wqe_put_control(wqe, op, mw_bind->send_flags, 0);
	if (ret) {
		pthread_spin_unlock(&qp->sq.lock);
		return ret;
	}
	/* The lock also keeps two binds of a window in the order of their keys. */
	rkey = ibv_inc_rkey(mw->rkey);
	pib_wqe_put_bind(wqe, rkey, &mw_bind->bind_info);
	qp->sq.wr_ids[head & (qp->sq.depth - 1)] = mw_bind->wr_id;
	mw->rkey = rkey;
	pib_sq_publish(qp, head + 1);
	return 0;
}
