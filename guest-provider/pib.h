/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libpib: user space of the pib-hca device. The rings of CQs and QPs are memory of the
 * process, pinned by the driver and read and written by the device; a doorbell is a store
 * into the process's UAR page. Nothing on the data path enters the kernel.
 */
#ifndef __PIB_H__
#define __PIB_H__

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ccan/array_size.h>
#include <ccan/ilog.h>
#include <ccan/minmax.h>
#include <infiniband/driver.h>
#include <util/udma_barrier.h>
#include <util/util.h>

#include "pib_hca_hw.h"

struct pib_cq;
struct pib_qp;
struct pib_srq;

#define PIB_TABLE_SHIFT 12
#define PIB_TABLE_SIZE (1u << PIB_TABLE_SHIFT)
#define PIB_TABLE_MASK (PIB_TABLE_SIZE - 1)

/*
 * An object and the CQs at which it may complete. The entry is cleared with the locks of all these
 * CQs held, so a poller that holds the lock of one of them may use the object.
 */
struct pib_table_entry {
	_Atomic(void *) object;
	_Atomic(struct pib_cq *) cqs[2];
};

typedef _Atomic(struct pib_table_entry *) pib_table_page;

struct pib_table {
	pib_table_page pages[PIB_TABLE_SIZE];
};

struct pib_device {
	struct verbs_device ibv_dev;
	size_t page_size;
};

struct pib_context {
	struct verbs_context ibv_ctx;
	void *uar;
	size_t uar_size;
	struct pib_hca_shadow_page *shadow; /* NULL: doorbells carry the QP's number */
	/* The device's limits, from the driver's answer at the creation of the context. */
	uint32_t max_qp_wr;
	uint32_t max_sge;
	uint32_t max_inline_data;
	uint32_t max_cqe;
	uint8_t port_count;
	/* Length of each port's GID table; 0: not queried yet. */
	atomic_uint gid_table_length[PIB_HCA_MAX_PORTS + 1];
	/*
	 * QPs by the number that CQEs carry. Written with table_mutex held, cleared with the locks
	 * of both CQs held as well, read with the lock of the polled CQ held.
	 */
	pthread_mutex_t table_mutex;
	struct pib_table qps;
	struct pib_table xrc_srqs; /* XRC SRQs by number; locks as for `qps`, with one CQ */
};

/* In pib_pd.users: the program has unimported the PD, and its last parent domain frees it. */
#define PIB_PD_UNIMPORTED (1u << 31)

/* A PD, or a parent domain that contains one (ibv_alloc_parent_domain(3)). */
struct pib_pd {
	struct ibv_pd ibv_pd;
	/*
	 * A PD counts its parent domains, ORed with PIB_PD_UNIMPORTED; a parent domain counts its
	 * buffers.
	 */
	atomic_uint users;
	/* Parent domains only: */
	struct pib_pd *contained; /* NULL in a PD */
	struct pib_td *td;        /* NULL: no thread domain */
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		       uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
	void *pd_context;
};

/*
 * A program that makes a thread domain promises that one thread at a time uses the domain's
 * objects. The provider takes their locks all the same: without contention they cost next to
 * nothing. Threads may share the UAR page, which has no state.
 */
struct pib_td {
	struct ibv_td ibv_td;
	atomic_uint users; /* number of parent domains that contain it */
};

struct pib_ah {
	struct ibv_ah ibv_ah;
	struct pib_hca_av av;
};

/* Page-aligned, zeroed memory that the device shares. */
struct pib_buf {
	void *addr;
	size_t length;
	struct pib_pd *domain;  /* the parent domain whose allocator supplied it, or NULL */
	uint64_t resource_type; /* PIB_RESOURCE_*, as passed to allocators */
	bool is_foreign;        /* from an allocator */
	bool is_kept;           /* MADV_DONTFORK: a fork does not copy the memory */
};

enum pib_resource_type { PIB_RESOURCE_QP = 1, PIB_RESOURCE_SRQ = 2, PIB_RESOURCE_CQ = 3 };

/* The difference between wall clock and device clock; zeros: not measured yet. */
struct pib_clock {
	uint64_t second; /* time of the measurement: monotonic clock, seconds, plus 1 */
	uint64_t offset; /* wall clock minus device clock, nanoseconds, modulo 2^64 */
};

