// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* On-demand paging: regions, mapping and invalidation of their pages; see pib_hca_odp.h. */
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>

#include "pib_hca_odp.h"

#ifdef PIB_HCA_HAS_ODP

/* A prefetch is divided into steps, between which the process can be killed. */
#define PIB_HCA_ODP_PREFETCH_STEP SZ_2M

/* ---------------------------------------------------------------- invalidation --------------- */

static bool pib_hca_odp_invalidate(struct mmu_interval_notifier *mni,
				   const struct mmu_notifier_range *range, unsigned long cur_seq)
{
	struct ib_umem_odp *umem = container_of(mni, struct ib_umem_odp, notifier);
	struct pib_hca_odp *odp;
	u64 start, end;

	if (!mmu_notifier_range_blockable(range))
		return false;
	mutex_lock(&umem->umem_mutex);
	mmu_interval_set_seq(mni, cur_seq);
	odp = umem->private;
	/*
	 * Do this even if umem->npages says that no page is mapped: newer cores count pages without
	 * the mutex while another fault maps some, and may lose a count.
	 */
	if (odp) {
		start = max_t(u64, ib_umem_start(umem), range->start);
		end = min_t(u64, ib_umem_end(umem), range->end);
		pib_hca_odp_settle(odp, umem, start, end);
		pib_hca_odp_hide(odp, start, end);
		ib_umem_odp_unmap_dma_pages(umem, start, end);
	}
	mutex_unlock(&umem->umem_mutex);
	return true;
}

static const struct mmu_interval_notifier_ops pib_hca_odp_ops = {
	.invalidate = pib_hca_odp_invalidate,
};

/* ---------------------------------------------------------------- mapping -------------------- */

static void pib_hca_odp_set_private(struct ib_umem_odp *umem, struct pib_hca_odp *odp)
{
	mutex_lock(&umem->umem_mutex);
	umem->private = odp;
	mutex_unlock(&umem->umem_mutex);
}

static void pib_hca_odp_free_chunk(struct pib_hca_odp_chunk *chunk)
{
	ib_umem_odp_release(chunk->umem);
	kfree(chunk);
}

static struct pib_hca_odp_chunk *pib_hca_odp_add_chunk(struct pib_hca_odp *odp,
						       unsigned long index)
{
	struct pib_hca_odp_chunk *chunk = kzalloc(sizeof(*chunk), GFP_KERNEL_ACCOUNT);
	int ret;

	if (!chunk)
		return ERR_PTR(-ENOMEM);
	chunk->umem = ib_umem_odp_alloc_child(odp->umem, index * PIB_HCA_ODP_TABLE_BYTES,
					      PIB_HCA_ODP_TABLE_BYTES, &pib_hca_odp_ops);
	if (IS_ERR(chunk->umem)) {
		ret = PTR_ERR(chunk->umem);
		kfree(chunk);
		return ERR_PTR(ret);
	}
	ret = xa_err(xa_store(&odp->chunks, index, chunk, GFP_KERNEL_ACCOUNT));
	if (ret) {
		pib_hca_odp_free_chunk(chunk);
		return ERR_PTR(ret);
	}
	pib_hca_odp_set_private(chunk->umem, odp);
	return chunk;
}

/*
 * Returns the umem of the page at `va`, or an ERR_PTR; makes an implicit region's missing chunk,
 * which stays until pib_hca_odp_leave().
 */
static struct ib_umem_odp *pib_hca_odp_umem_at(struct pib_hca_odp *odp, u64 va)
{
	unsigned long index = va / PIB_HCA_ODP_TABLE_BYTES;
	struct pib_hca_odp_chunk *chunk;

	lockdep_assert_held(&odp->mutex);
	if (!odp->implicit)
		return odp->umem;
	chunk = xa_load(&odp->chunks, index);
	if (!chunk)
		chunk = pib_hca_odp_add_chunk(odp, index);
	if (IS_ERR(chunk))
		return ERR_CAST(chunk);
	chunk->users++;
	return chunk->umem;
}

