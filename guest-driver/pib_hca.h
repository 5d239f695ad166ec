/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * pib_hca: driver of the pib-hca device. pib_hca_hw.h defines the interface to the device and
 * pib_hca_abi.h the one to the provider in user space; this header declares what the driver's files
 * share. Each file handles one kind of InfiniBand object, as in other HCA drivers. Comments call
 * the kernel's RDMA subsystem (drivers/infiniband/core) the core.
 *
 * Locks, in the order in which they are taken:
 *   qp->mutex                 one call of modify_qp or query_qp, or one DESTROY_QP or
 *                             RESUME_PAGE_FAULT command, of a QP at a time; sleeps
 *   cq->mutex, srq->mutex     one resize of a CQ or SRQ at a time; sleep
 *   odp->mutex, umem_mutex    see pib_hca_odp.h; sleep
 *   cmdq->slots_free          a semaphore: as many commands in flight as the ring holds; sleeps
 *   cmdq->post_mutex          the command ring's producer and its doorbell; sleeps
 *   qp->sq.lock, qp->rq.lock  posting; never both of them; irqs off
 *   cq->lock                  polling, and the lists of QPs; of two CQs, the lower number first
 *   srq->lock                 posting, and freeing completed entries
 *   cmdq->lock                reaping command completions; innermost; irqs off
 * Each xarray of QPs, CQs or SRQs has its own lock; no other lock is taken under it.
 *
 * Interrupt handlers themselves take only cmdq->lock and the xarrays' locks; the consumers' event
 * handlers that they call may poll and post, and so take the others. An object that an interrupt
 * handler has found by number is kept by its reference count until the handler has returned.
 */
#ifndef PIB_HCA_H
#define PIB_HCA_H

#include <linux/completion.h>
#include <linux/debugfs.h>
#include <linux/io.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/refcount.h>
#include <linux/semaphore.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>

#include "pib_hca_hw.h"
#include "pib_hca_abi.h"
#include "compat.h"
#include "pib_hca_shadow.h"

#define PIB_HCA_NAME "pib_hca"

/* A doorbell of a CQ or EQ is one store with its number and counter. */
#ifndef CONFIG_64BIT
#error "pib-hca needs 8-byte MMIO stores, which 32-bit kernels do not have"
#endif

struct pib_hca_dev;

/* ---------------------------------------------------------------- buffers (buf.c) ------------ */

/* Kernel memory that the device uses: zeroed chunks of 1 << chunk_shift bytes. */
struct pib_hca_buf {
	struct pib_hca_chunk {
		void *addr;
		dma_addr_t dma;
	} *chunks;
	u32 count;
	u8 chunk_shift;
};

int pib_hca_buf_alloc(struct pib_hca_dev *dev, struct pib_hca_buf *buf, size_t bytes);
void pib_hca_buf_free(struct pib_hca_dev *dev, struct pib_hca_buf *buf);

/* Returns the address of a byte. No entry crosses a chunk: it is aligned to its size, 2^n bytes. */
static inline void *pib_hca_buf_at(const struct pib_hca_buf *buf, size_t offset)
{
	return buf->chunks[offset >> buf->chunk_shift].addr +
	       (offset & ((1UL << buf->chunk_shift) - 1));
}

static inline dma_addr_t pib_hca_buf_dma_at(const struct pib_hca_buf *buf, size_t offset)
{
	return buf->chunks[offset >> buf->chunk_shift].dma +
	       (offset & ((1UL << buf->chunk_shift) - 1));
}

/*
 * The tables to which a struct pib_hca_pages refers. The device reads them only while it executes
 * the command or the REG_MR work request that has the structure.
 */
struct pib_hca_page_table {
	struct pib_hca_chunk *tables;
	u32 table_count;
};

/*
 * Both fill *pages and return 0, -ENOMEM or -EINVAL. The caller frees the table by
 * pib_hca_table_free(), which accepts a zeroed table.
 */
int pib_hca_table_from_buf(struct pib_hca_dev *dev, struct pib_hca_page_table *table,
			   struct pib_hca_pages *pages, const struct pib_hca_buf *buf);
