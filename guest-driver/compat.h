/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* All that differs between the kernels that the driver supports, 6.1 and newer. */
#ifndef PIB_HCA_COMPAT_H
#define PIB_HCA_COMPAT_H

#include <linux/version.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

struct pib_hca_dev;

/* 6.11: create_cq is given all of a command's attributes, not the driver's data alone. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
#define PIB_HCA_CREATE_CQ_LAST_ARG struct uverbs_attr_bundle *attrs
#define PIB_HCA_CREATE_CQ_UDATA (attrs ? &attrs->driver_udata : NULL)
#else
#define PIB_HCA_CREATE_CQ_LAST_ARG struct ib_udata *udata
#define PIB_HCA_CREATE_CQ_UDATA udata
#endif

/*
 * PIB_HCA_HAS_REG_MR_DMAH (from Kbuild): reg_user_mr may be given a DMA handle, a hint on steering
 * that this device does not know.
 * PIB_HCA_HAS_REG_DMABUF_ATTRS: reg_user_mr_dmabuf is given all attributes, as create_cq.
 * PIB_HCA_HAS_UMEM_GET_VA: user memory by address is one of several kinds.
 * PIB_HCA_HAS_FILL_RES_SRQ: SRQs can have details in `rdma resource` as other objects have.
 * PIB_HCA_HAS_ODP: the kernel pages on demand and tells in ib_umem_odp.dma_list what it has mapped.
 * PIB_HCA_HAS_PLACEMENT: the core knows FLUSH and ATOMIC WRITE. Elsewhere processes can use ATOMIC
 * WRITE all the same, but cannot ask for the rights that FLUSH needs.
 */
#ifndef PIB_HCA_HAS_PLACEMENT
#define IB_ACCESS_FLUSH_GLOBAL 0
#define IB_DEVICE_FLUSH_GLOBAL 0
#define IB_DEVICE_ATOMIC_WRITE 0
#endif

#ifdef PIB_HCA_HAS_UMEM_GET_VA
static inline struct ib_umem *pib_hca_umem_get(struct ib_device *ibdev, u64 addr, size_t bytes,
					       int access)
{
	return ib_umem_get_va(ibdev, addr, bytes, access);
}
#else
static inline struct ib_umem *pib_hca_umem_get(struct ib_device *ibdev, u64 addr, size_t bytes,
					       int access)
{
	return ib_umem_get(ibdev, addr, bytes, access);
}
#endif

#endif /* PIB_HCA_COMPAT_H */
