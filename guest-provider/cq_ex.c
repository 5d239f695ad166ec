// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Extended CQs: polling without copying, by start_poll, next_poll and read functions. */
#include <config.h>

#include <errno.h>

#include "pib.h"

#define PIB_WC_FLAGS                                                                   \
	(IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM |        \
	 IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL |             \
	 IBV_WC_EX_WITH_DLID_PATH_BITS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |         \
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

bool pib_cq_wc_flags_supported(uint64_t wc_flags)
{
	return !(wc_flags & ~(uint64_t)PIB_WC_FLAGS);
}

static struct pib_cq *to_pcq_ex(struct ibv_cq_ex *cq_ex)
{
	return container_of(cq_ex, struct pib_cq, verbs_cq.cq_ex);
}

/* Makes the next CQE the current one; 0 or ENOENT. The lock is held. */
static int pib_load_cqe(struct pib_cq *cq)
{
	struct ibv_cq_ex *cq_ex = &cq->verbs_cq.cq_ex;
	struct pib_hca_cqe *cqe;

	while ((cqe = pib_cq_next(cq))) {
		if (pib_cq_retire(cq, cqe, &cq_ex->wr_id)) {
			cq->cur_cqe = cqe;
			cq_ex->status = cqe->status;
			return 0;
		}
		cq->consumer++;
	}
	return ENOENT;
}

static int pib_start_poll(struct ibv_cq_ex *cq_ex, struct ibv_poll_cq_attr *attr)
{
	struct pib_cq *cq = to_pcq_ex(cq_ex);
	uint32_t first;

	if (attr->comp_mask)
		return EINVAL;
	if (pib_cq_is_polled_here(cq)) /* end_poll() has not been called */
		return EBUSY;
	pthread_spin_lock(&cq->lock);
	first = cq->consumer;
	if (!pib_load_cqe(cq)) {
		atomic_store_explicit(&cq->poller, pthread_self(), memory_order_relaxed);
		return 0;
	}
	if (cq->consumer != first)
		pib_cq_publish_consumer(cq);
	pthread_spin_unlock(&cq->lock);
	return ENOENT;
}

static int pib_next_poll(struct ibv_cq_ex *cq_ex)
{
	struct pib_cq *cq = to_pcq_ex(cq_ex);
	int ret;

	cq->consumer++;
	ret = pib_load_cqe(cq);
	if (ret)
		cq->consumer--; /* end_poll() consumes the last CQE */
	return ret;
}

static void pib_end_poll(struct ibv_cq_ex *cq_ex)
{
	struct pib_cq *cq = to_pcq_ex(cq_ex);

	cq->consumer++;
	pib_cq_publish_consumer(cq);
	atomic_store_explicit(&cq->poller, 0, memory_order_relaxed);
	pthread_spin_unlock(&cq->lock);
}

static enum ibv_wc_opcode pib_read_opcode(struct ibv_cq_ex *cq_ex)
{
	return pib_wc_opcode(to_pcq_ex(cq_ex)->cur_cqe);
}

static uint32_t pib_read_vendor_err(struct ibv_cq_ex *cq_ex)
{
	return to_pcq_ex(cq_ex)->cur_cqe->vendor_error;
}

static unsigned int pib_read_wc_flags(struct ibv_cq_ex *cq_ex)
{
	return pib_wc_flags(to_pcq_ex(cq_ex)->cur_cqe);
}

static uint32_t pib_read_byte_len(struct ibv_cq_ex *cq_ex)
{
	return le32toh(to_pcq_ex(cq_ex)->cur_cqe->byte_count);
}

static __be32 pib_read_imm_data(struct ibv_cq_ex *cq_ex)
{
	return pib_wc_imm_data(to_pcq_ex(cq_ex)->cur_cqe);
}

static uint32_t pib_read_qp_num(struct ibv_cq_ex *cq_ex)
{
	return le32toh(to_pcq_ex(cq_ex)->cur_cqe->qpn);
}

static uint32_t pib_read_src_qp(struct ibv_cq_ex *cq_ex)
{
	return le32toh(to_pcq_ex(cq_ex)->cur_cqe->src_qp);
}

static uint32_t pib_read_slid(struct ibv_cq_ex *cq_ex)
{
	return le16toh(to_pcq_ex(cq_ex)->cur_cqe->slid);
}

static uint8_t pib_read_sl(struct ibv_cq_ex *cq_ex)
{
	return to_pcq_ex(cq_ex)->cur_cqe->sl;
}

static uint8_t pib_read_dlid_path_bits(struct ibv_cq_ex *cq_ex)
{
	return to_pcq_ex(cq_ex)->cur_cqe->dlid_path_bits;
}

static uint64_t pib_read_completion_ts(struct ibv_cq_ex *cq_ex)
{
	return le64toh(to_pcq_ex(cq_ex)->cur_cqe->timestamp);
}

static uint64_t pib_read_completion_wallclock_ns(struct ibv_cq_ex *cq_ex)
{
	struct pib_cq *cq = to_pcq_ex(cq_ex);

	return pib_wallclock_ns(to_pctx(cq_ex->context), &cq->clock,
				le64toh(cq->cur_cqe->timestamp));
}

void pib_cq_set_poll_ops(struct pib_cq *cq, uint64_t wc_flags)
{
	struct ibv_cq_ex *cq_ex = &cq->verbs_cq.cq_ex;

	cq_ex->start_poll = pib_start_poll;
	cq_ex->next_poll = pib_next_poll;
	cq_ex->end_poll = pib_end_poll;
	cq_ex->read_opcode = pib_read_opcode;
	cq_ex->read_vendor_err = pib_read_vendor_err;
	cq_ex->read_wc_flags = pib_read_wc_flags;
	if (wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
		cq_ex->read_byte_len = pib_read_byte_len;
	if (wc_flags & IBV_WC_EX_WITH_IMM)
		cq_ex->read_imm_data = pib_read_imm_data;
	if (wc_flags & IBV_WC_EX_WITH_QP_NUM)
		cq_ex->read_qp_num = pib_read_qp_num;
	if (wc_flags & IBV_WC_EX_WITH_SRC_QP)
		cq_ex->read_src_qp = pib_read_src_qp;
	if (wc_flags & IBV_WC_EX_WITH_SLID)
		cq_ex->read_slid = pib_read_slid;
	if (wc_flags & IBV_WC_EX_WITH_SL)
		cq_ex->read_sl = pib_read_sl;
	if (wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
		cq_ex->read_dlid_path_bits = pib_read_dlid_path_bits;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		cq_ex->read_completion_ts = pib_read_completion_ts;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		cq_ex->read_completion_wallclock_ns = pib_read_completion_wallclock_ns;
}