int pib_hca_table_from_umem(struct pib_hca_dev *dev, struct pib_hca_page_table *table,
			    struct pib_hca_pages *pages, struct ib_umem *umem,
			    unsigned long page_size);
void pib_hca_table_free(struct pib_hca_dev *dev, struct pib_hca_page_table *table);

/* Allocates a table that each fast registration fills again, with up to max_pages pages. */
int pib_hca_table_for_fast_reg(struct pib_hca_dev *dev, struct pib_hca_page_table *table,
			       u32 max_pages);
void pib_hca_table_set(const struct pib_hca_page_table *table, u32 index, u64 addr);
void pib_hca_table_view(const struct pib_hca_page_table *table, struct pib_hca_pages *pages,
			u32 page_count, u32 page_size);

/* The memory of a queue: `buf` if the queue belongs to the kernel, `umem` if to a process. */
struct pib_hca_queue_mem {
	struct pib_hca_buf buf;
	struct ib_umem *umem;
};

int pib_hca_queue_mem_kernel(struct pib_hca_dev *dev, struct pib_hca_queue_mem *mem, size_t bytes);
/* Returns 0, or logs why device and processes cannot share memory and returns -EOPNOTSUPP. */
int pib_hca_check_user_dma(struct pib_hca_dev *dev);
/* Pins a process's memory; -EOPNOTSUPP if the device cannot share it with the process. */
struct ib_umem *pib_hca_umem_get(struct pib_hca_dev *dev, u64 addr, size_t bytes, int access);
int pib_hca_queue_mem_user(struct pib_hca_dev *dev, struct pib_hca_queue_mem *mem, u64 addr,
			   u64 length, u64 bytes);
int pib_hca_queue_mem_table(struct pib_hca_dev *dev, struct pib_hca_page_table *table,
			    struct pib_hca_pages *pages, const struct pib_hca_queue_mem *mem);
void pib_hca_queue_mem_free(struct pib_hca_dev *dev, struct pib_hca_queue_mem *mem);

/* ---------------------------------------------------------------- commands (cmd.c) ----------- */

#define PIB_HCA_CMDQ_LOG_DEPTH 5
#define PIB_HCA_CMDQ_DEPTH (1 << PIB_HCA_CMDQ_LOG_DEPTH)

/* A command in flight. The index of its slot is its id. */
struct pib_hca_cmd_slot {
	struct completion done;
	bool busy;
	u32 before; /* commands in flight before this one: the device may execute them first */
	int error; /* negative errno if the device died; otherwise see cpl */
	struct pib_hca_cmd_cpl cpl;
};

struct pib_hca_cmdq {
	struct pib_hca_cmd *ring;
	struct pib_hca_cmd_cpl *cpl_ring;
	dma_addr_t ring_dma;
	dma_addr_t cpl_ring_dma;
	struct pib_hca_buf mailboxes; /* for each slot two pages: input and output */
	struct semaphore slots_free;
	struct mutex post_mutex; /* guards the producer and orders doorbells */
	u32 producer;
	spinlock_t lock; /* guards the consumer and the slots */
	u32 consumer;
	bool stopped; /* the device is dead, or the driver stops it */
	bool use_events; /* an event queue reports completions; else the driver polls */
	struct pib_hca_cmd_slot slots[PIB_HCA_CMDQ_DEPTH];
};

/* A command, as callers pass it; all lengths in bytes. */
struct pib_hca_cmd_args {
	u16 opcode;
	u32 object;
	const void *in;
	u32 in_length;
	void *out;
	u32 out_length;
	u32 result; /* set on success */
};

int pib_hca_cmdq_init(struct pib_hca_dev *dev);
void pib_hca_cmdq_cleanup(struct pib_hca_dev *dev);
void pib_hca_cmdq_use_events(struct pib_hca_dev *dev, bool use);
/* Handles the commands that the device has completed; any context. */
void pib_hca_cmdq_reap(struct pib_hca_dev *dev);
/* Ends every command in flight and refuses new ones; any context. */
void pib_hca_cmdq_stop(struct pib_hca_dev *dev);

