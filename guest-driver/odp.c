// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * On-demand paging: regions whose pages come when the device asks for them and go when the kernel
 * wants them back. The device walks a tree of tables in our memory at each access. A page leaves
 * the tree by clearing its entry and then loading a register, which returns when no access uses the
 * old entry any more.
 *
 * Locks: dev->odp.lock (mutex) keeps regions in place and orders the growth of their trees; under
 * it the process's memory is faulted in. umem_mutex of each umem, inside of it, guards the entries;
 * the kernel's invalidation takes only this one.
 */
#include <rdma/ib_umem_odp.h>

#include "pib_hca.h"

#ifdef PIB_HCA_HAS_ODP

#define PIB_HCA_LOG_ENTRIES ilog2(PIB_HCA_TABLE_ENTRIES)
/* Of an implicit region: what one table of the lowest level describes. */
#define PIB_HCA_ODP_CHUNK ((u64)PIB_HCA_TABLE_ENTRIES << PAGE_SHIFT)

struct pib_hca_odp_node {
	__le64 *entries;
	dma_addr_t dma;
	struct pib_hca_odp_node **children; /* NULL at the lowest level */
};

struct pib_hca_odp {
	struct pib_hca_dev *dev;
	struct ib_umem_odp *umem; /* of an implicit region the root of its chunks */
	struct xarray chunks;     /* of an implicit region: ib_umem_odp by address */
	struct pib_hca_odp_node *root;
	u64 first;                /* address of the first entry's page */
	u32 levels;
	bool implicit;
};

/* ---------------------------------------------------------------- the tree ------------------- */

static struct pib_hca_odp_node *pib_hca_odp_node_alloc(struct pib_hca_dev *dev, bool lowest)
{
	struct pib_hca_odp_node *node = kzalloc(sizeof(*node), GFP_KERNEL);

	if (!node)
		return NULL;
	node->entries = dma_alloc_coherent(&dev->pdev->dev, PAGE_SIZE, &node->dma, GFP_KERNEL);
	if (!node->entries)
		goto err_node;
	if (lowest)
		return node;
	node->children = kcalloc(PIB_HCA_TABLE_ENTRIES, sizeof(*node->children), GFP_KERNEL);
	if (node->children)
		return node;
	dma_free_coherent(&dev->pdev->dev, PAGE_SIZE, node->entries, node->dma);
err_node:
	kfree(node);
	return NULL;
}

/* Depth is at most PIB_HCA_MAX_ON_DEMAND_LEVELS. */
static void pib_hca_odp_node_free(struct pib_hca_dev *dev, struct pib_hca_odp_node *node)
{
	u32 i;

	if (!node)
		return;
	for (i = 0; node->children && i < PIB_HCA_TABLE_ENTRIES; i++)
		pib_hca_odp_node_free(dev, node->children[i]);
	kfree(node->children);
	dma_free_coherent(&dev->pdev->dev, PAGE_SIZE, node->entries, node->dma);
	kfree(node);
}

/* The entry of the page at `va`, with its tables if `grow`; otherwise NULL where there are none. */
static __le64 *pib_hca_odp_entry(struct pib_hca_odp *odp, u64 va, bool grow)
{
	u64 page = (va - odp->first) >> PAGE_SHIFT;
	struct pib_hca_odp_node *node = odp->root;
	u32 level, index;

	for (level = odp->levels - 1; level > 0; level--) {
		struct pib_hca_odp_node *child;

		index = page >> (level * PIB_HCA_LOG_ENTRIES) & (PIB_HCA_TABLE_ENTRIES - 1);
		/* Pairs with the release below: a table is seen with all that is in it. */
		child = smp_load_acquire(&node->children[index]);
		if (!child) {
			if (!grow)
				return NULL;
			child = pib_hca_odp_node_alloc(odp->dev, level == 1);
			if (!child)
				return NULL;
			WRITE_ONCE(node->entries[index],
				   cpu_to_le64(child->dma | PIB_HCA_ON_DEMAND_READ));
			/* Pairs with the acquire above: who looks up does not take the lock. */
			smp_store_release(&node->children[index], child);
		}
		node = child;
	}
	return &node->entries[page & (PIB_HCA_TABLE_ENTRIES - 1)];
}

