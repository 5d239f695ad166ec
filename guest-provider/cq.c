// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completion queues (IBA vol. 1, 11.4.2): a ring of CQEs that the device fills. A CQE is
 * software's when its owner bit has the value of the present pass over the ring.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "doorbell.h"
#include "compat.h"
#include "pib.h"
#include "pib-abi.h"

static struct pib_hca_cqe *pib_cqe_at(struct pib_cq *cq, uint32_t counter)
{
	return &cq->cqes[counter & ((1u << cq->log_depth) - 1)];
}

/* Returns the CQE of this counter if the device has written it, else NULL. */
static struct pib_hca_cqe *pib_cqe_if_valid(struct pib_cq *cq, uint32_t counter)
{
	struct pib_hca_cqe *cqe = pib_cqe_at(cq, counter);
	uint8_t owner = atomic_load_explicit((_Atomic(uint8_t) *)&cqe->owner,
					     memory_order_relaxed);
	/* 1 in the first pass, then 0, and so on. */
	uint8_t expected = (counter >> cq->log_depth & 1) ^ PIB_HCA_OWNER_BIT;

	return (owner & PIB_HCA_OWNER_BIT) == expected ? cqe : NULL;
}

bool pib_cq_is_polled_here(struct pib_cq *cq)
{
	return pthread_equal(atomic_load_explicit(&cq->poller, memory_order_relaxed),
			     pthread_self());
}

void pib_cq_lock(struct pib_cq *cq)
{
	if (!pib_cq_is_polled_here(cq))
		pthread_spin_lock(&cq->lock);
}

bool pib_cq_trylock(struct pib_cq *cq)
{
	return pib_cq_is_polled_here(cq) || !pthread_spin_trylock(&cq->lock);
}

void pib_cq_unlock(struct pib_cq *cq)
{
	if (!pib_cq_is_polled_here(cq))
		pthread_spin_unlock(&cq->lock);
}

struct pib_hca_cqe *pib_cq_next(struct pib_cq *cq)
{
	struct pib_hca_cqe *cqe = pib_cqe_if_valid(cq, cq->consumer);

	if (cqe)
		udma_from_device_barrier(); /* read the owner bit before the body */
	return cqe;
}

void pib_cq_publish_consumer(struct pib_cq *cq)
{
	/*
	 * Release, because udma_to_device_barrier() orders stores only: the loads of the CQEs must
	 * be complete before the device may overwrite them.
	 */
	atomic_store_explicit((_Atomic(uint32_t) *)&cq->header->consumer,
			      htole32(cq->consumer), memory_order_release);
}

/* Returns a CQE's QP; NULL if it has been destroyed or does not complete at this CQ. */
static struct pib_qp *pib_cqe_qp(struct pib_cq *cq, uint32_t qpn)
{
	if (!cq->last_qp || cq->last_qp->qpn != qpn)
		cq->last_qp = pib_table_find(&to_pctx(cq->verbs_cq.cq.context)->qps, qpn, cq);
	return cq->last_qp;
}

/*
 * The SRQ from which a CQE's WQE was taken, or NULL. A QP of this process names its SRQ; an XRC SRQ
 * is looked up by number, because its QP may belong to another process.
 */
static struct pib_srq *pib_cqe_srq(struct pib_cq *cq, const struct pib_hca_cqe *cqe,
				   const struct pib_qp *qp)
{
	if (qp)
		return qp->verbs_qp.qp.srq ? to_psrq(qp->verbs_qp.qp.srq) : NULL;
	return pib_table_find(&to_pctx(cq->verbs_cq.cq.context)->xrc_srqs, le32toh(cqe->srqn), cq);
}

