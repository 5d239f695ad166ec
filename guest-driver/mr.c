// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory regions (IBA vol. 1, 10.6 and 11.2.8): pinned memory of processes, the DMA MR, and regions
 * that work requests give memory to.
 */
#include <linux/random.h>

#include "pib_hca.h"

#define PIB_HCA_ACCESS_ALL \
	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
	 IB_ACCESS_REMOTE_ATOMIC | IB_ACCESS_MW_BIND)

u8 pib_hca_new_key_byte(void)
{
	return get_random_u32() & 0xff;
}

static struct pib_hca_mr *pib_hca_alloc_mr(struct ib_pd *ibpd, struct pib_hca_create_mr *in,
					   int access)
{
	struct pib_hca_mr *mr;

	if (access & ~(PIB_HCA_ACCESS_ALL | PIB_HCA_ACCESS_HINTS))
		return ERR_PTR(-EOPNOTSUPP);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	/* PIB_HCA_ACCESS_* have the core's values. */
	in->pd = cpu_to_le32(to_ppd(ibpd)->pdn);
	in->access = cpu_to_le32(access & PIB_HCA_ACCESS_ALL);
	in->key = pib_hca_new_key_byte();
	return mr;
}

static int pib_hca_create_mr_cmd(struct pib_hca_dev *dev, struct pib_hca_mr *mr,
				 const struct pib_hca_create_mr *in)
{
	u32 key;
	int ret;

	ret = pib_hca_cmd_create(dev, PIB_HCA_CMD_CREATE_MR, in, sizeof(*in), &key);
	if (ret)
		return ret;
	mr->ibmr.lkey = key;
	mr->ibmr.rkey = key;
	return 0;
}

struct ib_mr *pib_hca_get_dma_mr(struct ib_pd *ibpd, int access)
{
	struct pib_hca_create_mr in = {
		.length = cpu_to_le64(U64_MAX), /* from address 0: all but the very last byte */
		.flags = PIB_HCA_MR_PHYSICAL,
	};
	struct pib_hca_mr *mr;
	int ret;

	mr = pib_hca_alloc_mr(ibpd, &in, access);
	if (IS_ERR(mr))
		return ERR_CAST(mr);
	ret = pib_hca_create_mr_cmd(to_pdev(ibpd->device), mr, &in);
	if (ret) {
		kfree(mr);
		return ERR_PTR(ret);
	}
	return &mr->ibmr;
}

static int pib_hca_create_user_mr(struct pib_hca_dev *dev, struct pib_hca_mr *mr,
				  struct pib_hca_create_mr *in)
{
	u64 iova = le64_to_cpu(in->iova);
	struct pib_hca_page_table table = {};
	unsigned long page_size;
	int ret;

	page_size = ib_umem_find_best_pgsz(mr->umem, le64_to_cpu(dev->caps.page_size_cap), iova);
	if (!page_size)
		return -EINVAL;
	in->page_offset = cpu_to_le32(ib_umem_dma_offset(mr->umem, page_size));
	ret = pib_hca_table_from_umem(dev, &table, &in->pages, mr->umem, page_size);
	if (!ret)
		ret = pib_hca_create_mr_cmd(dev, mr, in);
	pib_hca_table_free(dev, &table);
	return ret;
}

struct ib_mr *pib_hca_reg_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova, int access,
			     struct ib_udata *udata)
{
	struct pib_hca_dev *dev = to_pdev(ibpd->device);
	struct pib_hca_create_mr in = {
		.iova = cpu_to_le64(iova),
		.length = cpu_to_le64(length),
	};
	struct pib_hca_mr *mr;
	int ret;

	ret = pib_hca_udata_no_input(udata);
	if (ret)
		return ERR_PTR(ret);
	if (length > le64_to_cpu(dev->caps.max_mr_size))
		return ERR_PTR(-EINVAL);
	mr = pib_hca_alloc_mr(ibpd, &in, access);
	if (IS_ERR(mr))
		return ERR_CAST(mr);
	mr->umem = pib_hca_umem_get(ibpd->device, start, length, access);
	if (IS_ERR(mr->umem)) {
		ret = PTR_ERR(mr->umem);
		goto err_mr;
	}
	ret = pib_hca_create_user_mr(dev, mr, &in);
	if (ret)
		goto err_umem;
	return &mr->ibmr;

err_umem:
	ib_umem_release(mr->umem);
err_mr:
	kfree(mr);
	return ERR_PTR(ret);
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

	/* The device is through with the memory when the command ends. Windows keep a region. */
	ret = pib_hca_cmd_try_destroy(dev, PIB_HCA_CMD_DESTROY_MR, ibmr->lkey);
	if (ret)
		return ret;
	if (mr->umem)
		ib_umem_release(mr->umem);
	pib_hca_table_free(dev, &mr->fast_table);
	kfree(mr);
	return 0;
}
