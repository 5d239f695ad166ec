/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The structures of verbs objects with the driver's fields: part of pib_hca.h. */
#ifndef PIB_HCA_OBJECTS_H
#define PIB_HCA_OBJECTS_H

struct pib_hca_ucontext {
	struct ib_ucontext ibucontext;
	struct pib_hca_uar_entry *uar;
	struct pib_hca_shadow_entry *shadow; /* NULL: no shadow doorbell page */
};

enum pib_hca_mmap_kind {
	PIB_HCA_MMAP_UAR,
	PIB_HCA_MMAP_SHADOW,
	PIB_HCA_MMAP_DM, /* device memory */
};

/* A range that a process may map. */
struct pib_hca_mmap_entry {
	struct rdma_user_mmap_entry rdma_entry;
	struct pib_hca_dev *dev;
	phys_addr_t addr; /* in BAR2; unused with PIB_HCA_MMAP_SHADOW */
	enum pib_hca_mmap_kind kind;
};

struct pib_hca_uar_entry {
	struct pib_hca_mmap_entry mmap;
	u32 number;
};

struct pib_hca_pd {
	struct ib_pd ibpd;
	u32 pdn;
};

struct pib_hca_xrcd {
	struct ib_xrcd ibxrcd;
	u32 xrcdn;
};

struct pib_hca_ah {
	struct ib_ah ibah;
	struct pib_hca_av av;
};

struct pib_hca_mr {
	struct ib_mr ibmr;
	/* Regions of processes' memory: */
	struct ib_umem *umem;
	u64 iova;
	int access; /* as requested: enum ib_access_flags */
	/* On-demand regions, which have no umem: */
	struct pib_hca_odp *odp;
	u64 odp_start;  /* address in the process's address space */
	u64 odp_length;
	/* IB_MR_TYPE_MEM_REG: the table with the pages of ib_map_mr_sg(). */
	struct pib_hca_page_table fast_table;
	u32 fast_max_pages;
	u32 fast_pages;
};

struct pib_hca_mw {
	struct ib_mw ibmw;
};

/*
 * The owner has one reference, and running handlers have others. The last put wakes the verb that
 * destroys the object.
 */
struct pib_hca_ref {
	refcount_t count;
	struct completion last_put;
};

static inline void pib_hca_ref_init(struct pib_hca_ref *ref)
{
	refcount_set(&ref->count, 1);
	init_completion(&ref->last_put);
}

/*
 * Returns the object with this number and takes a reference for the caller; NULL: there is none.
 * The struct pib_hca_ref of an object is at `ref_offset`. Any context.
 */
static inline void *pib_hca_get_object(struct xarray *objects, u32 number, size_t ref_offset)
{
	unsigned long flags;
	void *object;

	xa_lock_irqsave(objects, flags);
	object = xa_load(objects, number);
	if (object)
		refcount_inc(&((struct pib_hca_ref *)(object + ref_offset))->count);
	xa_unlock_irqrestore(objects, flags);
	return object;
}

static inline void pib_hca_ref_put(struct pib_hca_ref *ref)
{
	if (refcount_dec_and_test(&ref->count))
		complete(&ref->last_put);
}

/* Puts the owner's reference and waits until the handlers have put theirs. Sleeps. */
static inline void pib_hca_ref_wait(struct pib_hca_ref *ref)
{
	pib_hca_ref_put(ref);
	wait_for_completion(&ref->last_put);
}

struct pib_hca_cq {
	struct ib_cq ibcq;
	struct pib_hca_queue_mem mem;
	struct mutex mutex; /* serializes resizes, so that mem is the device's buffer */
	u32 cqn;
	u8 log_depth;
	struct pib_hca_ref ref;
	/* Kernel CQs only: */
	spinlock_t lock;
	u32 consumer;
	struct pib_hca_qp *last_qp; /* the QP of the last polled CQE */
	struct list_head send_qps;
	struct list_head recv_qps;
};

struct pib_hca_srq {
	struct ib_srq ibsrq;
	struct pib_hca_queue_mem mem;
	struct mutex mutex; /* serializes resizes, so that mem is the device's buffer */
	u32 srqn;
	u32 offset; /* offset of entry 0 in the buffer */
	u32 depth;  /* power of two */
	u32 max_sge;
	u8 log_stride;
	struct pib_hca_ref ref;
	/* Kernel SRQs only: */
	spinlock_t lock;
	u32 head;       /* number of posted WQEs, modulo 2^32 */
	u64 *wr_ids;    /* wr_id of each posted WQE, by the WQE's id */
	u32 *free_ids;  /* unused ids: the first free_count entries */
	u32 free_count;
	unsigned long *posted; /* bitmap of the ids of posted WQEs */
};