struct pib_cq {
	struct verbs_cq verbs_cq;
	pthread_spinlock_t lock;
	struct pib_buf buf;
	struct pib_hca_cq_header *header;
	struct pib_hca_cqe *cqes;
	uint32_t cqn;
	uint32_t consumer; /* number of consumed CQEs, modulo 2^32 */
	uint8_t log_depth;
	/* The QP of the last CQE: often the next CQE has the same QP. */
	struct pib_qp *last_qp;
	/* The current CQE between start_poll() and end_poll(). */
	struct pib_hca_cqe *cur_cqe;
	/* The thread that holds the lock between start_poll() and end_poll(); 0: none. */
	_Atomic(pthread_t) poller;
	struct pib_clock clock; /* for wall clock time stamps */
};

struct pib_srq {
	struct verbs_srq verbs_srq;
	pthread_spinlock_t lock;
	struct pib_buf buf;
	struct pib_hca_srq_header *header;
	uint64_t *wr_ids;    /* wr_id of each posted WQE, by the WQE's id */
	uint32_t *free_ids;  /* stack of unused ids, with free_count entries */
	uint32_t free_count;
	uint32_t id_count;   /* number of ids, at least depth */
	uint32_t head;       /* number of posted WQEs, modulo 2^32 */
	uint32_t depth;      /* power of two */
	uint32_t max_sge;
	uint32_t srqn;
	uint8_t log_stride;
	struct pib_cq *cq; /* XRC: the CQ of its completions */
};

struct pib_wq {
	pthread_spinlock_t lock;
	void *ring;
	uint64_t *wr_ids;
	uint32_t head;     /* number of posted WQEs, modulo 2^32 */
	atomic_uint tail;  /* number of completed WQEs; written with the CQ's lock held */
	uint32_t depth;    /* power of two, 0: there is no such queue */
	uint32_t max_sge;
	uint8_t log_depth;
	uint8_t log_stride;
};

struct pib_qp {
	struct verbs_qp verbs_qp;
	struct pib_buf buf;
	struct pib_hca_qp_header *header;
	struct pib_wq sq;
	struct pib_wq rq;
	uint32_t qpn; /* for doorbells and CQEs; special QPs have another number on the wire */
	uint32_t max_inline_data;
	bool is_target; /* XRC target, which has no queues */
	/* The batch between wr_start() and wr_complete() or wr_abort(), with sq.lock held. */
	uint32_t ex_head;
	int ex_error;
	void *ex_wqe;
	unsigned int ex_data_offset;
	bool ex_inline_allowed;
};

static inline struct pib_device *to_pdev(struct ibv_device *ibdev)
{
	return container_of(ibdev, struct pib_device, ibv_dev.device);
}

static inline struct pib_context *to_pctx(struct ibv_context *ibctx)
{
	return container_of(ibctx, struct pib_context, ibv_ctx.context);
}

static inline struct pib_pd *to_ppd(struct ibv_pd *ibpd)
{
	return container_of(ibpd, struct pib_pd, ibv_pd);
}

/* Returns NULL if `ibpd` is NULL or a PD that is no parent domain. */
static inline struct pib_pd *pib_parent_domain(struct ibv_pd *ibpd)
{
	return ibpd && to_ppd(ibpd)->contained ? to_ppd(ibpd) : NULL;
}

static inline struct pib_ah *to_pah(struct ibv_ah *ibah)
{
	return container_of(ibah, struct pib_ah, ibv_ah);
}

static inline struct pib_cq *to_pcq(struct ibv_cq *ibcq)
{
	return container_of(ibcq, struct pib_cq, verbs_cq.cq);
}

static inline struct pib_srq *to_psrq(struct ibv_srq *ibsrq)
{
	return container_of(ibsrq, struct pib_srq, verbs_srq.srq);
}

static inline struct pib_qp *to_pqp(struct ibv_qp *ibqp)
{
	return container_of(ibqp, struct pib_qp, verbs_qp.qp);
}

/* context.c: NULL, with errno, if a context cannot be created. */
struct verbs_context *pib_alloc_context(struct ibv_device *ibdev, int cmd_fd, void *private_data);
struct verbs_context *pib_import_context(struct ibv_device *ibdev, int cmd_fd);