static int pib_hca_odp_grow(struct pib_hca_odp *odp, u64 start, u64 end)
{
	u64 va;

	for (va = start; va < end; va = ALIGN_DOWN(va - odp->first, PIB_HCA_ODP_CHUNK) +
					odp->first + PIB_HCA_ODP_CHUNK)
		if (!pib_hca_odp_entry(odp, va, true))
			return -ENOMEM;
	return 0;
}

/* What the umem's mutex guards: its pages in [start, end) as the kernel has mapped them. */
static void pib_hca_odp_show(struct pib_hca_odp *odp, struct ib_umem_odp *umem, u64 start, u64 end)
{
	u64 va;

	BUILD_BUG_ON(ODP_READ_ALLOWED_BIT != PIB_HCA_ON_DEMAND_READ ||
		     ODP_WRITE_ALLOWED_BIT != PIB_HCA_ON_DEMAND_WRITE);
	for (va = start; va < end; va += PAGE_SIZE) {
		u64 dma = umem->dma_list[(va - ib_umem_start(umem)) >> umem->page_shift];
		u64 in_page = (va - ib_umem_start(umem)) & (BIT_ULL(umem->page_shift) - 1);
		__le64 *entry = pib_hca_odp_entry(odp, va, false);

		if (entry)
			WRITE_ONCE(*entry, cpu_to_le64(dma ? dma + in_page : 0));
	}
}

/* ---------------------------------------------------------------- pages that go -------------- */

static bool pib_hca_odp_invalidate(struct mmu_interval_notifier *mni,
				   const struct mmu_notifier_range *range, unsigned long cur_seq)
{
	struct ib_umem_odp *umem = container_of(mni, struct ib_umem_odp, notifier);
	struct pib_hca_odp *odp;
	u64 start, end, va;

	if (!mmu_notifier_range_blockable(range))
		return false;
	mutex_lock(&umem->umem_mutex);
	mmu_interval_set_seq(mni, cur_seq);
	odp = umem->private;
	if (!odp || !umem->npages)
		goto out;
	start = max_t(u64, ib_umem_start(umem), range->start);
	end = min_t(u64, ib_umem_end(umem), range->end);
	/* Of a large page all goes. */
	start = ALIGN_DOWN(start, BIT_ULL(umem->page_shift));
	end = ALIGN(end, BIT_ULL(umem->page_shift));
	for (va = start; va < end; va += PAGE_SIZE) {
		__le64 *entry = pib_hca_odp_entry(odp, va, false);

		if (entry)
			WRITE_ONCE(*entry, 0);
	}
	/* After it the device is through with what it has found in the entries. */
	wmb();
	pib_hca_read(odp->dev, PIB_HCA_REG_STATUS);
	ib_umem_odp_unmap_dma_pages(umem, start, end);
out:
	mutex_unlock(&umem->umem_mutex);
	return true;
}

static const struct mmu_interval_notifier_ops pib_hca_odp_ops = {
	.invalidate = pib_hca_odp_invalidate,
};

/* ---------------------------------------------------------------- pages that come ------------ */

/* The umem of the page at `va`; that of an implicit region's chunk is made at its first use. */
static struct ib_umem_odp *pib_hca_odp_umem_at(struct pib_hca_odp *odp, u64 va)
{
	unsigned long index = va / PIB_HCA_ODP_CHUNK;
	struct ib_umem_odp *chunk;
	int ret;

	if (!odp->implicit)
		return odp->umem;
	chunk = xa_load(&odp->chunks, index);
	if (chunk)
		return chunk;
	chunk = ib_umem_odp_alloc_child(odp->umem, index * PIB_HCA_ODP_CHUNK, PIB_HCA_ODP_CHUNK,
					&pib_hca_odp_ops);
	if (IS_ERR(chunk))
		return chunk;
	ret = xa_err(xa_store(&odp->chunks, index, chunk, GFP_KERNEL));
	if (ret) {
		ib_umem_odp_release(chunk);
		return ERR_PTR(ret);
	}
	mutex_lock(&chunk->umem_mutex);
	chunk->private = odp;
	mutex_unlock(&chunk->umem_mutex);
	return chunk;
}

