/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The uverbs ABI between pib_hca.ko and libpib. Sizes are multiples of 8, 64-bit fields are aligned;
 * comp_mask bits announce what a later version adds.
 */
#ifndef PIB_HCA_ABI_H
#define PIB_HCA_ABI_H

#include <linux/types.h>

#define PIB_HCA_UVERBS_ABI_VERSION 1

struct pib_hca_alloc_ucontext_req {
	__u32 comp_mask;
	__u32 reserved;
};

struct pib_hca_alloc_ucontext_resp {
	__u32 comp_mask;
	__u32 uar;                   /* UAR page number */
	__aligned_u64 uar_mmap_offset; /* offset for mmap() of the UAR page */
	__u32 max_qp_wr;
	__u32 max_sge;
	__u32 max_inline_data;
	__u32 max_cqe;
	__aligned_u64 shadow_mmap_offset; /* for mmap() of the shadow doorbell page */
};
/* In comp_mask: send doorbells are bits of struct pib_hca_shadow_page, not PIB_HCA_UAR_SEND. */
#define PIB_HCA_UCONTEXT_SHADOW_PAGE (1u << 0)

/* Driver-specific ioctl() commands and attributes: for ibv_import_device(), ibv_import_pd(). */
enum pib_hca_query_context_attrs {
	PIB_HCA_ATTR_QUERY_CONTEXT_RESP = 1u << 12, /* out: pib_hca_alloc_ucontext_resp */
};
enum pib_hca_pd_methods {
	PIB_HCA_METHOD_PD_QUERY = 1u << 12, /* succeeds if a PD has this handle */
};
enum pib_hca_pd_query_attrs {
	PIB_HCA_ATTR_PD_QUERY_HANDLE = 1u << 12,
};

/* Driver attributes of UVERBS_METHOD_DM_ALLOC; they begin at 1 << UVERBS_ID_NS_SHIFT. */
enum pib_hca_alloc_dm_attr {
	PIB_HCA_ATTR_ALLOC_DM_MMAP_OFFSET = 1u << 12, /* out, u64: for mmap() of the memory */
};
/* Methods and attributes for ibv_import_dm(). */
enum pib_hca_dm_methods {
	PIB_HCA_METHOD_DM_QUERY = 1u << 12,
};
enum pib_hca_dm_query_attrs {
	PIB_HCA_ATTR_DM_QUERY_HANDLE = 1u << 12,
	PIB_HCA_ATTR_DM_QUERY_MMAP_OFFSET, /* out, u64: offset for mmap() of the memory */
	PIB_HCA_ATTR_DM_QUERY_LENGTH,      /* out, u64: the length in ALLOC_DM, bytes */
};

struct pib_hca_alloc_pd_resp {
	__u32 pdn;
	__u32 reserved;
};

/* The buffer: pib_hca_cq_header, then 2^log_depth CQEs; page aligned, in the process's memory. */
struct pib_hca_create_cq_req {
	__aligned_u64 buf_addr;
	__u32 buf_length;
	__u8 log_depth;
	__u8 reserved[3];
};

/* The new buffer of a resized CQ, zeroed. */
struct pib_hca_resize_cq_req {
	__aligned_u64 buf_addr;
	__u32 buf_length;
	__u8 log_depth;
	__u8 reserved[3];
};

struct pib_hca_create_cq_resp {
	__u32 cqn;
	__u32 reserved;
};

/*
 * The fields are those of struct pib_hca_create_qp, in host order; the buffer is page aligned, like
 * that of a CQ. An offset of 0 means that there is no such queue (PIB_HCA_QP_NO_SQ,
 * PIB_HCA_QP_NO_RQ); its other fields are 0.
 */
struct pib_hca_create_qp_req {
	__aligned_u64 buf_addr;
	__u32 buf_length;
	__u32 sq_offset;
	__u32 rq_offset;
	__u32 max_inline;
	__u8 log_sq_depth;
	__u8 log_rq_depth;
	__u8 log_sq_stride;
	__u8 log_rq_stride;
	__u8 reserved[4];
};

struct pib_hca_create_qp_resp {
	__u32 qpn; /* for doorbells and CQEs */
	__u32 reserved;
};

/*
 * The buffer: pib_hca_srq_header, then 2^log_depth entries of 2^log_stride bytes; page aligned,
 * like that of a CQ.
 */
struct pib_hca_create_srq_req {
	__aligned_u64 buf_addr;
	__u32 buf_length;
	__u8 log_depth;
	__u8 log_stride;
	__u8 reserved[2];
};

struct pib_hca_create_srq_resp {
	__u32 srqn;
	__u32 reserved;
};

/* With IB_SRQ_MAX_WR: the buffer to which the queue moves. */
struct pib_hca_modify_srq_req {
	__aligned_u64 buf_addr;
	__u32 buf_length;
	__u8 log_depth;
	__u8 reserved[3];
};

#endif /* PIB_HCA_ABI_H */
