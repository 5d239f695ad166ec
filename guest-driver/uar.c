// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * User contexts: each context has a UAR, a page of doorbells that the process maps. The page lives
 * as long as its last mapping; the context lives no longer than the process's file.
 */
#include <linux/mm.h>

#include "pib_hca.h"

struct pib_hca_shadow_entry {
	struct pib_hca_mmap_entry mmap;
	struct pib_hca_shadow shadow;
};

static struct pib_hca_mmap_entry *to_pentry(struct rdma_user_mmap_entry *rdma_entry)
{
	return container_of(rdma_entry, struct pib_hca_mmap_entry, rdma_entry);
}

static struct pib_hca_uar_entry *to_puar(struct rdma_user_mmap_entry *rdma_entry)
{
	return container_of(to_pentry(rdma_entry), struct pib_hca_uar_entry, mmap);
}

u32 pib_hca_uar_of(struct ib_udata *udata)
{
	struct pib_hca_ucontext *context;

	if (!udata)
		return 0;
	context = rdma_udata_to_drv_context(udata, struct pib_hca_ucontext, ibucontext);
	return context->uar->number;
}

static struct pib_hca_uar_entry *pib_hca_alloc_uar(struct pib_hca_dev *dev,
						   struct ib_ucontext *ibucontext)
{
	struct pib_hca_uar_entry *uar;
	int ret;

	uar = kzalloc(sizeof(*uar), GFP_KERNEL);
	if (!uar)
		return ERR_PTR(-ENOMEM);
	uar->mmap.dev = dev;
	ret = pib_hca_cmd_create(dev, PIB_HCA_CMD_ALLOC_UAR, NULL, 0, &uar->number);
	if (ret)
		goto err_free;
	uar->mmap.addr = dev->uar_base + (phys_addr_t)uar->number * PIB_HCA_UAR_PAGE_SIZE;
	ret = rdma_user_mmap_entry_insert(ibucontext, &uar->mmap.rdma_entry,
					  PIB_HCA_UAR_PAGE_SIZE);
	if (ret)
		goto err_uar;
	return uar;

err_uar:
	pib_hca_cmd_destroy(dev, PIB_HCA_CMD_FREE_UAR, uar->number);
err_free:
	kfree(uar);
	return ERR_PTR(ret);
}

static struct pib_hca_shadow_entry *to_pshadow(struct rdma_user_mmap_entry *rdma_entry)
{
	return container_of(to_pentry(rdma_entry), struct pib_hca_shadow_entry, mmap);
}

/* Adds a shadow doorbell page to the context, on devices that have such pages. */
static int pib_hca_add_shadow(struct pib_hca_dev *dev, struct pib_hca_ucontext *context)
{
	struct pib_hca_shadow_entry *entry;
	int ret;

	context->shadow = NULL;
	entry = kzalloc(sizeof(*entry), GFP_KERNEL);
	if (!entry)
		return -ENOMEM;
	ret = pib_hca_shadow_init(dev, &entry->shadow, context->uar->number);
	if (ret || !entry->shadow.map) {
		kfree(entry);
		return ret;
	}
	entry->mmap.dev = dev;
	entry->mmap.kind = PIB_HCA_MMAP_SHADOW;
	ret = rdma_user_mmap_entry_insert(&context->ibucontext, &entry->mmap.rdma_entry, PAGE_SIZE);
	if (ret) {
		pib_hca_shadow_cleanup(dev, &entry->shadow);
		kfree(entry);
		return ret;
	}
	context->shadow = entry;
	return 0;
}

void pib_hca_mmap_free(struct rdma_user_mmap_entry *rdma_entry)
{
	struct pib_hca_mmap_entry *entry = to_pentry(rdma_entry);

	switch (entry->kind) {
	case PIB_HCA_MMAP_UAR:
		pib_hca_cmd_destroy(entry->dev, PIB_HCA_CMD_FREE_UAR, to_puar(rdma_entry)->number);
		kfree(to_puar(rdma_entry));
		break;
	case PIB_HCA_MMAP_SHADOW:
		pib_hca_shadow_cleanup(entry->dev, &to_pshadow(rdma_entry)->shadow);
		kfree(to_pshadow(rdma_entry));
		break;
	case PIB_HCA_MMAP_DM:
		pib_hca_dm_mmap_free(entry);
		break;
	}
}

static void pib_hca_remove_entries(struct pib_hca_ucontext *context)
{
	if (context->shadow)
		rdma_user_mmap_entry_remove(&context->shadow->mmap.rdma_entry);
	rdma_user_mmap_entry_remove(&context->uar->mmap.rdma_entry);
}