/* limits.c: keeps the limits that the device has reported, as far as the interface permits them. */
struct pib_hca_alloc_ucontext_resp;
void pib_keep_limits(struct pib_context *ctx, const struct pib_hca_alloc_ucontext_resp *resp);

/*
 * Functions below that return int, except pib_poll_cq(), return 0 or an errno value. Those that
 * return an object return NULL, with errno, on failure.
 */

/* clock.c, import.c, buf.c */
int pib_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);
/* Converts a time of the device's clock to nanoseconds since 1970. `clock` keeps the offset. */
uint64_t pib_wallclock_ns(struct pib_context *ctx, struct pib_clock *clock, uint64_t timestamp);

int pib_query_context(struct pib_context *ctx, struct pib_hca_alloc_ucontext_resp *resp);
struct ibv_pd *pib_import_pd(struct ibv_context *context, uint32_t handle);
void pib_unimport_pd(struct ibv_pd *pd);
struct ibv_mr *pib_import_mr(struct ibv_pd *pd, uint32_t handle);
void pib_unimport_mr(struct ibv_mr *mr);

/* `pd` is the PD of the object, or NULL. After an error *buf is empty. */
int pib_alloc_buf(struct pib_context *ctx, struct ibv_pd *pd, uint64_t resource_type,
		  struct pib_buf *buf, size_t length);
void pib_free_buf(struct pib_buf *buf);

/* pd.c, mr.c, mw.c, ah.c */
struct ibv_pd *pib_alloc_pd(struct ibv_context *context);
int pib_dealloc_pd(struct ibv_pd *pd);
struct ibv_td *pib_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int pib_dealloc_td(struct ibv_td *td);
struct ibv_pd *pib_alloc_parent_domain(struct ibv_context *context,
				       struct ibv_parent_domain_init_attr *attr);
struct ibv_xrcd *pib_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int pib_close_xrcd(struct ibv_xrcd *ibxrcd);
struct ibv_mr *pib_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			  uint64_t hca_va, int access);
struct ibv_mr *pib_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				 uint64_t iova, int fd, int access);
struct ibv_mr *pib_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset,
			     size_t length, unsigned int access);
struct ibv_dm *pib_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int pib_free_dm(struct ibv_dm *dm);
struct ibv_dm *pib_import_dm(struct ibv_context *context, uint32_t handle);
void pib_unimport_dm(struct ibv_dm *dm);
int pib_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		  struct ibv_sge *sges, uint32_t num_sge);
int pib_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd, void *addr,
		 size_t length, int access);
int pib_dereg_mr(struct verbs_mr *vmr);
struct ibv_mw *pib_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int pib_dealloc_mw(struct ibv_mw *mw);
int pib_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind);
struct ibv_ah *pib_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int pib_destroy_ah(struct ibv_ah *ah);

/* cq.c, cq_ex.c */
struct ibv_cq *pib_create_cq(struct ibv_context *context, int cqe,
			     struct ibv_comp_channel *channel, int comp_vector);
struct ibv_cq_ex *pib_create_cq_ex(struct ibv_context *context,
				   struct ibv_cq_init_attr_ex *attr);
int pib_resize_cq(struct ibv_cq *cq, int cqe);
int pib_destroy_cq(struct ibv_cq *ibcq);
int pib_modify_cq(struct ibv_cq *ibcq, struct ibv_modify_cq_attr *attr);
int pib_poll_cq(struct ibv_cq *ibcq, int num_entries, struct ibv_wc *wc);
int pib_req_notify_cq(struct ibv_cq *ibcq, int solicited_only);
int pib_cq_init_rings(struct pib_context *ctx, struct pib_cq *cq, struct ibv_pd *pd, uint32_t cqe);
void pib_cq_free_rings(struct pib_cq *cq);
/*
 * Functions for the lock of a CQ. A thread between start_poll() and end_poll() has the lock
 * already, so for that thread they do nothing. A thread that has a CQ's lock may wait for
 * table_mutex, but not the other way round, because the program may create and destroy objects
 * between these two calls.
 */