/* Of one umem. */
static int pib_hca_odp_map_part(struct pib_hca_odp *odp, struct ib_umem_odp *umem, u64 start,
				u64 end, bool write, bool fault)
{
	u64 access = ODP_READ_ALLOWED_BIT;
	int ret;

	if (write) {
		if (!umem->umem.writable)
			return -EPERM;
		access |= ODP_WRITE_ALLOWED_BIT;
	}
	ret = pib_hca_odp_grow(odp, start, end);
	if (ret)
		return ret;
	ret = ib_umem_odp_map_dma_and_lock(umem, start, end - start, access, fault);
	if (ret < 0)
		return ret;
	pib_hca_odp_show(odp, umem, start, end);
	/* The entries before whatever makes the device look at them again. */
	wmb();
	mutex_unlock(&umem->umem_mutex);
	return 0;
}

static int pib_hca_odp_map(struct pib_hca_odp *odp, u64 va, u64 length, bool write, bool fault)
{
	u64 end = PAGE_ALIGN(va + length);
	int ret;

	for (va &= PAGE_MASK; va < end;) {
		struct ib_umem_odp *umem = pib_hca_odp_umem_at(odp, va);
		u64 stop;

		if (IS_ERR(umem))
			return PTR_ERR(umem);
		stop = min_t(u64, end, ib_umem_end(umem));
		if (va < ib_umem_start(umem) || va >= stop)
			return -EFAULT;
		ret = pib_hca_odp_map_part(odp, umem, va, stop, write, fault);
		if (ret)
			return ret;
		va = stop;
	}
	return 0;
}

/* The region with this key. dev->odp.lock is held. */
static struct pib_hca_mr *pib_hca_odp_find(struct pib_hca_dev *dev, u32 key)
{
	struct pib_hca_mr *mr = xa_load(&dev->odp.mrs, key >> PIB_HCA_KEY_INDEX_SHIFT);

	return mr && mr->ibmr.lkey == key ? mr : NULL;
}

/* `addr` counts as in work requests. */
static int pib_hca_odp_demand(struct pib_hca_dev *dev, u32 key, struct ib_pd *ibpd, u64 addr,
			      u64 length, bool write, bool fault)
{
	struct pib_hca_mr *mr;
	int ret = -ENOENT;

	mutex_lock(&dev->odp.lock);
	mr = pib_hca_odp_find(dev, key);
	if (mr && ibpd && mr->ibmr.pd != ibpd)
		ret = -EPERM;
	else if (mr && (addr < mr->iova || addr + length < addr || length > mr->odp_length ||
			addr - mr->iova > mr->odp_length - length))
		ret = -EFAULT;
	else if (mr)
		ret = pib_hca_odp_map(mr->odp, addr - mr->iova + mr->odp_start, length, write,
				      fault);
	mutex_unlock(&dev->odp.lock);
	return ret;
}

static void pib_hca_odp_work(struct work_struct *work)
{
	struct pib_hca_dev *dev = container_of(work, struct pib_hca_dev, odp.work);
	struct pib_hca_resume_page_fault resume;
	struct pib_hca_page_fault fault;
	u32 flags;

	while (!pib_hca_cmd_query(dev, PIB_HCA_CMD_QUERY_PAGE_FAULT, 0, &fault, sizeof(fault)) &&
	       fault.length) {
		flags = le32_to_cpu(fault.flags);
		memset(&resume, 0, sizeof(resume));
		if (pib_hca_odp_demand(dev, le32_to_cpu(fault.key), NULL, le64_to_cpu(fault.addr),
				       le64_to_cpu(fault.length),
				       flags & PIB_HCA_PAGE_FAULT_WRITE, true))
			resume.flags = cpu_to_le32(PIB_HCA_PAGE_FAULT_REFUSED);
		resume.flags |= cpu_to_le32(flags & PIB_HCA_PAGE_FAULT_RESPONDER);
		/* The QP may have gone meanwhile. */
		pib_hca_cmd_set(dev, PIB_HCA_CMD_RESUME_PAGE_FAULT, le32_to_cpu(fault.qpn),
				&resume, sizeof(resume));
		cond_resched();
	}
}

void pib_hca_odp_event(struct pib_hca_dev *dev)
{
	queue_work(dev->odp.queue, &dev->odp.work);
}