bool pib_cq_retire(struct pib_cq *cq, const struct pib_hca_cqe *cqe, uint64_t *wr_id)
{
	struct pib_qp *qp = pib_cqe_qp(cq, le32toh(cqe->qpn));
	uint32_t counter = le32toh(cqe->wqe_counter);
	struct pib_srq *srq;
	struct pib_wq *wq;

	if (cqe->flags & PIB_HCA_CQE_FLAG_SRQ) {
		srq = pib_cqe_srq(cq, cqe, qp);
		return srq && pib_srq_retire(srq, counter, wr_id);
	}
	if (!qp)
		return false;
	wq = cqe->opcode & PIB_HCA_CQE_IS_RECV ? &qp->rq : &qp->sq;
	if (!wq->depth)
		return false;
	*wr_id = wq->wr_ids[counter & (wq->depth - 1)];
	/*
	 * Work requests complete in order, so this one retires the unsignaled ones before it.
	 * Release: the slot of wr_ids has been read before a poster may reuse it.
	 */
	atomic_store_explicit(&wq->tail, counter + 1, memory_order_release);
	return true;
}

enum ibv_wc_opcode pib_wc_opcode(const struct pib_hca_cqe *cqe)
{
	static const enum ibv_wc_opcode send_opcodes[] = {
		[PIB_HCA_CQE_SEND] = IBV_WC_SEND,
		[PIB_HCA_CQE_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
		[PIB_HCA_CQE_RDMA_READ] = IBV_WC_RDMA_READ,
		[PIB_HCA_CQE_CMP_SWAP] = IBV_WC_COMP_SWAP,
		[PIB_HCA_CQE_FETCH_ADD] = IBV_WC_FETCH_ADD,
		[PIB_HCA_CQE_LOCAL_INV] = IBV_WC_LOCAL_INV,
		[PIB_HCA_CQE_BIND_MW] = IBV_WC_BIND_MW,
#ifdef PIB_HAVE_FLUSH
		[PIB_HCA_CQE_FLUSH] = IBV_WC_FLUSH,
#endif
#ifdef PIB_HAVE_ATOMIC_WRITE
		[PIB_HCA_CQE_ATOMIC_WRITE] = IBV_WC_ATOMIC_WRITE,
#endif
	};

	/* Read once: the device may write again between a check and its use. */
	uint8_t opcode = atomic_load_explicit((_Atomic(uint8_t) *)&cqe->opcode,
					      memory_order_relaxed);

	if (opcode == PIB_HCA_CQE_RECV_RDMA_WITH_IMM)
		return IBV_WC_RECV_RDMA_WITH_IMM;
	if (opcode & PIB_HCA_CQE_IS_RECV)
		return IBV_WC_RECV;
	return opcode < ARRAY_SIZE(send_opcodes) ? send_opcodes[opcode] : IBV_WC_SEND;
}

unsigned int pib_wc_flags(const struct pib_hca_cqe *cqe)
{
	return (cqe->flags & PIB_HCA_CQE_FLAG_GRH ? IBV_WC_GRH : 0) |
	       (cqe->flags & PIB_HCA_CQE_FLAG_IMM ? IBV_WC_WITH_IMM : 0) |
	       (cqe->flags & PIB_HCA_CQE_FLAG_INVALIDATED ? IBV_WC_WITH_INV : 0);
}

/* One field of struct ibv_wc has immediate data, in wire order, or an R_Key, in host order. */
__be32 pib_wc_imm_data(const struct pib_hca_cqe *cqe)
{
	if (cqe->flags & PIB_HCA_CQE_FLAG_INVALIDATED)
		return (__force __be32)le32toh((__force __le32)cqe->imm_data);
	return cqe->imm_data;
}

static void pib_fill_wc(struct ibv_wc *wc, const struct pib_hca_cqe *cqe)
{
	wc->status = cqe->status;
	wc->opcode = pib_wc_opcode(cqe);
	wc->vendor_err = cqe->vendor_error;
	wc->byte_len = le32toh(cqe->byte_count);
	wc->imm_data = pib_wc_imm_data(cqe);
	wc->qp_num = le32toh(cqe->qpn);
	wc->src_qp = le32toh(cqe->src_qp);
	wc->wc_flags = pib_wc_flags(cqe);
	wc->pkey_index = le16toh(cqe->pkey_index);
	wc->slid = le16toh(cqe->slid);
	wc->sl = cqe->sl;
	wc->dlid_path_bits = cqe->dlid_path_bits;
}

int pib_poll_cq(struct ibv_cq *ibcq, int num_entries, struct ibv_wc *wc)
{
	struct pib_cq *cq = to_pcq(ibcq);
	struct pib_hca_cqe *cqe;
	uint32_t first;
	int polled = 0;

	pthread_spin_lock(&cq->lock);
	first = cq->consumer;
	while (polled < num_entries && (cqe = pib_cq_next(cq))) {
		if (pib_cq_retire(cq, cqe, &wc[polled].wr_id))
			pib_fill_wc(&wc[polled++], cqe);
		cq->consumer++;
	}
	if (cq->consumer != first)
		pib_cq_publish_consumer(cq);
	pthread_spin_unlock(&cq->lock);
	return polled;
}

/* The counter of the first CQE that this processor does not see written yet. */
static uint32_t pib_cq_end(struct pib_cq *cq)
{
	uint32_t counter = cq->consumer;

	while (counter - cq->consumer < 1u << cq->log_depth &&
	       pib_cqe_if_valid(cq, counter))
		counter++;
	return counter;
}

int pib_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct pib_cq *cq = to_pcq(ibcq);
	uint32_t end;