struct pib_hca_wq {
	spinlock_t lock; /* guards head, wr_ids and the WQEs between posters */
	u64 *wr_ids;
	u32 offset;   /* offset of entry 0 in the QP's buffer */
	u32 depth;    /* power of two; 0: there is no such queue */
	u32 max_sge;
	u32 head;     /* number of posted WQEs, modulo 2^32 */
	u32 tail;     /* number of completed WQEs; written with the CQ's lock held */
	u8 log_stride;
};

struct pib_hca_qp {
	struct ib_qp ibqp;
	struct pib_hca_queue_mem mem;
	struct mutex mutex; /* one transition or destruction at a time; guards state */
	u64 birth; /* unique among all QPs since the module was loaded; the device reuses qpn */
	u32 qpn; /* the device's number; on special QPs it differs from ibqp.qp_num */
	u32 xrcdn; /* XRC targets: number of their domain */
	u8 port; /* SMI and GSI: number of their port; other QPs: 0 */
	bool user; /* the queues belong to a process; also true for XRC targets, which have none */
	enum ib_qp_state state; /* as last set or queried; the device may be in an error state */
	bool last_wqe_told; /* IB_EVENT_QP_LAST_WQE_REACHED was dispatched since the last reset */
	bool signal_all;
	u32 max_inline;
	struct pib_hca_ref ref;
	struct pib_hca_wq sq;
	struct pib_hca_wq rq;
	struct list_head send_entry; /* in the send CQ's send_qps */
	struct list_head recv_entry; /* in the receive CQ's recv_qps */
	bool completes; /* the QP is in the CQs' lists; written with the CQs' locks held */
};

static inline struct pib_hca_ucontext *to_pucontext(struct ib_ucontext *ibucontext)
{
	return container_of(ibucontext, struct pib_hca_ucontext, ibucontext);
}

static inline struct pib_hca_pd *to_ppd(struct ib_pd *ibpd)
{
	return container_of(ibpd, struct pib_hca_pd, ibpd);
}

static inline struct pib_hca_xrcd *to_pxrcd(struct ib_xrcd *ibxrcd)
{
	return container_of(ibxrcd, struct pib_hca_xrcd, ibxrcd);
}

static inline struct pib_hca_ah *to_pah(struct ib_ah *ibah)
{
	return container_of(ibah, struct pib_hca_ah, ibah);
}

static inline struct pib_hca_mr *to_pmr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct pib_hca_mr, ibmr);
}

static inline struct pib_hca_cq *to_pcq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct pib_hca_cq, ibcq);
}

static inline struct pib_hca_srq *to_psrq(struct ib_srq *ibsrq)
{
	return container_of(ibsrq, struct pib_hca_srq, ibsrq);
}

static inline struct pib_hca_cq *pib_hca_get_cq(struct pib_hca_dev *dev, u32 cqn)
{
	return pib_hca_get_object(&dev->cqs, cqn, offsetof(struct pib_hca_cq, ref));
}

static inline struct pib_hca_qp *pib_hca_get_qp(struct pib_hca_dev *dev, u32 qpn)
{
	return pib_hca_get_object(&dev->qps, qpn, offsetof(struct pib_hca_qp, ref));
}

static inline struct pib_hca_srq *pib_hca_get_srq(struct pib_hca_dev *dev, u32 srqn)
{
	return pib_hca_get_object(&dev->srqs, srqn, offsetof(struct pib_hca_srq, ref));
}

static inline u64 pib_hca_srq_bytes(const struct pib_hca_srq *srq, u32 depth)
{
	return srq->offset + ((u64)depth << srq->log_stride);
}

static inline struct pib_hca_qp *to_pqp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct pib_hca_qp, ibqp);
}

static inline bool pib_hca_qp_is_datagram(enum ib_qp_type type)
{
	return type == IB_QPT_UD || type == IB_QPT_SMI || type == IB_QPT_GSI;
}

#endif /* PIB_HCA_OBJECTS_H */