bool pib_cq_is_polled_here(struct pib_cq *cq);
void pib_cq_lock(struct pib_cq *cq);
bool pib_cq_trylock(struct pib_cq *cq);
void pib_cq_unlock(struct pib_cq *cq);
/* The next CQE or NULL; the CQ's lock is held. The CQE stays valid until the consumer moves. */
struct pib_hca_cqe *pib_cq_next(struct pib_cq *cq);
/* Informs the device that the CQEs before cq->consumer may be overwritten. */
void pib_cq_publish_consumer(struct pib_cq *cq);
/* Retires the CQE's WQE; false if its QP or SRQ has been destroyed. */
bool pib_cq_retire(struct pib_cq *cq, const struct pib_hca_cqe *cqe, uint64_t *wr_id);
enum ibv_wc_opcode pib_wc_opcode(const struct pib_hca_cqe *cqe);
unsigned int pib_wc_flags(const struct pib_hca_cqe *cqe);
/* The immediate data in wire order, or the R_Key that was invalidated, in host order. */
__be32 pib_wc_imm_data(const struct pib_hca_cqe *cqe);
/* Drops the completions of an XRC SRQ, or of a QP; the CQ's lock is held. */
void pib_cq_clean_srq(struct pib_cq *cq, uint32_t srqn);
void pib_cq_clean(struct pib_cq *cq, struct pib_qp *qp);
void pib_cq_set_poll_ops(struct pib_cq *cq, uint64_t wc_flags);
bool pib_cq_wc_flags_supported(uint64_t wc_flags);

/* qp.c */
struct ibv_qp *pib_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
struct ibv_qp *pib_create_qp_ex(struct ibv_context *context,
				struct ibv_qp_init_attr_ex *attr);
int pib_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask);
int pib_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask,
		 struct ibv_qp_init_attr *init_attr);
int pib_destroy_qp(struct ibv_qp *ibqp);
struct ibv_qp *pib_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr);

/* table.c */
/* Returns the object if it may complete at this CQ, whose lock is held; else NULL. */
void *pib_table_find(struct pib_table *table, uint32_t number, const struct pib_cq *cq);
/* Returns the object of this number at any CQ, or NULL. table_mutex is held. */
void *pib_table_owner(struct pib_table *table, uint32_t number);
/*
 * Makes room for a number, so that pib_table_set() of that number cannot fail; ENOMEM, or EPROTO if
 * the number has more than 24 bits. Callers of either function hold table_mutex.
 */
int pib_table_reserve(struct pib_table *table, uint32_t number);
/* Either CQ may be NULL. The entry is empty, or the locks of its CQs are held. */
void pib_table_set(struct pib_table *table, uint32_t number, void *object, struct pib_cq *a,
		   struct pib_cq *b);
void pib_table_clear(struct pib_table *table, uint32_t number);
void pib_table_free(struct pib_table *table);
/* Leaves table_mutex, which the caller holds, to other threads for a moment. */
void pib_table_yield(struct pib_context *ctx);

/* srq.c */
struct ibv_srq *pib_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
struct ibv_srq *pib_create_srq_ex(struct ibv_context *context,
				  struct ibv_srq_init_attr_ex *attr);
int pib_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int attr_mask);
int pib_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr);
int pib_destroy_srq(struct ibv_srq *ibsrq);
int pib_get_srq_num(struct ibv_srq *ibsrq, uint32_t *number);
int pib_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr,
		      struct ibv_recv_wr **bad_wr);
/* Frees the id of a completed WQE and finds its wr_id; false if the SRQ cannot have that WQE. */
bool pib_srq_retire(struct pib_srq *srq, uint32_t id, uint64_t *wr_id);

/* wr.c, wr_ex.c */
int pib_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
		  struct ibv_send_wr **bad_wr);
int pib_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
		  struct ibv_recv_wr **bad_wr);
bool pib_sq_can_post(const struct pib_qp *qp);
/* Publishes the WQEs before `head`, releases sq.lock, which is held, and rings the doorbell. */
void pib_sq_publish(struct pib_qp *qp, uint32_t head);
uint64_t pib_send_ops_supported(enum ibv_qp_type type);
void pib_qp_set_wr_ops(struct pib_qp *qp);

#endif /* __PIB_H__ */
