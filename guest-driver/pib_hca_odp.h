/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * On-demand paging: regions whose pages are mapped when the device faults on them and unmapped when
 * the kernel reclaims them. The device walks a tree of tables in kernel memory at each access. To
 * unmap a page the driver clears its entry and then loads a register: the load returns when no
 * access uses the old entry any more.
 *
 * Locks, in the order in which they are taken:
 *   odp->mutex         growth of one region's tree, and its chunks; sleeps
 *   umem->umem_mutex   the entries of one umem's pages; invalidation takes only this mutex
 * No lock is held while the kernel faults memory in: a file server may take arbitrarily long.
 * A claim keeps other accesses from mapping the same pages meanwhile, because the kernel stores the
 * state of a page in one place, without a lock. A fault holds a reference to its region.
 */
#ifndef PIB_HCA_ODP_H
#define PIB_HCA_ODP_H

#include <linux/list.h>
#include <linux/wait.h>

#include "pib_hca.h"

#ifdef PIB_HCA_HAS_ODP
#include "compat_odp.h"

#define PIB_HCA_LOG_ENTRIES ilog2(PIB_HCA_TABLE_ENTRIES)
/* The bytes that one table of the lowest level describes. */
#define PIB_HCA_ODP_TABLE_BYTES ((u64)PIB_HCA_TABLE_ENTRIES << PAGE_SHIFT)

struct pib_hca_odp_node {
	__le64 *entries;
	dma_addr_t dma;
	struct pib_hca_odp_node **children; /* NULL at the lowest level */
	struct pib_hca_odp_node *next;      /* pib_hca_odp_hide(): the next table to free */
};

/* A part of an implicit region, with as many pages as one table describes. */
struct pib_hca_odp_chunk {
	struct ib_umem_odp *umem; /* a child of the region's umem */
	u32 users;                /* accesses that are mapping its pages */
	bool in_doubt;            /* one of these accesses may have mapped no page */
};

/* A range of addresses whose pages one access maps. */
struct pib_hca_odp_claim {
	struct list_head entry;
	u64 start;
	u64 end;
};

struct pib_hca_odp {
	struct pib_hca_dev *dev;
	struct ib_umem_odp *umem; /* implicit region: the parent of its chunks */
	struct xarray chunks;     /* by address / PIB_HCA_ODP_TABLE_BYTES */
	struct mutex mutex;
	struct list_head claims;
	spinlock_t claims_lock;   /* taken without any other lock */
	wait_queue_head_t claim_ends;
	/*
	 * Implicit region: the process's memory, which must stay allocated when the process has
	 * ended. The core keeps no reference for a umem that has no pages of its own.
	 */
	struct mm_struct *mm;
	struct pib_hca_ref ref;
	struct pib_hca_odp_node *root;
	u64 first;                /* address of the first entry's page */
	u32 levels;
	bool implicit;
};

/* odp_tree.c */

/* Returns the bytes that a tree of the device's greatest depth describes. */
u64 pib_hca_odp_reach(void);
/* Makes a tree for `pages` pages; 0 or -ENOMEM. */
int pib_hca_odp_tree_init(struct pib_hca_odp *odp, u64 pages);
void pib_hca_odp_tree_free(struct pib_hca_odp *odp);
/* Adds the tables for [start, end); 0 or -ENOMEM. odp->mutex is held. */
int pib_hca_odp_grow(struct pib_hca_odp *odp, u64 start, u64 end);
/*
 * Makes the kernel's state of each page of [start, end) agree with the tree: a page is mapped for
 * DMA if it has an entry. umem_mutex is held.
 */
void pib_hca_odp_settle(struct pib_hca_odp *odp, struct ib_umem_odp *umem, u64 start, u64 end);
/* Writes the entries of [start, end) as the kernel has mapped them. umem_mutex is held. */
int pib_hca_odp_show(struct pib_hca_odp *odp, struct ib_umem_odp *umem, u64 start, u64 end);
/* Returns whether the lowest table of `va` is missing or has no mapped page. umem_mutex is held. */
bool pib_hca_odp_is_empty(struct pib_hca_odp *odp, u64 va);
/*
 * Clears the entries of [start, end), waits for the device's accesses, and frees tables without a
 * mapped page. umem_mutex is held.
 */
void pib_hca_odp_hide(struct pib_hca_odp *odp, u64 start, u64 end);

/* odp.c */

/*
 * Maps the pages of an access by the device, or of a prefetch; without `fault`, only pages that are
 * in memory. -ENOENT: there is no such region; -EPERM or -EFAULT: the access is not allowed;
 * -EAGAIN, -EBUSY or -ENOMEM: the access may work later. `addr` is the address in work requests;
 * `ibpd`, unless NULL, must be the region's PD.
 */
int pib_hca_odp_demand(struct pib_hca_dev *dev, u32 key, struct ib_pd *ibpd, u64 addr, u64 length,
		       bool write, bool fault);

#endif /* PIB_HCA_HAS_ODP */
#endif /* PIB_HCA_ODP_H */
