/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Functions of memory regions, windows, device memory and on-demand paging: part of pib_hca.h. */
#ifndef PIB_HCA_MEMORY_H
#define PIB_HCA_MEMORY_H

/* ---------------------------------------------------------------- regions (mr.c) ------------- */

struct ib_mr *pib_hca_alloc_fast_mr(struct ib_pd *ibpd, enum ib_mr_type type, u32 max_pages);
int pib_hca_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int sg_nents,
		      unsigned int *sg_offset);
int pib_hca_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);
/* Returns a random byte: a stale key is unlikely to match the object that reuses its index. */
u8 pib_hca_new_key_byte(void);

struct ib_mr *pib_hca_get_dma_mr(struct ib_pd *ibpd, int access);
struct ib_mr *pib_hca_reg_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova, int access,
			     struct ib_udata *udata);
struct ib_mr *pib_hca_reg_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length, u64 iova, int fd,
				 int access, struct ib_udata *udata);
struct ib_mr *pib_hca_rereg_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length, u64 iova,
			       int access, struct ib_pd *ibpd, struct ib_udata *udata);

/* Allocates a region or returns ERR_PTR(-ENOMEM); sets `pd`, `access` and `key` of `in`. */
struct pib_hca_mr *pib_hca_alloc_mr(struct ib_pd *ibpd, struct pib_hca_create_mr *in, int access);
int pib_hca_create_mr_cmd(struct pib_hca_dev *dev, struct pib_hca_mr *mr,
			  const struct pib_hca_create_mr *in);
/* Registers the memory that `in` describes; sets its `pd`, `access` and `key`. */
struct ib_mr *pib_hca_reg_described(struct ib_pd *ibpd, struct pib_hca_create_mr *in, int access);

/* mw.c */
int pib_hca_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata);
int pib_hca_dealloc_mw(struct ib_mw *ibmw);

/* ---------------------------------------------------------------- device memory (dm.c) ------- */

extern const struct uapi_definition pib_hca_dm_defs[];
int pib_hca_dm_init(struct pib_hca_dev *dev);
void pib_hca_dm_cleanup(struct pib_hca_dev *dev);
/* Returns the attributes with which a process maps device memory. */
pgprot_t pib_hca_dm_pgprot(pgprot_t prot);
void pib_hca_dm_mmap_free(struct pib_hca_mmap_entry *entry);
struct ib_dm *pib_hca_alloc_dm(struct ib_device *ibdev, struct ib_ucontext *ibucontext,
			       struct ib_dm_alloc_attr *attr, struct uverbs_attr_bundle *attrs);
int pib_hca_dealloc_dm(struct ib_dm *ibdm, struct uverbs_attr_bundle *attrs);
struct ib_mr *pib_hca_reg_dm_mr(struct ib_pd *ibpd, struct ib_dm *ibdm,
				struct ib_dm_mr_attr *attr, struct uverbs_attr_bundle *attrs);

/* ---------------------------------------------------------------- on-demand paging (odp.c) --- */

#ifdef PIB_HCA_HAS_ODP
int pib_hca_odp_init(struct pib_hca_dev *dev);
void pib_hca_odp_cleanup(struct pib_hca_dev *dev);
void pib_hca_odp_caps(const struct pib_hca_dev *dev, struct ib_device_attr *attr);
/* Handles PIB_HCA_EVENT_PAGE_FAULT: schedules a work item that fetches the faults. Any context. */
void pib_hca_odp_event(struct pib_hca_dev *dev);
struct ib_mr *pib_hca_reg_odp_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova, int access);
int pib_hca_dereg_odp_mr(struct pib_hca_dev *dev, struct pib_hca_mr *mr);
int pib_hca_advise_mr(struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
		      struct ib_sge *sges, u32 num_sge, struct uverbs_attr_bundle *attrs);
#else
#define pib_hca_advise_mr NULL
static inline int pib_hca_odp_init(struct pib_hca_dev *dev)
{
	return 0;
}

static inline void pib_hca_odp_cleanup(struct pib_hca_dev *dev)
{
}

static inline void pib_hca_odp_caps(const struct pib_hca_dev *dev, struct ib_device_attr *attr)
{
}

static inline void pib_hca_odp_event(struct pib_hca_dev *dev)
{
}

static inline struct ib_mr *pib_hca_reg_odp_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova,
					       int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static inline int pib_hca_dereg_odp_mr(struct pib_hca_dev *dev, struct pib_hca_mr *mr)
{
	return -EOPNOTSUPP;
}
#endif

#endif /* PIB_HCA_MEMORY_H */
