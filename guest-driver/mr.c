// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory regions (IBA vol. 1, 10.6 and 11.2.8): pinned memory of processes, the DMA MR, and fast
 * registration regions, which a work request fills.
 */
#include <linux/random.h>

#include "pib_hca.h"

#define PIB_HCA_ACCESS_ALL \
	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
	 IB_ACCESS_REMOTE_ATOMIC | IB_ACCESS_MW_BIND | IB_ACCESS_FLUSH_GLOBAL)

u8 pib_hca_new_key_byte(void)
{
	return get_random_u32() & 0xff;
}

struct pib_hca_mr *pib_hca_alloc_mr(struct ib_pd *ibpd, struct pib_hca_create_mr *in, int access)
{
	struct pib_hca_mr *mr;

	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	/* Verbs and the device use the same values: see abi_check.c. */
	in->pd = cpu_to_le32(to_ppd(ibpd)->pdn);
	in->access = cpu_to_le32(access & PIB_HCA_ACCESS_ALL);
	in->key = pib_hca_new_key_byte();
	return mr;
}

int pib_hca_create_mr_cmd(struct pib_hca_dev *dev, struct pib_hca_mr *mr,
			  const struct pib_hca_create_mr *in)
{
	u32 key;
	int ret;

	ret = pib_hca_cmd_create(dev, PIB_HCA_CMD_CREATE_MR, in, sizeof(*in), &key);
	if (ret)
		return ret;
	mr->ibmr.lkey = key;
	mr->ibmr.rkey = key;
	pib_hca_debugfs_key_add(dev, key, mr);
	return 0;
}

struct ib_mr *pib_hca_reg_described(struct ib_pd *ibpd, struct pib_hca_create_mr *in, int access)
{
	struct pib_hca_mr *mr;
	int ret;

	if (access & ~(PIB_HCA_ACCESS_ALL | IB_ZERO_BASED | PIB_HCA_ACCESS_HINTS))
		return ERR_PTR(-EOPNOTSUPP);
	mr = pib_hca_alloc_mr(ibpd, in, access);
	if (IS_ERR(mr))
		return ERR_CAST(mr);
	ret = pib_hca_create_mr_cmd(to_pdev(ibpd->device), mr, in);
	if (ret) {
		kfree(mr);
		return ERR_PTR(ret);
	}
	return &mr->ibmr;
}

struct ib_mr *pib_hca_get_dma_mr(struct ib_pd *ibpd, int access)
{
	struct pib_hca_create_mr in = {
		.length = cpu_to_le64(U64_MAX), /* from address 0: all bytes except the last one */
		.flags = PIB_HCA_MR_PHYSICAL,
	};

	if (access & IB_ZERO_BASED)
		return ERR_PTR(-EOPNOTSUPP);
	/* The core asks for remote rights alone; the device demands LOCAL_WRITE (IBA 11.2.8.2). */
	if (access & (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC))
		access |= IB_ACCESS_LOCAL_WRITE;
	return pib_hca_reg_described(ibpd, &in, access);
}

/* ---------------------------------------------------------------- memory of processes -------- */

/*
 * A region may begin at any offset in its first page, so the page size depends only on the bus
 * address of its memory, not on its virtual address.
 */
static unsigned long pib_hca_best_page_size(struct pib_hca_dev *dev, struct ib_umem *umem)
{
	u64 bus = sg_dma_address(umem->sgt_append.sgt.sgl) + ib_umem_offset(umem);

	return ib_umem_find_best_pgsz(umem, le64_to_cpu(dev->caps.page_size_cap), bus);
}

/*
 * Sets the fields of `in` that describe the memory. The caller frees the table after the command.
 */
static int pib_hca_describe_umem(struct pib_hca_dev *dev, struct pib_hca_page_table *table,
				 struct pib_hca_create_mr *in, struct ib_umem *umem, u64 iova)
{
	unsigned long page_size = pib_hca_best_page_size(dev, umem);

	if (!page_size)
		return -EINVAL;
	in->iova = cpu_to_le64(iova);
	in->length = cpu_to_le64(umem->length);
	in->page_offset = cpu_to_le32(ib_umem_dma_offset(umem, page_size));
	return pib_hca_table_from_umem(dev, table, &in->pages, umem, page_size);
}

