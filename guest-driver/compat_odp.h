/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* On-demand paging: either the core or the driver maps pages for DMA; see compat.h. */
#ifndef PIB_HCA_COMPAT_ODP_H
#define PIB_HCA_COMPAT_ODP_H

#include <rdma/ib_umem_odp.h>

#ifdef PIB_HCA_HAS_ODP_DMA_LIST

/* The access mask of ib_umem_odp_map_dma_and_lock(). */
static inline u64 pib_hca_compat_odp_access(bool write)
{
	return ODP_READ_ALLOWED_BIT | (write ? ODP_WRITE_ALLOWED_BIT : 0);
}

/* The core changes the state of a page with umem_mutex held, so it needs no correction. */
#define PIB_HCA_ODP_NEEDS_SETTLING false

static inline void pib_hca_compat_odp_settle(struct ib_umem_odp *umem, size_t index, bool mapped)
{
}

/*
 * Changes *entry from the device's present entry of a page to the new one, 0 if the page is absent.
 * Returns 0 or -EFAULT. umem_mutex is held.
 */
static inline int pib_hca_compat_odp_entry(struct ib_umem_odp *umem, size_t index, u64 *entry)
{
	BUILD_BUG_ON(ODP_READ_ALLOWED_BIT != PIB_HCA_ON_DEMAND_READ ||
		     ODP_WRITE_ALLOWED_BIT != PIB_HCA_ON_DEMAND_WRITE);
	*entry = umem->dma_list[index];
	return 0;
}

#else

#include <linux/hmm.h>
#include <linux/pci-p2pdma.h>

static inline u64 pib_hca_compat_odp_access(bool write)
{
	return write ? HMM_PFN_WRITE : 0;
}

#define PIB_HCA_ODP_NEEDS_SETTLING true

/*
 * Corrects the flags that say whether a page is mapped for DMA. hmm_range_fault() copies the flags
 * without umem_mutex: if the page is unmapped meanwhile, the next page at the address gets the flag
 * of a mapped page. If hmm_range_fault() finds no VMA and may not fault pages in, it replaces the
 * entry of a mapped page by an error, although the invalidation must still unmap the page: munmap()
 * removes the VMA first. umem_mutex is held.
 */
static inline void pib_hca_compat_odp_settle(struct ib_umem_odp *umem, size_t index, bool mapped)
{
	if (mapped)
		umem->map.pfn_list[index] |= HMM_PFN_VALID | HMM_PFN_DMA_MAPPED;
	else
		umem->map.pfn_list[index] &=
			~(HMM_PFN_DMA_MAPPED | HMM_PFN_P2PDMA | HMM_PFN_P2PDMA_BUS);
}

/*
 * Maps the page for DMA, unless its entry shows that it is mapped already;
 * ib_umem_odp_unmap_dma_pages() unmaps it.
 */
static inline int pib_hca_compat_odp_entry(struct ib_umem_odp *umem, size_t index, u64 *entry)
{
	struct device *dma_dev = umem->umem.ibdev->dma_device;
	unsigned long pfn = umem->map.pfn_list[index];
	struct pci_p2pdma_map_state p2pdma = {};
	dma_addr_t dma = *entry & PAGE_MASK;

	if (!(pfn & HMM_PFN_VALID)) {
		*entry = 0;
		return 0;
	}
	if (!*entry) {
		dma = hmm_dma_map_pfn(dma_dev, &umem->map, index, &p2pdma);
		if (dma_mapping_error(dma_dev, dma))
			return -EFAULT;
		umem->npages++;
	}
	*entry = dma | PIB_HCA_ON_DEMAND_READ;
	if ((pfn & HMM_PFN_WRITE) && umem->umem.writable)
		*entry |= PIB_HCA_ON_DEMAND_WRITE;
	return 0;
}

#endif

#endif /* PIB_HCA_COMPAT_ODP_H */