/*
 * The functions for commands sleep. Those that can fail return 0 or a negative errno: -EIO for a
 * dead device, -EOPNOTSUPP for a missing feature, -EINVAL for a refused value, -ENOMEM for a limit,
 * -EBUSY for an object in use, -EFAULT for an address that is not RAM.
 */
int pib_hca_cmd(struct pib_hca_dev *dev, struct pib_hca_cmd_args *args);
/* `in` may be NULL with in_length 0. *number is set to the created object's number. */
int pib_hca_cmd_create(struct pib_hca_dev *dev, u16 opcode, const void *in, u32 in_length,
		       u32 *number);
int pib_hca_cmd_set(struct pib_hca_dev *dev, u16 opcode, u32 object, const void *in,
		    u32 in_length);
int pib_hca_cmd_query(struct pib_hca_dev *dev, u16 opcode, u32 object, void *out, u32 out_length);
/*
 * Destroys an object and cannot fail: afterwards the device uses neither the object nor its memory.
 * A device that does not complete the command is reset.
 */
void pib_hca_cmd_destroy(struct pib_hca_dev *dev, u16 opcode, u32 object);
/* As pib_hca_cmd_destroy(), for objects that may be in use; -EBUSY: the object stays. */
int pib_hca_cmd_try_destroy(struct pib_hca_dev *dev, u16 opcode, u32 object);

/* ---------------------------------------------------------------- events (eq.c, event.c) ----- */

struct pib_hca_eq {
	struct pib_hca_dev *dev;
	struct pib_hca_buf buf;
	u32 eqn;
	u32 consumer;
	u32 vector;
	u32 interrupts; /* calls of the handler; for the self-test */
	u8 log_depth;
	bool async;
	char name[48]; /* in /proc/interrupts */
};

int pib_hca_eqs_init(struct pib_hca_dev *dev);
void pib_hca_eqs_cleanup(struct pib_hca_dev *dev);
/* Waits until the running event handlers have returned. */
void pib_hca_eqs_sync(struct pib_hca_dev *dev);

void pib_hca_handle_event(struct pib_hca_dev *dev, const struct pib_hca_eqe *eqe);
/*
 * Passes events to the core from now on, and the events of ports that came before. Call this when
 * the device is registered: the core queues a work for each event, and a registration that fails
 * does not wait for works that are queued after its cleanup, which would use the freed device.
 */
void pib_hca_events_start(struct pib_hca_dev *dev);
void pib_hca_dispatch(struct pib_hca_dev *dev, enum ib_event_type type, u32 port);
/* Makes pib_hca_dispatch() drop events, and waits for event handlers; may sleep. */
void pib_hca_events_stop(struct pib_hca_dev *dev);

/* ---------------------------------------------------------------- the device ----------------- */

enum pib_hca_dev_flag {
	PIB_HCA_DEV_DEAD,       /* the driver has given up the device until its recovery */
	PIB_HCA_DEV_QUIET,      /* dead, and the reset has ended: the device uses no memory */
	PIB_HCA_DEV_REGISTERED, /* consumers may wait for completions */
	PIB_HCA_DEV_EVENTS,     /* the core takes asynchronous events */
};

struct pib_hca_dev {
	struct ib_device ibdev;
	struct pci_dev *pdev;
	u8 __iomem *regs;
	u8 __iomem *uar0;        /* the kernel's doorbells */
	phys_addr_t uar_base;
	unsigned long flags;     /* enum pib_hca_dev_flag */
	bool dma_needs_sync;     /* processes' memory cannot be shared with the device */
	atomic_t port_events[PIB_HCA_MAX_PORTS]; /* port event flags not yet passed to the core */
	struct delayed_work health;
	struct mutex modify_mutex; /* keeps the values of MODIFY_DEVICE equal in device and core */

	u32 vector_count;        /* MSI-X vectors in use */
	u32 eq_count;            /* 1 async, then one per completion vector */
	struct pib_hca_eq eqs[PIB_HCA_MAX_VECTORS + 1];