/* A prefetch that was asked for without waiting is done at once all the same. */
int pib_hca_advise_mr(struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
		      struct ib_sge *sges, u32 num_sge, struct uverbs_attr_bundle *attrs)
{
	struct pib_hca_dev *dev = to_pdev(ibpd->device);
	bool write = advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	bool fault = advice != IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
	u32 i;
	int ret;

	if (advice > IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT ||
	    flags & ~IB_UVERBS_ADVISE_MR_FLAG_FLUSH)
		return -EOPNOTSUPP;
	for (i = 0; i < num_sge; i++) {
		ret = pib_hca_odp_demand(dev, sges[i].lkey, ibpd, sges[i].addr, sges[i].length,
					 write, fault);
		if (ret)
			return ret;
	}
	return 0;
}

/* ---------------------------------------------------------------- regions -------------------- */

static u32 pib_hca_odp_levels(u64 pages)
{
	u32 levels = 1;

	while (levels < PIB_HCA_MAX_ON_DEMAND_LEVELS &&
	       pages > 1ULL << (levels * PIB_HCA_LOG_ENTRIES))
		levels++;
	return levels;
}

static struct pib_hca_odp *pib_hca_odp_alloc(struct pib_hca_dev *dev, struct ib_umem_odp *umem)
{
	struct pib_hca_odp *odp = kzalloc(sizeof(*odp), GFP_KERNEL);
	u64 pages;

	if (!odp)
		return NULL;
	odp->dev = dev;
	odp->umem = umem;
	odp->implicit = umem->is_implicit_odp;
	odp->first = odp->implicit ? 0 : ib_umem_start(umem);
	pages = odp->implicit ? TASK_SIZE_MAX >> PAGE_SHIFT :
				(ib_umem_end(umem) - ib_umem_start(umem)) >> PAGE_SHIFT;
	odp->levels = pib_hca_odp_levels(pages);
	xa_init(&odp->chunks);
	odp->root = pib_hca_odp_node_alloc(dev, odp->levels == 1);
	if (odp->root)
		return odp;
	kfree(odp);
	return NULL;
}

static void pib_hca_odp_free(struct pib_hca_odp *odp)
{
	struct ib_umem_odp *chunk;
	unsigned long index;

	xa_for_each(&odp->chunks, index, chunk)
		ib_umem_odp_release(chunk);
	xa_destroy(&odp->chunks);
	/* The umem's notifier is gone with it, so that nobody looks for entries any more. */
	ib_umem_odp_release(odp->umem);
	pib_hca_odp_node_free(odp->dev, odp->root);
	kfree(odp);
}

static int pib_hca_odp_create(struct pib_hca_dev *dev, struct pib_hca_mr *mr,
			      struct pib_hca_create_mr *in)
{
	int ret;

	in->flags = PIB_HCA_MR_ON_DEMAND;
	in->iova = cpu_to_le64(mr->iova);
	in->length = cpu_to_le64(mr->odp_length);
	in->page_offset = cpu_to_le32(offset_in_page(mr->odp_start - mr->odp->first));
	in->pages.root = cpu_to_le64(mr->odp->root->dma);
	in->pages.levels = mr->odp->levels;
	in->pages.log_page_size = PAGE_SHIFT;
	mutex_lock(&dev->odp.lock);
	ret = pib_hca_create_mr_cmd(dev, mr, in);
	if (!ret) {
		ret = xa_err(xa_store(&dev->odp.mrs, mr->ibmr.lkey >> PIB_HCA_KEY_INDEX_SHIFT, mr,
				      GFP_KERNEL));
		if (ret) {
			pib_hca_cmd_destroy(dev, PIB_HCA_CMD_DESTROY_MR, mr->ibmr.lkey);
			pib_hca_debugfs_key_remove(dev, mr->ibmr.lkey);
		}
	}
	mutex_unlock(&dev->odp.lock);
	return ret;
}

static struct ib_umem_odp *pib_hca_odp_umem_get(struct ib_device *ibdev, u64 start, u64 length,
						u64 iova, int access)
{
	if (start || length != U64_MAX)
		return ib_umem_odp_get(ibdev, start, length, access, &pib_hca_odp_ops);
	return iova ? ERR_PTR(-EINVAL) : ib_umem_odp_alloc_implicit(ibdev, access);
}