void pib_hca_describe_ucontext(struct ib_ucontext *ibucontext,
			       struct pib_hca_alloc_ucontext_resp *resp)
{
	const struct pib_hca_query_device *caps = &to_pdev(ibucontext->device)->caps;
	struct pib_hca_shadow_entry *shadow = to_pucontext(ibucontext)->shadow;
	struct pib_hca_uar_entry *uar = to_pucontext(ibucontext)->uar;

	*resp = (struct pib_hca_alloc_ucontext_resp){
		.uar = uar->number,
		.uar_mmap_offset = rdma_user_mmap_get_offset(&uar->mmap.rdma_entry),
		.max_qp_wr = le32_to_cpu(caps->max_qp_wr),
		.max_sge = le32_to_cpu(caps->max_sge),
		.max_inline_data = le32_to_cpu(caps->max_inline_data),
		.max_cqe = le32_to_cpu(caps->max_cqe),
	};
	if (shadow) {
		resp->comp_mask = PIB_HCA_UCONTEXT_SHADOW_PAGE;
		resp->shadow_mmap_offset = rdma_user_mmap_get_offset(&shadow->mmap.rdma_entry);
	}
}

int pib_hca_alloc_ucontext(struct ib_ucontext *ibucontext, struct ib_udata *udata)
{
	struct pib_hca_ucontext *context = to_pucontext(ibucontext);
	struct pib_hca_dev *dev = to_pdev(ibucontext->device);
	struct pib_hca_alloc_ucontext_resp resp;
	struct pib_hca_alloc_ucontext_req req;
	struct pib_hca_uar_entry *uar;
	int ret;

	ret = pib_hca_udata_in(udata, &req, sizeof(req));
	if (ret)
		return ret;
	if (req.comp_mask || req.reserved)
		return -EOPNOTSUPP;
	uar = pib_hca_alloc_uar(dev, ibucontext);
	if (IS_ERR(uar))
		return PTR_ERR(uar);
	context->uar = uar;
	ret = pib_hca_add_shadow(dev, context);
	if (ret) {
		rdma_user_mmap_entry_remove(&uar->mmap.rdma_entry);
		return ret;
	}

	pib_hca_describe_ucontext(ibucontext, &resp);
	ret = pib_hca_udata_out(udata, &resp, sizeof(resp));
	if (ret)
		pib_hca_remove_entries(context);
	return ret;
}

void pib_hca_dealloc_ucontext(struct ib_ucontext *ibucontext)
{
	pib_hca_remove_entries(to_pucontext(ibucontext));
}

/*
 * The core unloads a driver under open applications only if this function exists. The core removes
 * the mapping of the UAR and destroys the context's objects, so nothing is left to do here.
 */
void pib_hca_disassociate_ucontext(struct ib_ucontext *ibucontext)
{
}

int pib_hca_mmap(struct ib_ucontext *ibucontext, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *rdma_entry;
	struct pib_hca_mmap_entry *entry;
	int ret;

	/* Refuses private mappings and wrong lengths. */
	rdma_entry = rdma_user_mmap_entry_get(ibucontext, vma);
	if (!rdma_entry)
		return -EINVAL;
	entry = to_pentry(rdma_entry);
	/*
	 * Core dumps leave the pages out: a dump must not read device registers. The pages are not
	 * executable, even if the caller asks for it: READ_IMPLIES_EXEC does so for each mapping.
	 */
	pib_hca_compat_vm_flags_mod(vma, VM_DONTDUMP, VM_EXEC | VM_MAYEXEC);
	vma->vm_page_prot = vm_get_page_prot(vma->vm_flags);
	/* A shadow page is memory, not part of a BAR: the mapping holds a reference to it. */
	if (entry->kind == PIB_HCA_MMAP_SHADOW)
		ret = vm_insert_page(vma, vma->vm_start, to_pshadow(rdma_entry)->shadow.page);
	else
		ret = rdma_user_mmap_io(ibucontext, vma, entry->addr >> PAGE_SHIFT,
					rdma_entry->npages << PAGE_SHIFT,
					entry->kind == PIB_HCA_MMAP_DM ?
						pib_hca_dm_pgprot(vma->vm_page_prot) :
						pgprot_noncached(vma->vm_page_prot),
					rdma_entry);
	rdma_user_mmap_entry_put(rdma_entry);
	return ret;
}
