/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The differences between the kernels that the driver supports, 6.1 and newer. Kbuild looks for
 * each PIB_HCA_HAS_* in the kernel's headers, because distributions take changes earlier than their
 * version number says. compat.c has the verbs whose type differs, compat_odp.h the DMA mapping of
 * on-demand pages. Other files only leave out features that the kernel lacks.
 *
 * PIB_HCA_HAS_CREATE_CQ_ATTRS: create_cq receives all attributes of the command.
 * PIB_HCA_HAS_CREATE_USER_CQ: CQs of processes have an operation of their own.
 * PIB_HCA_HAS_REG_DMABUF_ATTRS: reg_user_mr_dmabuf receives all attributes of the command.
 * PIB_HCA_HAS_REG_MR_DMAH: reg_user_mr receives a DMA handle, a steering hint.
 * PIB_HCA_HAS_RESIZE_USER_CQ: resize_cq is called resize_user_cq and takes an unsigned count.
 * PIB_HCA_HAS_FILL_RES_SRQ: drivers may add details to `rdma resource show srq`.
 * PIB_HCA_HAS_UMEM_GET_VA: ib_umem_get() is called ib_umem_get_va().
 * PIB_HCA_HAS_ODP: the kernel supports on-demand paging.
 * PIB_HCA_HAS_ODP_DMA_LIST: the core maps on-demand pages for DMA into ib_umem_odp.dma_list.
 * Otherwise the driver maps them, in ib_umem_odp.map.
 * PIB_HCA_HAS_PLACEMENT: the core supports FLUSH and ATOMIC WRITE. Without it processes can use
 * ATOMIC WRITE, but cannot request the rights that FLUSH needs.
 * PIB_HCA_HAS_VM_FLAGS_MOD: only vm_flags_mod() and the like may change vm_flags.
 * PIB_HCA_HAS_DMA_DEV_NEED_SYNC: dma_need_sync() is exact for devices behind an IOMMU, unless
 * CONFIG_DMA_API_DEBUG makes it return true for all of them.
 */
#ifndef PIB_HCA_COMPAT_H
#define PIB_HCA_COMPAT_H

#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/pci.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

/* The iterators over DMA blocks moved here from ib_umem.h and ib_verbs.h. */
#if __has_include("rdma/iter.h")
#include <rdma/iter.h>
#endif

#if !defined(PIB_HCA_HAS_DMA_DEV_NEED_SYNC) || defined(CONFIG_DMA_API_DEBUG)
#define PIB_HCA_ASK_IOMMU
#include <linux/dma-map-ops.h>
#include <linux/iommu.h>
#endif

#ifndef PIB_HCA_HAS_PLACEMENT
#define IB_ACCESS_FLUSH_GLOBAL 0
#define IB_DEVICE_FLUSH_GLOBAL 0
#define IB_DEVICE_ATOMIC_WRITE 0
/* Numbers that only newer cores define. */
#define IB_WR_ATOMIC_WRITE 15
#define IB_WC_ATOMIC_WRITE ((enum ib_wc_opcode)9)
#endif

/* compat.c: create_cq, resize_cq, reg_user_mr, reg_user_mr_dmabuf, fill_res_srq_entry. */
extern const struct ib_device_ops pib_hca_compat_ops;

/* Pins a process's memory. */
static inline struct ib_umem *pib_hca_compat_umem_get(struct ib_device *ibdev, u64 addr,
						      size_t bytes, int access)
{
#ifdef PIB_HCA_HAS_UMEM_GET_VA
	return ib_umem_get_va(ibdev, addr, bytes, access);
#else
	return ib_umem_get(ibdev, addr, bytes, access);
#endif
}

static inline void pib_hca_compat_vm_flags_mod(struct vm_area_struct *vma, unsigned long set,
					       unsigned long clear)
{
#ifdef PIB_HCA_HAS_VM_FLAGS_MOD
	vm_flags_mod(vma, set, clear);
#else
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
#endif
}

/*
 * Returns whether a streaming mapping needs a sync at each use. With PIB_HCA_ASK_IOMMU the kernel's
 * dma_need_sync() returns true for each mapping by an IOMMU, even if it needs no sync. Behind an
 * IOMMU such a kernel uses bounce buffers for untrusted devices only.
 */
static inline bool pib_hca_compat_dma_need_sync(struct pci_dev *pdev, dma_addr_t dma)
{
#ifdef PIB_HCA_ASK_IOMMU
	struct iommu_domain *domain = iommu_get_domain_for_dev(&pdev->dev);

	if (domain && domain->type & __IOMMU_DOMAIN_PAGING)
		return pdev->untrusted || !dev_is_dma_coherent(&pdev->dev);
#endif
	return dma_need_sync(&pdev->dev, dma);
}

#endif /* PIB_HCA_COMPAT_H */