	/*
	 * Only CQEs added from now on raise the event (IBA 11.4.2.2). If waiting CQEs raised it
	 * too, a program that polls one CQE per event would fall behind. The device compares the
	 * counter with the CQEs it has written, so a CQE that it writes between this read and the
	 * doorbell still raises the event.
	 */
	pib_cq_lock(cq);
	end = pib_cq_end(cq);
	/* The lock is held until after the doorbell, because a resize restarts the counters. */
	pib_ring_cq_arm(to_pctx(ibcq->context), cq->cqn, end, solicited_only);
	pib_cq_unlock(cq);
	return 0;
}

/* An object whose completions are dropped: a QP or, with `qp` NULL, an XRC SRQ. */
struct pib_leaver {
	struct pib_qp *qp;
	uint32_t srqn;
};

static bool pib_cqe_leaves(const struct pib_hca_cqe *cqe, const struct pib_leaver *leaver)
{
	if (leaver->qp)
		return le32toh(cqe->qpn) == leaver->qp->qpn;
	return (cqe->flags & PIB_HCA_CQE_FLAG_SRQ) && le32toh(cqe->srqn) == leaver->srqn;
}

/*
 * Drops the CQEs of `leaver`, except the one that this thread is reading: start_poll() has retired
 * that CQE, and end_poll() consumes it.
 */
static void pib_cq_drop(struct pib_cq *cq, const struct pib_leaver *leaver)
{
	bool reading = pib_cq_is_polled_here(cq);
	struct pib_hca_cqe *cqe;
	struct pib_srq *srq;
	uint64_t wr_id;
	uint32_t counter = cq->consumer;
	uint32_t dropped = 0;

	while (counter - cq->consumer < 1u << cq->log_depth && pib_cqe_if_valid(cq, counter))
		counter++;
	udma_from_device_barrier();

	/* Moves the CQEs that stay over the dropped ones, from the newest to the oldest. */
	while (counter != cq->consumer) {
		cqe = pib_cqe_at(cq, --counter);
		if (!(reading && counter == cq->consumer) && pib_cqe_leaves(cqe, leaver)) {
			/* The CQE is never polled: free its WQE's id here. */
			srq = leaver->qp ? pib_cqe_srq(cq, cqe, leaver->qp) : NULL;
			if (srq && (cqe->flags & PIB_HCA_CQE_FLAG_SRQ))
				pib_srq_retire(srq, le32toh(cqe->wqe_counter), &wr_id);
			dropped++;
		} else if (dropped) {
			memcpy(pib_cqe_at(cq, counter + dropped), cqe,
			       offsetof(struct pib_hca_cqe, owner));
		}
	}
	if (dropped) {
		cq->consumer += dropped;
		pib_cq_publish_consumer(cq);
		if (reading)
			cq->cur_cqe = pib_cqe_at(cq, cq->consumer);
	}
}