/*
 * Ends a use that pib_hca_odp_umem_at() has begun. `in_doubt`: the use may have mapped no page.
 * After such a use the last user of the chunk frees it, and its table, if no page is mapped.
 * Otherwise they would stay: only an invalidation frees tables, it comes for mapped pages only, and
 * programs and peers may name any address without a page.
 */
static void pib_hca_odp_leave(struct pib_hca_odp *odp, u64 va, bool in_doubt)
{
	unsigned long index = va / PIB_HCA_ODP_TABLE_BYTES;
	struct pib_hca_odp_chunk *chunk;
	bool empty;

	lockdep_assert_held(&odp->mutex);
	if (!odp->implicit)
		return;
	chunk = xa_load(&odp->chunks, index);
	chunk->in_doubt |= in_doubt;
	if (--chunk->users || !chunk->in_doubt)
		return;
	chunk->in_doubt = false;
	mutex_lock(&chunk->umem->umem_mutex);
	empty = pib_hca_odp_is_empty(odp, va);
	if (empty)
		pib_hca_odp_hide(odp, ib_umem_start(chunk->umem), ib_umem_end(chunk->umem));
	mutex_unlock(&chunk->umem->umem_mutex);
	if (empty) {
		xa_erase(&odp->chunks, index);
		pib_hca_odp_free_chunk(chunk);
	}
}

/* As pib_hca_odp_umem_at(); also reduces *end to the umem's end and adds tables for [va, *end). */
static struct ib_umem_odp *pib_hca_odp_prepare(struct pib_hca_odp *odp, u64 va, u64 *end)
{
	struct ib_umem_odp *umem;
	int ret = 0;

	mutex_lock(&odp->mutex);
	umem = pib_hca_odp_umem_at(odp, va);
	if (!IS_ERR(umem)) {
		*end = min_t(u64, *end, ib_umem_end(umem));
		if (va < ib_umem_start(umem) || va >= *end)
			ret = -EFAULT;
		else
			ret = pib_hca_odp_grow(odp, va, *end);
		if (ret)
			pib_hca_odp_leave(odp, va, true);
	}
	mutex_unlock(&odp->mutex);
	return ret ? ERR_PTR(ret) : umem;
}

static int pib_hca_odp_map_pages(struct pib_hca_odp *odp, struct ib_umem_odp *umem, u64 start,
				 u64 end, bool write, bool fault)
{
	int ret;

	ret = ib_umem_odp_map_dma_and_lock(umem, start, end - start,
					   pib_hca_compat_odp_access(write), fault);
	if (ret < 0)
		mutex_lock(&umem->umem_mutex);
	pib_hca_odp_settle(odp, umem, start, end);
	if (ret >= 0)
		ret = pib_hca_odp_show(odp, umem, start, end);
	mutex_unlock(&umem->umem_mutex);
	return ret;
}

/*
 * Maps pages of one umem. A writable page is mapped for writing even if the device only reads:
 * mapping a written page again for reading would clear the write bit by which the kernel later
 * marks the page dirty. If some of the pages are read-only, each page is mapped as its VMA permits.
 */
static int pib_hca_odp_map_part(struct pib_hca_odp *odp, struct ib_umem_odp *umem, u64 start,
				u64 end, bool write, bool fault)
{
	bool writable = umem->umem.writable;
	u64 va;
	int ret;

	if (write && !writable)
		return -EPERM;
	ret = pib_hca_odp_map_pages(odp, umem, start, end, writable, fault);
	if (ret != -EPERM || write)
		return ret;
	for (va = start; va < end; va += PAGE_SIZE) {
		ret = pib_hca_odp_map_pages(odp, umem, va, va + PAGE_SIZE, writable, fault);
		if (ret == -EPERM)
			ret = pib_hca_odp_map_pages(odp, umem, va, va + PAGE_SIZE, false, fault);
		if (ret)
			return ret;
	}
	return 0;
}

/* Maps pages that the caller has claimed. */
static int pib_hca_odp_map_claimed(struct pib_hca_odp *odp, u64 va, u64 end, bool write, bool fault)
{
	int ret = 0;

	while (va < end && !ret) {
		u64 stop = end;
		struct ib_umem_odp *umem = pib_hca_odp_prepare(odp, va, &stop);

		if (IS_ERR(umem))
			return PTR_ERR(umem);
		ret = pib_hca_odp_map_part(odp, umem, va, stop, write, fault);
		mutex_lock(&odp->mutex);
		pib_hca_odp_leave(odp, va, ret || !fault);
		mutex_unlock(&odp->mutex);
		va = stop;
	}
	return ret;
}

