/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Send and receive WQEs in the layout of pib_hca_hw.h, for ibv_post_send() and ibv_wr_start(). */
#ifndef __PIB_WQE_H__
#define __PIB_WQE_H__

#include <string.h>

#include "pib.h"

enum pib_wqe_segment {
	PIB_SEGMENT_NONE,
	PIB_SEGMENT_RDMA,
	PIB_SEGMENT_ATOMIC,
	PIB_SEGMENT_UD,
	PIB_SEGMENT_KEY,
	PIB_SEGMENT_BIND,
	PIB_SEGMENT_FLUSH,
};

/* The encoding of a work request's opcode in its WQE. */
struct pib_send_op {
	bool supported;
	uint8_t opcode; /* enum pib_hca_wqe_opcode */
	enum pib_wqe_segment segment;
	uint8_t data_offset; /* offset of the SGEs or the inline data, bytes */
	bool has_imm;
	bool may_inline;
	bool needs_reliability; /* not on UC */
	bool no_data; /* the operation has no data and ignores the work request's SGEs */
};

/* Returns NULL if QPs of this type do not have the operation. */
const struct pib_send_op *pib_find_send_op(enum ibv_qp_type type, enum ibv_wr_opcode opcode);

static inline void *pib_wqe_at(const struct pib_wq *wq, uint32_t counter)
{
	return wq->ring + ((size_t)(counter & (wq->depth - 1)) << wq->log_stride);
}

static inline bool pib_wq_full(const struct pib_wq *wq, uint32_t head)
{
	/* Pairs with the release in pib_cq_retire(): the slot of wr_ids is free now. */
	return head - atomic_load_explicit((atomic_uint *)&wq->tail,
					   memory_order_acquire) >= wq->depth;
}

/* Writes the control segment; EINVAL if a flag is unknown or not allowed for the operation. */
int pib_wqe_put_control(void *wqe, const struct pib_send_op *op, unsigned int send_flags,
			__be32 imm_data);

static inline void pib_wqe_put_rdma(void *wqe, uint32_t rkey, uint64_t remote_addr)
{
	struct pib_hca_wqe_rdma *rdma = wqe + sizeof(struct pib_hca_wqe_control);

	rdma->remote_addr = htole64(remote_addr);
	rdma->rkey = htole32(rkey);
	rdma->reserved = 0;
}

static inline void pib_wqe_put_atomic(void *wqe, uint32_t rkey, uint64_t remote_addr,
				      uint64_t swap_or_add, uint64_t compare)
{
	struct pib_hca_wqe_atomic *atomic = wqe + sizeof(struct pib_hca_wqe_control);

	memset(atomic, 0, sizeof(*atomic));
	atomic->remote_addr = htole64(remote_addr);
	atomic->rkey = htole32(rkey);
	atomic->swap_or_add = htole64(swap_or_add);
	atomic->compare = htole64(compare);
}

/* The R_Key to invalidate is in the field that has the immediate data of other operations. */
static inline void pib_wqe_put_invalidate(void *wqe, uint32_t rkey)
{
	((struct pib_hca_wqe_control *)wqe)->imm_data = (__force __be32)htole32(rkey);
}

static inline void pib_wqe_put_key(void *wqe, uint32_t rkey)
{
	struct pib_hca_wqe_key *key = wqe + sizeof(struct pib_hca_wqe_control);

	memset(key, 0, sizeof(*key));
	key->key = htole32(rkey);
}

/* `placement`: enum ibv_placement_type; `level`: enum ibv_selectivity_level. */
static inline void pib_wqe_put_flush(void *wqe, uint32_t rkey, uint64_t remote_addr,
				     uint32_t length, uint8_t placement, uint8_t level)
{
	struct pib_hca_wqe_flush *flush = wqe + sizeof(struct pib_hca_wqe_control);

	memset(flush, 0, sizeof(*flush));
	flush->remote_addr = htole64(remote_addr);
	flush->rkey = htole32(rkey);
	/* A FLUSH of a whole region has no length (IBA annex A19). */
	flush->length = htole32(level == PIB_HCA_FLUSH_REGION ? 0 : length);
	flush->placement = placement;
	flush->level = level;
}

static inline void pib_wqe_put_bind(void *wqe, uint32_t rkey,
				    const struct ibv_mw_bind_info *info)
{
	struct pib_hca_wqe_bind *bind = wqe + sizeof(struct pib_hca_wqe_control);

	bind->rkey = htole32(rkey);
	bind->lkey = htole32(info->mr ? info->mr->lkey : 0);
	bind->access = htole32(info->mw_access_flags);
	bind->reserved = 0;
	bind->addr = htole64(info->addr);
	bind->length = htole64(info->length);
}

/* Sets the number of the SRQ at the destination, on XRC QPs. */
static inline void pib_wqe_put_srqn(void *wqe, uint32_t srqn)
{
	((struct pib_hca_wqe_control *)wqe)->srqn = htole32(srqn);
}

static inline void pib_wqe_put_ud(void *wqe, struct ibv_ah *ah, uint32_t remote_qpn,
				  uint32_t remote_qkey)
{
	struct pib_hca_wqe_ud *ud = wqe + sizeof(struct pib_hca_wqe_control);

	memset(ud, 0, sizeof(*ud));
	ud->av = to_pah(ah)->av;
	ud->dest_qpn = htole32(remote_qpn);
	ud->qkey = htole32(remote_qkey);
}

static inline void pib_put_sge(struct pib_hca_sge *to, uint64_t addr, uint32_t length,
			       uint32_t lkey)
{
	to->addr = htole64(addr);
	to->length = htole32(length);
	to->lkey = htole32(lkey);
}

static inline void pib_put_sges(struct pib_hca_sge *to, const struct ibv_sge *from,
				size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		pib_put_sge(&to[i], from[i].addr, from[i].length, from[i].lkey);
}

/* Writes a receive WQE, which has room for the SGEs. `id` is the WQE's id in an SRQ, else 0. */
static inline void pib_wqe_put_recv(void *wqe, const struct ibv_recv_wr *wr, uint32_t id)
{
	struct pib_hca_recv_wqe *recv = wqe;

	memset(recv, 0, sizeof(*recv));
	recv->num_sge = htole32(wr->num_sge);
	recv->id = htole32(id);
	pib_put_sges((struct pib_hca_sge *)(recv + 1), wr->sg_list, wr->num_sge);
}

/* The caller has written the SGEs, or for pib_wqe_set_inline() the inline data. */
static inline void pib_wqe_set_num_sge(void *wqe, uint8_t num_sge)
{
	((struct pib_hca_wqe_control *)wqe)->num_sge = num_sge;
}

static inline void pib_wqe_set_inline(void *wqe, uint32_t length)
{
	struct pib_hca_wqe_control *control = wqe;

	control->flags |= PIB_HCA_WQE_INLINE;
	control->inline_length = htole32(length);
}

#endif /* __PIB_WQE_H__ */