void pib_cq_clean(struct pib_cq *cq, struct pib_qp *qp)
{
	const struct pib_leaver leaver = { .qp = qp };

	if (cq->last_qp == qp)
		cq->last_qp = NULL;
	pib_cq_drop(cq, &leaver);
}

void pib_cq_clean_srq(struct pib_cq *cq, uint32_t srqn)
{
	const struct pib_leaver leaver = { .srqn = srqn };

	pib_cq_drop(cq, &leaver);
}

static int pib_cq_alloc_buf(struct pib_context *ctx, struct ibv_pd *pd, struct pib_buf *buf,
			    uint8_t log_depth)
{
	return pib_alloc_buf(ctx, pd, PIB_RESOURCE_CQ, buf, sizeof(struct pib_hca_cq_header) +
			     (sizeof(struct pib_hca_cqe) << log_depth));
}

static void pib_cq_use_buf(struct pib_cq *cq, const struct pib_buf *buf, uint8_t log_depth)
{
	cq->buf = *buf;
	cq->log_depth = log_depth;
	cq->header = buf->addr;
	cq->cqes = buf->addr + PIB_HCA_QUEUE_HEADER_SIZE;
}

int pib_cq_init_rings(struct pib_context *ctx, struct pib_cq *cq, struct ibv_pd *pd, uint32_t cqe)
{
	struct pib_buf buf;
	int ret;

	if (!cqe || cqe > ctx->max_cqe)
		return EINVAL;
	ret = pib_cq_alloc_buf(ctx, pd, &buf, ilog32(cqe - 1));
	if (ret)
		return ret;
	pib_cq_use_buf(cq, &buf, ilog32(cqe - 1));
	pthread_spin_init(&cq->lock, PTHREAD_PROCESS_PRIVATE);
	return 0;
}

void pib_cq_free_rings(struct pib_cq *cq)
{
	pthread_spin_destroy(&cq->lock);
	pib_free_buf(&cq->buf);
}

static void pib_fill_create_cq(struct pib_hca_create_cq_req *req, const struct pib_cq *cq)
{
	req->buf_addr = (uintptr_t)cq->buf.addr;
	req->buf_length = cq->buf.length;
	req->log_depth = cq->log_depth;
}

struct ibv_cq *pib_create_cq(struct ibv_context *context, int cqe,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	struct pib_create_cq_resp resp = {};
	struct pib_create_cq cmd = {};
	struct pib_cq *cq;
	int ret;

	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return NULL;
	ret = pib_cq_init_rings(to_pctx(context), cq, NULL, cqe);
	if (ret)
		goto err_free;

	pib_fill_create_cq(&cmd.drv_payload, cq);
	ret = ibv_cmd_create_cq(context, 1 << cq->log_depth, channel, comp_vector,
				&cq->verbs_cq.cq, &cmd.ibv_cmd, sizeof(cmd),
				&resp.ibv_resp, sizeof(resp));
	if (ret)
		goto err_rings;
	cq->cqn = resp.drv_payload.cqn;
	return &cq->verbs_cq.cq;

err_rings:
	pib_cq_free_rings(cq);
err_free:
	free(cq);
	errno = ret;
	return NULL;
}

static struct ibv_pd *pib_cq_domain(const struct ibv_cq_init_attr_ex *attr)
{
	return attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ? attr->parent_domain : NULL;
}

static int pib_check_cq_attr_ex(const struct ibv_cq_init_attr_ex *attr)
{
	if (!check_comp_mask(attr->comp_mask,
			     IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD))
		return EOPNOTSUPP;
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) &&
	    !pib_parent_domain(attr->parent_domain))
		return EINVAL;
	/* Every CQ has a lock; a CQ of a single thread merely does not need it. */
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
	    (attr->flags & ~IBV_CREATE_CQ_ATTR_SINGLE_THREADED))
		return EOPNOTSUPP;
	return pib_cq_wc_flags_supported(attr->wc_flags) ? 0 : EOPNOTSUPP;
}

