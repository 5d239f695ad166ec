// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Device memory: RAM behind BAR2 that processes map and register. The device addresses it by bus
 * address, like all memory; only this file knows which process has which page.
 */
#include <linux/dma-mapping.h>
#include <linux/genalloc.h>
#include <linux/io.h>
#include <rdma/uverbs_ioctl.h>

#include "pib_hca.h"

#define UVERBS_MODULE_NAME pib_hca
#include <rdma/uverbs_named_ioctl.h>

struct pib_hca_dm {
	struct ib_dm ibdm;
	struct pib_hca_dm_entry *entry;
};

/* The pages of one allocation; freed when the last process has unmapped them. */
struct pib_hca_dm_entry {
	struct pib_hca_mmap_entry mmap;
	size_t bytes; /* taken from the pool */
	u64 length;   /* requested, in bytes */
};

static struct pib_hca_dm *to_pdm(struct ib_dm *ibdm)
{
	return container_of(ibdm, struct pib_hca_dm, ibdm);
}

static void pib_hca_free_dm_pages(struct pib_hca_dm_entry *entry)
{
	gen_pool_free(entry->mmap.dev->dm.pool, entry->mmap.addr, entry->bytes);
	kfree(entry);
}

void pib_hca_dm_mmap_free(struct pib_hca_mmap_entry *entry)
{
	pib_hca_free_dm_pages(container_of(entry, struct pib_hca_dm_entry, mmap));
}

/* Allocates zeroed pages at a multiple of 1 << log_align bytes; NULL: no memory. */
static struct pib_hca_dm_entry *pib_hca_alloc_dm_pages(struct pib_hca_dev *dev, u64 length,
						       u32 log_align)
{
	struct genpool_data_align align = { .align = BIT(max_t(u32, log_align, PAGE_SHIFT)) };
	struct pib_hca_dm_entry *entry;

	entry = kzalloc(sizeof(*entry), GFP_KERNEL);
	if (!entry)
		return NULL;
	entry->mmap.dev = dev;
	entry->mmap.kind = PIB_HCA_MMAP_DM;
	entry->bytes = PAGE_ALIGN(length);
	entry->length = length;
	entry->mmap.addr = gen_pool_alloc_algo(dev->dm.pool, entry->bytes,
					       gen_pool_first_fit_align, &align);
	if (!entry->mmap.addr) {
		kfree(entry);
		return NULL;
	}
	/* The pages may contain another process's data. */
	memset_io(dev->dm.cpu + (entry->mmap.addr - dev->dm.start), 0, entry->bytes);
	return entry;
}

struct ib_dm *pib_hca_alloc_dm(struct ib_device *ibdev, struct ib_ucontext *ibucontext,
			       struct ib_dm_alloc_attr *attr, struct uverbs_attr_bundle *attrs)
{
	struct pib_hca_dev *dev = to_pdev(ibdev);
	struct pib_hca_dm *dm;
	u64 offset;
	int ret;

	if (!dev->dm.bytes)
		return ERR_PTR(-EOPNOTSUPP);
	if (!attr->length || attr->alignment > ilog2(INT_MAX))
		return ERR_PTR(-EINVAL);
	if (attr->length > dev->dm.bytes)
		return ERR_PTR(-ENOMEM);
	dm = kzalloc(sizeof(*dm), GFP_KERNEL);
	if (!dm)
		return ERR_PTR(-ENOMEM);
	dm->entry = pib_hca_alloc_dm_pages(dev, attr->length, attr->alignment);
	if (!dm->entry) {
		ret = -ENOMEM;
		goto err_dm;
	}
	ret = rdma_user_mmap_entry_insert(ibucontext, &dm->entry->mmap.rdma_entry,
					  dm->entry->bytes);
	if (ret) {
		pib_hca_free_dm_pages(dm->entry);
		goto err_dm;
	}
	offset = rdma_user_mmap_get_offset(&dm->entry->mmap.rdma_entry);
	ret = uverbs_copy_to(attrs, PIB_HCA_ATTR_ALLOC_DM_MMAP_OFFSET, &offset, sizeof(offset));
	if (ret)
		goto err_entry;
	return &dm->ibdm;

err_entry:
	rdma_user_mmap_entry_remove(&dm->entry->mmap.rdma_entry);
err_dm:
	kfree(dm);
	return ERR_PTR(ret);
}