/* Consumes the umem: the region keeps it, or it is released. */
static struct ib_mr *pib_hca_reg_umem(struct ib_pd *ibpd, struct ib_umem *umem, u64 iova,
				      int access)
{
	struct pib_hca_dev *dev = to_pdev(ibpd->device);
	struct pib_hca_page_table table = {};
	struct pib_hca_create_mr in = {};
	struct pib_hca_mr *mr;
	int ret;

	mr = pib_hca_alloc_mr(ibpd, &in, access);
	if (IS_ERR(mr)) {
		ret = PTR_ERR(mr);
		goto err_umem;
	}
	mr->umem = umem;
	mr->access = access;
	mr->iova = access & IB_ZERO_BASED ? 0 : iova;
	ret = pib_hca_describe_umem(dev, &table, &in, umem, mr->iova);
	if (!ret)
		ret = pib_hca_create_mr_cmd(dev, mr, &in);
	pib_hca_table_free(dev, &table);
	if (ret)
		goto err_mr;
	return &mr->ibmr;

err_mr:
	kfree(mr);
err_umem:
	ib_umem_release(umem);
	return ERR_PTR(ret);
}

static int pib_hca_check_reg(struct pib_hca_dev *dev, u64 length, int access,
			     struct ib_udata *udata)
{
	if (access & ~(PIB_HCA_ACCESS_ALL | IB_ZERO_BASED | PIB_HCA_ACCESS_HINTS))
		return -EOPNOTSUPP;
	if (length > le64_to_cpu(dev->caps.max_mr_size))
		return -EINVAL;
	return pib_hca_udata_no_input(udata) ?: pib_hca_check_user_dma(dev);
}

struct ib_mr *pib_hca_reg_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova, int access,
			     struct ib_udata *udata)
{
	struct pib_hca_dev *dev = to_pdev(ibpd->device);
	bool on_demand = access & IB_ACCESS_ON_DEMAND;
	/* Length U64_MAX means all of the address space. */
	bool implicit = on_demand && !start && length == U64_MAX;
	struct ib_umem *umem;
	int ret;

	ret = pib_hca_check_reg(dev, implicit ? 0 : length, access & ~IB_ACCESS_ON_DEMAND, udata);
	if (ret)
		return ERR_PTR(ret);
	if (on_demand)
		return pib_hca_reg_odp_mr(ibpd, start, length, iova, access);
	umem = pib_hca_umem_get(dev, start, length, access);
	if (IS_ERR(umem))
		return ERR_CAST(umem);
	return pib_hca_reg_umem(ibpd, umem, iova, access);
}

/* The exporter keeps the memory in place as long as the region exists. */
struct ib_mr *pib_hca_reg_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length, u64 iova, int fd,
				 int access, struct ib_udata *udata)
{
	struct ib_umem_dmabuf *dmabuf;
	int ret;

	ret = pib_hca_check_reg(to_pdev(ibpd->device), length, access, udata);
	if (ret)
		return ERR_PTR(ret);
	dmabuf = ib_umem_dmabuf_get_pinned(ibpd->device, offset, length, fd, access);
	if (IS_ERR(dmabuf))
		return ERR_CAST(dmabuf);
	return pib_hca_reg_umem(ibpd, &dmabuf->umem, iova, access);
}

/* ---------------------------------------------------------------- reregistration ------------- */

/* A new umem is needed to write to memory pinned for reading, or if IB_ZERO_BASED changes. */
static bool pib_hca_needs_new_umem(const struct pib_hca_mr *mr, int access)
{
	return (ib_access_writable(access) && !mr->umem->writable) ||
	       ((access ^ mr->access) & IB_ZERO_BASED);
}

static struct ib_umem *pib_hca_repin(struct pib_hca_mr *mr, int access)
{
	struct ib_umem *umem = mr->umem;

	/* Only the process that owns the address space can pin memory by address. */
	if (umem->is_dmabuf || umem->owning_mm != current->mm)
		return ERR_PTR(-EOPNOTSUPP);
	return pib_hca_umem_get(to_pdev(mr->ibmr.device), umem->address, umem->length, access);
}

static int pib_hca_rereg_cmd(struct pib_hca_dev *dev, struct pib_hca_mr *mr,
			     const struct pib_hca_rereg_mr *in)
{
	struct pib_hca_cmd_args args = {
		.opcode = PIB_HCA_CMD_REREG_MR,
		.object = mr->ibmr.lkey,
		.in = in,
		.in_length = sizeof(*in),
	};
	int ret = pib_hca_cmd(dev, &args);

	if (ret)
		return ret;
	mr->ibmr.lkey = args.result;
	mr->ibmr.rkey = args.result;
	return 0;
}

/* Executes REREG_MR; then `umem` replaces the region's umem unless it is NULL. */
static int pib_hca_rereg_umem(struct pib_hca_mr *mr, struct pib_hca_rereg_mr *in,
			      struct ib_umem *umem, u64 iova)
{
	struct pib_hca_dev *dev = to_pdev(mr->ibmr.device);
	struct pib_hca_page_table table = {};
	int ret;

	if (umem) {
		in->mask |= cpu_to_le32(PIB_HCA_REREG_MR_TRANSLATION);
		ret = pib_hca_describe_umem(dev, &table, &in->mr, umem, iova);
		if (ret)
			return ret;
	}
	ret = pib_hca_rereg_cmd(dev, mr, in);
	pib_hca_table_free(dev, &table);
	if (ret || !umem)
		return ret;
	ib_umem_release(mr->umem);
	mr->umem = umem;
	mr->iova = iova;
	return 0;
}