struct ibv_cq_ex *pib_create_cq_ex(struct ibv_context *context,
				   struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_init_attr_ex kernel_attr = *attr;
	struct pib_create_cq_ex_resp resp = {};
	struct pib_create_cq_ex cmd = {};
	struct pib_cq *cq;
	int ret;

	ret = pib_check_cq_attr_ex(attr);
	if (ret)
		goto err;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return NULL;
	ret = pib_cq_init_rings(to_pctx(context), cq, pib_cq_domain(attr), attr->cqe);
	if (ret)
		goto err_free;

	/* The kernel knows neither which fields are read nor parent domains. */
	kernel_attr.wc_flags = 0;
	kernel_attr.comp_mask &= ~IBV_CQ_INIT_ATTR_MASK_PD;
	kernel_attr.cqe = 1 << cq->log_depth;
	pib_fill_create_cq(&cmd.drv_payload, cq);
	ret = pib_compat_create_cq_ex(context, &kernel_attr, &cq->verbs_cq, &cmd.ibv_cmd,
				      sizeof(cmd), &resp.ibv_resp, sizeof(resp));
	if (ret)
		goto err_rings;
	cq->cqn = resp.drv_payload.cqn;
	pib_cq_set_poll_ops(cq, attr->wc_flags);
	return &cq->verbs_cq.cq_ex;

err_rings:
	pib_cq_free_rings(cq);
err_free:
	free(cq);
err:
	errno = ret;
	return NULL;
}

int pib_modify_cq(struct ibv_cq *ibcq, struct ibv_modify_cq_attr *attr)
{
	struct ibv_modify_cq cmd;

	return ibv_cmd_modify_cq(ibcq, attr, &cmd, sizeof(cmd));
}

int pib_destroy_cq(struct ibv_cq *ibcq)
{
	struct pib_cq *cq = to_pcq(ibcq);
	int ret;

	ret = ibv_cmd_destroy_cq(ibcq);
	if (ret)
		return ret;
	pib_cq_free_rings(cq);
	free(cq);
	return 0;
}

/*
 * The lock is held: polling and arming wait while the device moves CQEs to the new buffer. On
 * success *buf becomes the old one.
 */
static int pib_resize_locked(struct pib_cq *cq, struct pib_buf *buf, uint8_t log_depth)
{
	struct ib_uverbs_resize_cq_resp resp = {};
	struct pib_resize_cq cmd = {};
	struct pib_buf old = cq->buf;
	int ret;

	cmd.drv_payload.buf_addr = (uintptr_t)buf->addr;
	cmd.drv_payload.buf_length = buf->length;
	cmd.drv_payload.log_depth = log_depth;
	ret = ibv_cmd_resize_cq(&cq->verbs_cq.cq, 1 << log_depth, &cmd.ibv_cmd, sizeof(cmd),
				&resp, sizeof(resp));
	if (ret)
		return ret;
	pib_cq_use_buf(cq, buf, log_depth);
	cq->consumer = 0;
	*buf = old;
	return 0;
}

/* Called without the lock: a parent domain's allocator may poll this CQ. */
int pib_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct pib_context *ctx = to_pctx(ibcq->context);
	struct pib_cq *cq = to_pcq(ibcq);
	struct pib_buf buf;
	uint8_t log_depth;
	int ret;

	if (cqe < 1 || cqe > (int)ctx->max_cqe)
		return EINVAL;
	if (pib_cq_is_polled_here(cq))
		return EBUSY;
	log_depth = ilog32(cqe - 1);
	ret = pib_cq_alloc_buf(ctx, cq->buf.domain ? &cq->buf.domain->ibv_pd : NULL, &buf,
			       log_depth);
	if (ret)
		return ret;
	pthread_spin_lock(&cq->lock);
	ret = pib_resize_locked(cq, &buf, log_depth);
	pthread_spin_unlock(&cq->lock);
	pib_free_buf(&buf);
	return ret;
}