static bool pib_hca_odp_try_claim(struct pib_hca_odp *odp, struct pib_hca_odp_claim *claim)
{
	struct pib_hca_odp_claim *other;
	bool is_free = true;

	spin_lock(&odp->claims_lock);
	list_for_each_entry(other, &odp->claims, entry)
		is_free = is_free && (other->end <= claim->start || claim->end <= other->start);
	if (is_free)
		list_add(&claim->entry, &odp->claims);
	spin_unlock(&odp->claims_lock);
	return is_free;
}

static int pib_hca_odp_map(struct pib_hca_odp *odp, u64 va, u64 length, bool write, bool fault)
{
	struct pib_hca_odp_claim claim = {
		.start = va & PAGE_MASK,
		.end = PAGE_ALIGN(va + length),
	};
	int ret;

	if (wait_event_killable(odp->claim_ends, pib_hca_odp_try_claim(odp, &claim)))
		return -EINTR;
	ret = pib_hca_odp_map_claimed(odp, claim.start, claim.end, write, fault);
	spin_lock(&odp->claims_lock);
	list_del(&claim.entry);
	spin_unlock(&odp->claims_lock);
	wake_up_all(&odp->claim_ends);
	return ret;
}

/* Returns the region with this key and takes a reference; NULL if there is none. */
static struct pib_hca_mr *pib_hca_odp_get(struct pib_hca_dev *dev, u32 key)
{
	struct pib_hca_mr *mr;

	xa_lock(&dev->odp.mrs);
	mr = xa_load(&dev->odp.mrs, key >> PIB_HCA_KEY_INDEX_SHIFT);
	if (mr && mr->ibmr.lkey == key)
		refcount_inc(&mr->odp->ref.count);
	else
		mr = NULL;
	xa_unlock(&dev->odp.mrs);
	return mr;
}

int pib_hca_odp_demand(struct pib_hca_dev *dev, u32 key, struct ib_pd *ibpd, u64 addr, u64 length,
		       bool write, bool fault)
{
	struct pib_hca_mr *mr = pib_hca_odp_get(dev, key);
	int ret;

	if (!mr)
		return -ENOENT;
	if (ibpd && mr->ibmr.pd != ibpd)
		ret = -EPERM;
	else if (addr < mr->iova || addr + length < addr || length > mr->odp_length ||
		 addr - mr->iova > mr->odp_length - length)
		ret = -EFAULT;
	else
		ret = pib_hca_odp_map(mr->odp, addr - mr->iova + mr->odp_start, length, write,
				      fault);
	pib_hca_ref_put(&mr->odp->ref);
	return ret;
}

static int pib_hca_odp_prefetch(struct pib_hca_dev *dev, struct ib_pd *ibpd,
				const struct ib_sge *sge, bool write, bool fault)
{
	u64 addr = sge->addr, left = sge->length, step;
	int ret;

	do {
		step = min_t(u64, left, PIB_HCA_ODP_PREFETCH_STEP);
		ret = pib_hca_odp_demand(dev, sge->lkey, ibpd, addr, step, write, fault);
		if (!ret && fatal_signal_pending(current))
			ret = -EINTR;
		if (ret)
			return ret;
		addr += step;
		left -= step;
		cond_resched();
	} while (left);
	return 0;
}

/* The driver finishes a prefetch before it returns, whether or not the caller asked it to wait. */
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
		ret = pib_hca_odp_prefetch(dev, ibpd, &sges[i], write, fault);
		if (ret)
			return ret;
	}
	return 0;
}

/* ---------------------------------------------------------------- regions -------------------- */

/* The bytes of an implicit region: all addresses of a process that the tree can describe. */
static u64 pib_hca_odp_implicit_length(void)
{
	return min_t(u64, TASK_SIZE_MAX, pib_hca_odp_reach());
}