	struct pib_hca_cmdq cmdq;
	struct pib_hca_query_device caps;
	struct xarray qps;       /* struct pib_hca_qp by pib_hca_qp.qpn */
	struct xarray cqs;       /* struct pib_hca_cq by CQN */
	struct xarray srqs;      /* struct pib_hca_srq by SRQN */
	struct pib_hca_shadow shadow; /* shadow doorbell page of UAR 0 */
	struct {
		phys_addr_t start;
		u64 bytes;       /* 0: the device has no memory of its own */
		dma_addr_t bus;
		u8 __iomem *cpu;
		struct gen_pool *pool; /* allocates addresses from `start` on */
	} dm;                    /* device memory, see dm.c */
	struct {
		struct xarray mrs; /* struct pib_hca_mr by index (key without its key byte) */
		struct workqueue_struct *queue;
		struct delayed_work fetch;
		atomic_t tables; /* number of lowest-level tables of all regions */
	} odp;                   /* see pib_hca_odp.h */
	struct xarray keys;      /* regions and windows by index, for debugfs */
	struct dentry *debugfs;
	struct debugfs_regset32 registers;
	struct work_struct flush_work; /* when the device is dead: makes consumers poll */
};

static inline struct pib_hca_dev *to_pdev(struct ib_device *ibdev)
{
	return container_of(ibdev, struct pib_hca_dev, ibdev);
}

static inline bool pib_hca_is_dead(const struct pib_hca_dev *dev)
{
	return test_bit(PIB_HCA_DEV_DEAD, &dev->flags);
}

static inline bool pib_hca_is_quiet(const struct pib_hca_dev *dev)
{
	return test_bit(PIB_HCA_DEV_QUIET, &dev->flags);
}

/* Driver data of a PCI function, from probe() to remove(). */
struct pib_hca_binding {
	struct pci_dev *pdev;
	struct pib_hca_dev *dev; /* NULL: not started, or stopped */
	unsigned long started;   /* time of the last start, jiffies */
	bool shut_down;          /* the machine shuts down: the device is not started again */
	struct delayed_work recovery;
};

/* main.c; the caller holds the lock of the PCI function's struct device. */
void pib_hca_stop(struct pci_dev *pdev);
int pib_hca_restart(struct pci_dev *pdev);

/* recovery.c */
void pib_hca_recovery_init(struct pib_hca_binding *binding);
/* Schedules the recovery; false: the device is starting or stopping. Any context. */
bool pib_hca_recovery_begin(struct pib_hca_dev *dev);
void pib_hca_recovery_stop(struct pib_hca_binding *binding);

/* hw.c */
int pib_hca_hw_init(struct pib_hca_dev *dev);
void pib_hca_hw_cleanup(struct pib_hca_dev *dev);
int pib_hca_reset(struct pib_hca_dev *dev);

/* health.c */
void pib_hca_health_start(struct pib_hca_dev *dev);
void pib_hca_health_stop(struct pib_hca_dev *dev);
/* Gives the device up and returns true if it has stopped, was reset or is gone. Any context. */
bool pib_hca_has_failed(struct pib_hca_dev *dev);
/* Ends the device's DMA and wakes all waiters; false if that has been done before. Any context. */
bool pib_hca_cut_off(struct pib_hca_dev *dev);
/* Waits until a dead device uses no memory any more. May sleep, at most as long as its reset. */
void pib_hca_wait_quiet(struct pib_hca_dev *dev);
/* As pib_hca_cut_off(); also schedules the recovery, logs `why` and informs the consumers. */
void pib_hca_die(struct pib_hca_dev *dev, const char *why);
/* As pib_hca_die(), then pib_hca_wait_quiet(): afterwards the device's buffers may be freed. */
void pib_hca_give_up(struct pib_hca_dev *dev, const char *why);
void pib_hca_flush_work(struct work_struct *work);

#define PIB_HCA_ALL_ONES (~0U) /* value of a load from an unplugged device */

static inline u32 pib_hca_read(const struct pib_hca_dev *dev, u32 reg)
{
	return readl(dev->regs + reg);
}

static inline void pib_hca_write(struct pib_hca_dev *dev, u32 reg, u32 value)
{
	writel(value, dev->regs + reg);
}

#include "pib_hca_objects.h"

/* ---------------------------------------------------------------- uverbs data ---------------- */