int pib_hca_dealloc_dm(struct ib_dm *ibdm, struct uverbs_attr_bundle *attrs)
{
	struct pib_hca_dm *dm = to_pdm(ibdm);

	rdma_user_mmap_entry_remove(&dm->entry->mmap.rdma_entry);
	kfree(dm);
	return 0;
}

/* The core has checked that the range lies in the memory and that access has IB_ZERO_BASED. */
struct ib_mr *pib_hca_reg_dm_mr(struct ib_pd *ibpd, struct ib_dm *ibdm,
				struct ib_dm_mr_attr *attr, struct uverbs_attr_bundle *attrs)
{
	struct pib_hca_dm_entry *entry = to_pdm(ibdm)->entry;
	struct pib_hca_dev *dev = to_pdev(ibpd->device);
	u64 first = entry->mmap.addr - dev->dm.start + attr->offset;
	struct pib_hca_create_mr in = {
		.length = cpu_to_le64(attr->length),
		.page_offset = cpu_to_le32(offset_in_page(first)),
		.pages.root = cpu_to_le64(dev->dm.bus + (first & PAGE_MASK)),
		.pages.page_count =
			cpu_to_le32(PFN_UP(offset_in_page(first) + attr->length)),
		.pages.log_page_size = PAGE_SHIFT,
	};

	/* An empty region: its key gives access to no byte. */
	struct pib_hca_create_mr nothing = {
		.pages.page_count = cpu_to_le32(1),
		.flags = PIB_HCA_MR_FAST,
	};

	if (attr->offset % sizeof(u32) || attr->length % sizeof(u32))
		return ERR_PTR(-EINVAL);
	if (!attr->length)
		return pib_hca_reg_described(ibpd, &nothing, 0);
	return pib_hca_reg_described(ibpd, &in, attr->access_flags);
}

static int UVERBS_HANDLER(PIB_HCA_METHOD_DM_QUERY)(struct uverbs_attr_bundle *attrs)
{
	struct ib_dm *ibdm = uverbs_attr_get_obj(attrs, PIB_HCA_ATTR_DM_QUERY_HANDLE);
	struct pib_hca_dm_entry *entry;
	u64 offset;
	int ret;

	if (IS_ERR(ibdm))
		return PTR_ERR(ibdm);
	entry = to_pdm(ibdm)->entry;
	offset = rdma_user_mmap_get_offset(&entry->mmap.rdma_entry);
	ret = uverbs_copy_to(attrs, PIB_HCA_ATTR_DM_QUERY_MMAP_OFFSET, &offset, sizeof(offset));
	if (ret)
		return ret;
	return uverbs_copy_to(attrs, PIB_HCA_ATTR_DM_QUERY_LENGTH, &entry->length,
			      sizeof(entry->length));
}

DECLARE_UVERBS_NAMED_METHOD(PIB_HCA_METHOD_DM_QUERY,
			    UVERBS_ATTR_IDR(PIB_HCA_ATTR_DM_QUERY_HANDLE, UVERBS_OBJECT_DM,
					    UVERBS_ACCESS_READ, UA_MANDATORY),
			    UVERBS_ATTR_PTR_OUT(PIB_HCA_ATTR_DM_QUERY_MMAP_OFFSET,
						UVERBS_ATTR_TYPE(u64), UA_MANDATORY),
			    UVERBS_ATTR_PTR_OUT(PIB_HCA_ATTR_DM_QUERY_LENGTH,
						UVERBS_ATTR_TYPE(u64), UA_MANDATORY));

ADD_UVERBS_METHODS(pib_hca_dm_query, UVERBS_OBJECT_DM,
		   &UVERBS_METHOD(PIB_HCA_METHOD_DM_QUERY));

ADD_UVERBS_ATTRIBUTES_SIMPLE(pib_hca_dm_alloc, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC,
			     UVERBS_ATTR_PTR_OUT(PIB_HCA_ATTR_ALLOC_DM_MMAP_OFFSET,
						 UVERBS_ATTR_TYPE(u64), UA_MANDATORY));