static struct pib_hca_odp *pib_hca_odp_alloc(struct pib_hca_dev *dev, struct ib_umem_odp *umem)
{
	struct pib_hca_odp *odp = kzalloc(sizeof(*odp), GFP_KERNEL_ACCOUNT);
	u64 bytes;

	if (!odp)
		return NULL;
	odp->dev = dev;
	odp->umem = umem;
	odp->implicit = umem->is_implicit_odp;
	odp->first = odp->implicit ? 0 : ib_umem_start(umem);
	bytes = odp->implicit ? pib_hca_odp_implicit_length() :
				ib_umem_end(umem) - ib_umem_start(umem);
	xa_init(&odp->chunks);
	mutex_init(&odp->mutex);
	INIT_LIST_HEAD(&odp->claims);
	spin_lock_init(&odp->claims_lock);
	init_waitqueue_head(&odp->claim_ends);
	pib_hca_ref_init(&odp->ref);
	if (pib_hca_odp_tree_init(odp, bytes >> PAGE_SHIFT)) {
		kfree(odp);
		return NULL;
	}
	if (odp->implicit) {
		odp->mm = umem->umem.owning_mm;
		mmgrab(odp->mm);
	}
	return odp;
}

static void pib_hca_odp_free(struct pib_hca_odp *odp)
{
	struct pib_hca_odp_chunk *chunk;
	unsigned long index;

	xa_for_each(&odp->chunks, index, chunk)
		pib_hca_odp_free_chunk(chunk);
	xa_destroy(&odp->chunks);
	/* This removes the umem's notifier, so no invalidation uses the tree any more. */
	ib_umem_odp_release(odp->umem);
	if (odp->mm)
		mmdrop(odp->mm);
	pib_hca_odp_tree_free(odp);
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
	ret = pib_hca_create_mr_cmd(dev, mr, in);
	if (ret)
		return ret;
	/*
	 * The device may have reused the index of a region whose deregistration goes on: the new
	 * entry replaces the old one, and pib_hca_dereg_odp_mr() then keeps the new one.
	 */
	ret = xa_err(xa_store(&dev->odp.mrs, mr->ibmr.lkey >> PIB_HCA_KEY_INDEX_SHIFT, mr,
			      GFP_KERNEL));
	if (ret) {
		pib_hca_cmd_destroy(dev, PIB_HCA_CMD_DESTROY_MR, mr->ibmr.lkey);
		pib_hca_debugfs_key_remove(dev, mr->ibmr.lkey, mr);
	}
	return ret;
}

/* IB_ACCESS_HUGETLB is a hint; without it every umem has pages of PAGE_SIZE, as the tree has. */
static struct ib_umem_odp *pib_hca_odp_umem_get(struct ib_device *ibdev, u64 start, u64 length,
						u64 iova, int access)
{
	access &= ~IB_ACCESS_HUGETLB;
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
	mr->odp_length = umem->is_implicit_odp ? pib_hca_odp_implicit_length() : length;
	mr->odp = pib_hca_odp_alloc(dev, umem);
	if (!mr->odp) {
		ib_umem_odp_release(umem);
		kfree(mr);
		return ERR_PTR(-ENOMEM);
	}
	pib_hca_odp_set_private(umem, mr->odp);
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

	ret = pib_hca_cmd_try_destroy(dev, PIB_HCA_CMD_DESTROY_MR, mr->ibmr.lkey);
	if (ret)
		return ret;
	/* A new region may have the index by now; its entry stays. */
	xa_cmpxchg(&dev->odp.mrs, mr->ibmr.lkey >> PIB_HCA_KEY_INDEX_SHIFT, mr, NULL, GFP_KERNEL);
	pib_hca_debugfs_key_remove(dev, mr->ibmr.lkey, mr);
	pib_hca_ref_wait(&mr->odp->ref);
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
	/* UC and UD have no RNR NAK: a receive into an absent page would be lost. */
	attr->odp_caps.per_transport_caps.uc_odp_caps = IB_ODP_SUPPORT_SEND;
	attr->odp_caps.per_transport_caps.ud_odp_caps = IB_ODP_SUPPORT_SEND;
}

#endif /* PIB_HCA_HAS_ODP */