/*
 * Copies the input to *req. A shorter input is extended by zeros; the rest of a longer one must be
 * zero, else the result is -EOPNOTSUPP.
 */
int pib_hca_udata_in(struct ib_udata *udata, void *req, size_t size);
/* Copies the part of *resp that fits in user space's buffer, and zeroes the rest of the buffer. */
int pib_hca_udata_out(struct ib_udata *udata, void *resp, size_t size);
/*
 * Checks the input of a verb that takes none from the provider: returns 0, or -EOPNOTSUPP if a byte
 * is not 0. `udata` may be NULL.
 */
int pib_hca_udata_no_input(struct ib_udata *udata);

/* ---------------------------------------------------------------- verbs ---------------------- */

/* port.c */
int pib_hca_query_device(struct ib_device *ibdev, struct ib_device_attr *attr,
			 struct ib_udata *udata);
int pib_hca_modify_device(struct ib_device *ibdev, int mask, struct ib_device_modify *props);
int pib_hca_query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *attr);
int pib_hca_modify_port(struct ib_device *ibdev, u32 port, int mask,
			struct ib_port_modify *props);
int pib_hca_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey);
int pib_hca_query_gid(struct ib_device *ibdev, u32 port, int index, union ib_gid *gid);
int pib_hca_get_port_immutable(struct ib_device *ibdev, u32 port,
			       struct ib_port_immutable *immutable);
enum rdma_link_layer pib_hca_get_link_layer(struct ib_device *ibdev, u32 port);
void pib_hca_get_dev_fw_str(struct ib_device *ibdev, char *str);

/* stats.c */
struct rdma_hw_stats *pib_hca_alloc_device_stats(struct ib_device *ibdev);
struct rdma_hw_stats *pib_hca_alloc_port_stats(struct ib_device *ibdev, u32 port);
int pib_hca_get_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port, int index);

/* uar.c */
void pib_hca_describe_ucontext(struct ib_ucontext *ibucontext,
			       struct pib_hca_alloc_ucontext_resp *resp);
int pib_hca_alloc_ucontext(struct ib_ucontext *ibucontext, struct ib_udata *udata);
void pib_hca_dealloc_ucontext(struct ib_ucontext *ibucontext);
void pib_hca_disassociate_ucontext(struct ib_ucontext *ibucontext);
int pib_hca_mmap(struct ib_ucontext *ibucontext, struct vm_area_struct *vma);
void pib_hca_mmap_free(struct rdma_user_mmap_entry *rdma_entry);
/* The number of the UAR for an object's doorbells; kernel objects use UAR 0. */
u32 pib_hca_uar_of(struct ib_udata *udata);

/* import.c */
extern const struct uapi_definition pib_hca_import_defs[];
int pib_hca_query_ucontext(struct ib_ucontext *ibucontext, struct uverbs_attr_bundle *attrs);

/* pd.c */
int pib_hca_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int pib_hca_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int pib_hca_alloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata);
int pib_hca_dealloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata);

/* ah.c */
int pib_hca_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init_attr,
		      struct ib_udata *udata);
int pib_hca_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr);
int pib_hca_destroy_ah(struct ib_ah *ibah, u32 flags);
/* `port` becomes av->port: the port of a datagram, 0 for connections. */
void pib_hca_av_from_attr(struct pib_hca_av *av, const struct rdma_ah_attr *attr, u8 port);
/* `port` becomes attr->port_num, because av->port of a connection is 0. */
void pib_hca_av_to_attr(const struct pib_hca_av *av, struct rdma_ah_attr *attr, u8 port);

/* mr.c */

/* Access flags that the driver may ignore: hints about ordering and huge pages. */
#define PIB_HCA_ACCESS_HINTS (IB_ACCESS_OPTIONAL | IB_ACCESS_HUGETLB)