/* Returns NULL: the region itself has changed. After an error it is unchanged. */
struct ib_mr *pib_hca_rereg_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length, u64 iova,
			       int access, struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct pib_hca_mr *mr = to_pmr(ibmr);
	struct pib_hca_rereg_mr in = {
		/* Verbs and the device use the same values: see abi_check.c. */
		.mask = cpu_to_le32(flags),
		/* Keep the key byte: peers go on using the R_Key. */
		.mr.key = ibmr->lkey & 0xff,
	};
	struct ib_umem *umem = NULL;
	int ret;

	if (mr->odp)
		return ERR_PTR(-EOPNOTSUPP);
	if (!(flags & IB_MR_REREG_ACCESS))
		access = mr->access;
	if (!(flags & IB_MR_REREG_TRANS)) {
		length = 0;
		iova = mr->iova;
	}
	ret = pib_hca_check_reg(to_pdev(ibmr->device), length, access, udata);
	if (ret)
		return ERR_PTR(ret);
	if (flags & IB_MR_REREG_TRANS)
		umem = pib_hca_umem_get(to_pdev(ibmr->device), start, length, access);
	else if (pib_hca_needs_new_umem(mr, access))
		umem = pib_hca_repin(mr, access);
	if (IS_ERR(umem))
		return ERR_CAST(umem);

	if (flags & IB_MR_REREG_PD)
		in.mr.pd = cpu_to_le32(to_ppd(ibpd)->pdn);
	in.mr.access = cpu_to_le32(access & PIB_HCA_ACCESS_ALL);
	ret = pib_hca_rereg_umem(mr, &in, umem, access & IB_ZERO_BASED ? 0 : iova);
	if (ret) {
		if (umem)
			ib_umem_release(umem);
		return ERR_PTR(ret);
	}
	mr->access = access;
	return NULL;
}

/* ---------------------------------------------------------------- fast registration ---------- */

struct ib_mr *pib_hca_alloc_fast_mr(struct ib_pd *ibpd, enum ib_mr_type type, u32 max_pages)
{
	struct pib_hca_dev *dev = to_pdev(ibpd->device);
	struct pib_hca_create_mr in = {
		.pages.page_count = cpu_to_le32(max_pages),
		.flags = PIB_HCA_MR_FAST,
	};
	struct pib_hca_mr *mr;
	int ret;

	if (type != IB_MR_TYPE_MEM_REG)
		return ERR_PTR(-EOPNOTSUPP);
	if (!max_pages || max_pages > le32_to_cpu(dev->caps.max_fast_reg_pages))
		return ERR_PTR(-EINVAL);
	mr = pib_hca_alloc_mr(ibpd, &in, 0);
	if (IS_ERR(mr))
		return ERR_CAST(mr);
	mr->fast_max_pages = max_pages;
	ret = pib_hca_table_for_fast_reg(dev, &mr->fast_table, max_pages);
	if (ret)
		goto err_mr;
	ret = pib_hca_create_mr_cmd(dev, mr, &in);
	if (ret)
		goto err_table;
	return &mr->ibmr;

err_table:
	pib_hca_table_free(dev, &mr->fast_table);
err_mr:
	kfree(mr);
	return ERR_PTR(ret);
}

static int pib_hca_set_page(struct ib_mr *ibmr, u64 addr)
{
	struct pib_hca_mr *mr = to_pmr(ibmr);

	if (mr->fast_pages == mr->fast_max_pages)
		return -ENOMEM;
	pib_hca_table_set(&mr->fast_table, mr->fast_pages++, addr);
	return 0;
}

int pib_hca_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int sg_nents,
		      unsigned int *sg_offset)
{
	to_pmr(ibmr)->fast_pages = 0;
	return ib_sg_to_pages(ibmr, sg, sg_nents, sg_offset, pib_hca_set_page);
}

int pib_hca_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct pib_hca_dev *dev = to_pdev(ibmr->device);
	struct pib_hca_mr *mr = to_pmr(ibmr);
	int ret;

	if (mr->odp)
		return pib_hca_dereg_odp_mr(dev, mr);
	/* The device does not use the memory after the command. -EBUSY: windows are bound to it. */
	ret = pib_hca_cmd_try_destroy(dev, PIB_HCA_CMD_DESTROY_MR, ibmr->lkey);
	if (ret)
		return ret;
	pib_hca_debugfs_key_remove(dev, ibmr->lkey, mr);
	if (mr->umem)
		ib_umem_release(mr->umem);
	pib_hca_table_free(dev, &mr->fast_table);
	kfree(mr);
	return 0;
}