struct ib_mr *pib_hca_reg_odp_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova, int access)
{
	struct pib_hca_dev *dev = to_pdev(ibpd->device);
	struct pib_hca_create_mr in = {};
	struct ib_umem_odp *umem;
	struct pib_hca_mr *mr;
	int ret;

	umem = pib_hca_odp_umem_get(ibpd->device, start, length, iova, access);
	if (IS_ERR(umem))
		return ERR_CAST(umem);
	mr = pib_hca_alloc_mr(ibpd, &in, access);
	if (IS_ERR(mr)) {
		ib_umem_odp_release(umem);
		return ERR_CAST(mr);
	}
	mr->access = access;
	mr->iova = access & IB_ZERO_BASED ? 0 : iova;
	mr->odp_start = start;
	mr->odp_length = umem->is_implicit_odp ? TASK_SIZE_MAX : length;
	mr->odp = pib_hca_odp_alloc(dev, umem);
	if (!mr->odp) {
		ib_umem_odp_release(umem);
		kfree(mr);
		return ERR_PTR(-ENOMEM);
	}
	mutex_lock(&umem->umem_mutex);
	umem->private = mr->odp;
	mutex_unlock(&umem->umem_mutex);
	ret = pib_hca_odp_create(dev, mr, &in);
	if (ret) {
		pib_hca_odp_free(mr->odp);
		kfree(mr);
		return ERR_PTR(ret);
	}
	return &mr->ibmr;
}

int pib_hca_dereg_odp_mr(struct pib_hca_dev *dev, struct pib_hca_mr *mr)
{
	int ret;

	/* Nobody gets the key before it is out of the list. */
	mutex_lock(&dev->odp.lock);
	ret = pib_hca_cmd_try_destroy(dev, PIB_HCA_CMD_DESTROY_MR, mr->ibmr.lkey);
	if (!ret) {
		xa_erase(&dev->odp.mrs, mr->ibmr.lkey >> PIB_HCA_KEY_INDEX_SHIFT);
		pib_hca_debugfs_key_remove(dev, mr->ibmr.lkey);
	}
	mutex_unlock(&dev->odp.lock);
	if (ret)
		return ret;
	pib_hca_odp_free(mr->odp);
	kfree(mr);
	return 0;
}

void pib_hca_odp_caps(const struct pib_hca_dev *dev, struct ib_device_attr *attr)
{
	if (!(le64_to_cpu(dev->caps.feature_flags) & PIB_HCA_FEATURE_ON_DEMAND))
		return;
	attr->kernel_cap_flags |= IBK_ON_DEMAND_PAGING;
	attr->odp_caps.general_caps = IB_ODP_SUPPORT | IB_ODP_SUPPORT_IMPLICIT;
	attr->odp_caps.per_transport_caps.rc_odp_caps =
		IB_ODP_SUPPORT_SEND | IB_ODP_SUPPORT_RECV | IB_ODP_SUPPORT_WRITE |
		IB_ODP_SUPPORT_READ | IB_ODP_SUPPORT_ATOMIC | IB_ODP_SUPPORT_SRQ_RECV;
	attr->odp_caps.per_transport_caps.xrc_odp_caps =
		attr->odp_caps.per_transport_caps.rc_odp_caps;
	/* Who cannot be told to try again must not be sent what has no place. */
	attr->odp_caps.per_transport_caps.uc_odp_caps = IB_ODP_SUPPORT_SEND;
	attr->odp_caps.per_transport_caps.ud_odp_caps = IB_ODP_SUPPORT_SEND;
}

#endif /* PIB_HCA_HAS_ODP */

int pib_hca_odp_init(struct pib_hca_dev *dev)
{
	mutex_init(&dev->odp.lock);
	xa_init(&dev->odp.mrs);
#ifdef PIB_HCA_HAS_ODP
	INIT_WORK(&dev->odp.work, pib_hca_odp_work);
	dev->odp.queue = alloc_workqueue("pib_hca_odp", WQ_UNBOUND, 1);
	if (!dev->odp.queue)
		return -ENOMEM;
#endif
	return 0;
}

void pib_hca_odp_cleanup(struct pib_hca_dev *dev)
{
#ifdef PIB_HCA_HAS_ODP
	destroy_workqueue(dev->odp.queue);
#endif
	WARN_ON(!xa_empty(&dev->odp.mrs));
}