/* cq.c */
int pib_hca_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		      struct ib_udata *udata);
int pib_hca_resize_cq(struct ib_cq *ibcq, unsigned int entries, struct ib_udata *udata);
int pib_hca_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);
int pib_hca_modify_cq(struct ib_cq *ibcq, u16 count, u16 period_us);
int pib_hca_poll_cq(struct ib_cq *ibcq, int num_entries, struct ib_wc *wc);
int pib_hca_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);
/* Add a kernel QP to its CQs' lists; remove it and its completions. */
void pib_hca_cq_add_qp(struct pib_hca_qp *qp);
void pib_hca_cq_remove_qp(struct pib_hca_qp *qp);
/* Discards the completions and all posted work requests of a kernel QP that has entered Reset. */
void pib_hca_cq_reset_qp(struct pib_hca_qp *qp);

/* qp.c, qp_modify.c */
int pib_hca_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init_attr,
		      struct ib_udata *udata);
int pib_hca_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);
/*
 * Dispatches IB_EVENT_QP_LAST_WQE_REACHED unless the QP's user has had it: ib_drain_qp() waits for
 * it, and a dead device sends none. In event.c.
 */
void pib_hca_tell_last_wqe(struct pib_hca_qp *qp);
int pib_hca_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int attr_mask,
		      struct ib_udata *udata);
int pib_hca_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int attr_mask,
		     struct ib_qp_init_attr *init_attr);
void pib_hca_qp_cap(const struct pib_hca_qp *qp, struct ib_qp_cap *cap);

/* wr.c */
int pib_hca_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		      const struct ib_send_wr **bad_wr);
int pib_hca_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		      const struct ib_recv_wr **bad_wr);
/* Empties both queues. The caller holds both CQs' locks, and nothing posts any more. */
void pib_hca_reset_rings(struct pib_hca_qp *qp);
/* Bytes of a send WQE with room for these SGEs or inline data, not yet rounded up to a stride. */
u32 pib_hca_send_wqe_size(enum ib_qp_type type, u32 max_sge, u32 max_inline);
u32 pib_hca_send_max_sge(enum ib_qp_type type, u32 stride);

/* Writes a receive WQE, which has room for the SGEs. `id` is the WQE's id in an SRQ, else 0. */
void pib_hca_put_recv(struct pib_hca_recv_wqe *wqe, const struct ib_recv_wr *wr, u32 id);

/* srq.c */
int pib_hca_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init_attr,
		       struct ib_udata *udata);
int pib_hca_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		       enum ib_srq_attr_mask mask, struct ib_udata *udata);
int pib_hca_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int pib_hca_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);
int pib_hca_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
			  const struct ib_recv_wr **bad_wr);
/*
 * Frees the id of a kernel SRQ's completed WQE and finds its wr_id; false if no posted WQE has that
 * id. Any context.
 */
bool pib_hca_srq_retire(struct pib_hca_srq *srq, u32 id, u64 *wr_id);

/* debugfs.c */
void pib_hca_debugfs_init(void);
void pib_hca_debugfs_exit(void);
/* Add and remove the files of a registered device. */
void pib_hca_debugfs_add(struct pib_hca_dev *dev);
void pib_hca_debugfs_remove(struct pib_hca_dev *dev);
/*
 * Add and remove the key of a region or window, the object `owner`. The key of another owner is not
 * removed: the device may have given the index of a destroyed object to another one.
 */
void pib_hca_debugfs_key_add(struct pib_hca_dev *dev, u32 key, void *owner);
void pib_hca_debugfs_key_remove(struct pib_hca_dev *dev, u32 key, void *owner);

/* restrack.c */
int pib_hca_fill_res_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr);
int pib_hca_fill_res_cq_entry(struct sk_buff *msg, struct ib_cq *ibcq);
int pib_hca_fill_res_qp_entry(struct sk_buff *msg, struct ib_qp *ibqp);
int pib_hca_fill_res_srq_entry(struct sk_buff *msg, struct ib_srq *ibsrq);

/* mcg.c */
int pib_hca_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);
int pib_hca_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);

/* mad.c */
int pib_hca_process_mad(struct ib_device *ibdev, int flags, u32 port, const struct ib_wc *in_wc,
			const struct ib_grh *in_grh, const struct ib_mad *in, struct ib_mad *out,
			size_t *out_mad_size, u16 *out_mad_pkey_index);

#include "pib_hca_memory.h"

#endif /* PIB_HCA_H */