const struct uapi_definition pib_hca_dm_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DM, &pib_hca_dm_alloc),
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DM, &pib_hca_dm_query),
	{}
};

/* ---------------------------------------------------------------- the BAR -------------------- */

/*
 * The host uses the device's memory as RAM, through its caches. On arm64 a mapping that bypasses
 * the caches need not see data that is still in them; on x86 the caches stay coherent with every
 * mapping.
 */
static u8 __iomem *pib_hca_dm_ioremap(struct pib_hca_dev *dev)
{
	if (IS_ENABLED(CONFIG_ARM64))
		return (u8 __iomem __force *)memremap(dev->dm.start, dev->dm.bytes, MEMREMAP_WB);
	return ioremap_wc(dev->dm.start, dev->dm.bytes);
}

static void pib_hca_dm_iounmap(struct pib_hca_dev *dev)
{
	if (IS_ENABLED(CONFIG_ARM64))
		memunmap((void __force *)dev->dm.cpu);
	else
		iounmap(dev->dm.cpu);
}

pgprot_t pib_hca_dm_pgprot(pgprot_t prot)
{
	return IS_ENABLED(CONFIG_ARM64) ? prot : pgprot_writecombine(prot);
}

static int pib_hca_dm_map(struct pib_hca_dev *dev)
{
	dev->dm.cpu = pib_hca_dm_ioremap(dev);
	if (!dev->dm.cpu)
		return -ENOMEM;
	/* The device reaches its own BAR over the bus, through an IOMMU if there is one. */
	dev->dm.bus = dma_map_resource(&dev->pdev->dev, dev->dm.start, dev->dm.bytes,
				       DMA_BIDIRECTIONAL, 0);
	if (dma_mapping_error(&dev->pdev->dev, dev->dm.bus)) {
		pib_hca_dm_iounmap(dev);
		return -EIO;
	}
	return 0;
}

static void pib_hca_dm_unmap(struct pib_hca_dev *dev)
{
	dma_unmap_resource(&dev->pdev->dev, dev->dm.bus, dev->dm.bytes, DMA_BIDIRECTIONAL, 0);
	pib_hca_dm_iounmap(dev);
}

int pib_hca_dm_init(struct pib_hca_dev *dev)
{
	u64 bytes = (u64)le32_to_cpu(dev->caps.device_memory_pages) * PIB_HCA_UAR_PAGE_SIZE;
	u64 bar = pci_resource_len(dev->pdev, PIB_HCA_BAR_UAR);
	int ret;

	if (!bytes)
		return 0;
	if (bar < PIB_HCA_DEVICE_MEMORY_OFFSET || bytes > bar - PIB_HCA_DEVICE_MEMORY_OFFSET) {
		dev_err(&dev->pdev->dev, "BAR%d has no room for its memory: update QEMU's device\n",
			PIB_HCA_BAR_UAR);
		return -ENODEV;
	}
	dev->dm.start = dev->uar_base + PIB_HCA_DEVICE_MEMORY_OFFSET;
	dev->dm.bytes = bytes;
	ret = pib_hca_dm_map(dev);
	if (ret)
		return ret;
	dev->dm.pool = gen_pool_create(PAGE_SHIFT, NUMA_NO_NODE);
	if (!dev->dm.pool) {
		ret = -ENOMEM;
		goto err_map;
	}
	ret = gen_pool_add(dev->dm.pool, dev->dm.start, bytes, NUMA_NO_NODE);
	if (ret)
		goto err_pool;
	return 0;

err_pool:
	gen_pool_destroy(dev->dm.pool);
err_map:
	pib_hca_dm_unmap(dev);
	return ret;
}

void pib_hca_dm_cleanup(struct pib_hca_dev *dev)
{
	if (!dev->dm.bytes)
		return;
	/*
	 * gen_pool_destroy() stops the machine if something is still allocated, so leak the pool
	 * then.
	 */
	if (!WARN_ON(gen_pool_avail(dev->dm.pool) != gen_pool_size(dev->dm.pool)))
		gen_pool_destroy(dev->dm.pool);
	pib_hca_dm_unmap(dev);
}
