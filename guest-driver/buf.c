// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory shared with the device: chunks of kernel memory, pinned pages of a process, and the page
 * tables that describe either one in a struct pib_hca_pages.
 */
#include "pib_hca.h"

/* 64 KiB: few queues need more than one chunk, and fragmented memory still has such chunks. */
#define PIB_HCA_MAX_CHUNK_SHIFT 16

static void pib_hca_chunks_free(struct pib_hca_dev *dev, struct pib_hca_chunk *chunks, u32 count,
				size_t chunk_bytes)
{
	u32 i;

	for (i = 0; i < count; i++)
		dma_free_coherent(&dev->pdev->dev, chunk_bytes, chunks[i].addr, chunks[i].dma);
	kvfree(chunks);
}

static struct pib_hca_chunk *pib_hca_chunks_alloc(struct pib_hca_dev *dev, u32 count,
						  size_t chunk_bytes)
{
	struct pib_hca_chunk *chunks;
	u32 i;

	chunks = kvcalloc(count, sizeof(*chunks), GFP_KERNEL);
	if (!chunks)
		return NULL;
	for (i = 0; i < count; i++) {
		chunks[i].addr = dma_alloc_coherent(&dev->pdev->dev, chunk_bytes, &chunks[i].dma,
						    GFP_KERNEL | __GFP_NOWARN);
		if (!chunks[i].addr) {
			pib_hca_chunks_free(dev, chunks, i, chunk_bytes);
			return NULL;
		}
		cond_resched();
	}
	return chunks;
}

int pib_hca_buf_alloc(struct pib_hca_dev *dev, struct pib_hca_buf *buf, size_t bytes)
{
	unsigned int shift = PAGE_SHIFT + get_order(bytes);
	struct pib_hca_buf new;

	new.chunk_shift = min_t(unsigned int, shift, PIB_HCA_MAX_CHUNK_SHIFT);
	new.count = DIV_ROUND_UP(bytes, 1UL << new.chunk_shift);
	new.chunks = pib_hca_chunks_alloc(dev, new.count, 1UL << new.chunk_shift);
	if (!new.chunks)
		return -ENOMEM;
	*buf = new;
	return 0;
}

void pib_hca_buf_free(struct pib_hca_dev *dev, struct pib_hca_buf *buf)
{
	if (!buf->chunks)
		return;
	pib_hca_chunks_free(dev, buf->chunks, buf->count, 1UL << buf->chunk_shift);
	buf->chunks = NULL;
}

/* ---------------------------------------------------------------- page tables ---------------- */

void pib_hca_table_set(const struct pib_hca_page_table *table, u32 index, u64 addr)
{
	__le64 *entries = table->tables[index / PIB_HCA_TABLE_ENTRIES].addr;

	entries[index % PIB_HCA_TABLE_ENTRIES] = cpu_to_le64(addr);
}

/*
 * Allocates the tables for pages->page_count pages, those of the lowest level first, then those of
 * each level above, and links the levels. A single page needs no table: the caller makes the page
 * the root.
 */
static int pib_hca_table_alloc(struct pib_hca_dev *dev, struct pib_hca_page_table *table,
			       struct pib_hca_pages *pages)
{
	u32 below = le32_to_cpu(pages->page_count);
	u32 first[PIB_HCA_MAX_TABLE_LEVELS];
	u32 count[PIB_HCA_MAX_TABLE_LEVELS];
	u32 total = 0, level, i;

	for (level = 0; below > 1; level++) {
		if (level == PIB_HCA_MAX_TABLE_LEVELS)
			return -EINVAL;
		first[level] = total;
		count[level] = DIV_ROUND_UP(below, PIB_HCA_TABLE_ENTRIES);
		total += count[level];
		below = count[level];
	}
	pages->levels = level;
	if (!level)
		return 0;

	table->tables = pib_hca_chunks_alloc(dev, total, PAGE_SIZE);
	if (!table->tables)
		return -ENOMEM;
	table->table_count = total;
	for (level = 1; level < pages->levels; level++)
		for (i = 0; i < count[level - 1]; i++)
			pib_hca_table_set(table, first[level] * PIB_HCA_TABLE_ENTRIES + i,
					  table->tables[first[level - 1] + i].dma);
	pages->root = cpu_to_le64(table->tables[total - 1].dma);
	return 0;
}

static void pib_hca_table_put(struct pib_hca_page_table *table, struct pib_hca_pages *pages,
			      u32 index, u64 addr)
{
	if (pages->levels)
		pib_hca_table_set(table, index, addr);
	else
		pages->root = cpu_to_le64(addr);
}

int pib_hca_table_from_buf(struct pib_hca_dev *dev, struct pib_hca_page_table *table,
			   struct pib_hca_pages *pages, const struct pib_hca_buf *buf)
{
	u32 i;
	int ret;

	pages->page_count = cpu_to_le32(buf->count);
	pages->log_page_size = buf->chunk_shift;
	ret = pib_hca_table_alloc(dev, table, pages);
	if (ret)
		return ret;
	for (i = 0; i < buf->count; i++)
		pib_hca_table_put(table, pages, i, buf->chunks[i].dma);
	return 0;
}

int pib_hca_table_from_umem(struct pib_hca_dev *dev, struct pib_hca_page_table *table,
			    struct pib_hca_pages *pages, struct ib_umem *umem,
			    unsigned long page_size)
{
	size_t count = ib_umem_num_dma_blocks(umem, page_size);
	struct ib_block_iter iter;
	u32 i = 0;
	int ret;

	if (count > U32_MAX)
		return -EINVAL;
	pages->page_count = cpu_to_le32(count);
	pages->log_page_size = ilog2(page_size);
	ret = pib_hca_table_alloc(dev, table, pages);
	if (ret)
		return ret;
	rdma_umem_for_each_dma_block(umem, &iter, page_size)
		pib_hca_table_put(table, pages, i++, rdma_block_iter_dma_address(&iter));
	return 0;
}

int pib_hca_table_for_fast_reg(struct pib_hca_dev *dev, struct pib_hca_page_table *table,
			       u32 max_pages)
{
	/* At least two pages: a list of one page has no table. */
	struct pib_hca_pages pages = { .page_count = cpu_to_le32(max_t(u32, max_pages, 2)) };

	if (max_pages > PIB_HCA_TABLE_ENTRIES * PIB_HCA_TABLE_ENTRIES)
		return -EINVAL;
	return pib_hca_table_alloc(dev, table, &pages);
}

/*
 * Describes the first `page_count` pages of the table. The lowest level's tables come first; the
 * table above them, if there is one, is the last.
 */
void pib_hca_table_view(const struct pib_hca_page_table *table, struct pib_hca_pages *pages,
			u32 page_count, u32 page_size)
{
	bool one = page_count <= PIB_HCA_TABLE_ENTRIES;

	pages->root = cpu_to_le64(table->tables[one ? 0 : table->table_count - 1].dma);
	pages->page_count = cpu_to_le32(page_count);
	pages->levels = one ? 1 : 2;
	pages->log_page_size = ilog2(page_size);
	pages->reserved = 0;
}

void pib_hca_table_free(struct pib_hca_dev *dev, struct pib_hca_page_table *table)
{
	if (!table->tables)
		return;
	pib_hca_chunks_free(dev, table->tables, table->table_count, PAGE_SIZE);
	table->tables = NULL;
}

/* ---------------------------------------------------------------- memory of processes -------- */

int pib_hca_check_user_dma(struct pib_hca_dev *dev)
{
	if (!dev->dma_needs_sync)
		return 0;
	ibdev_err_ratelimited(&dev->ibdev,
			      "memory of processes refused: DMA needs bounce buffers (swiotlb) or cache maintenance; boot without swiotlb=force, or use kernel consumers only\n");
	return -EOPNOTSUPP;
}

/* ---------------------------------------------------------------- memory of queues ----------- */

int pib_hca_queue_mem_kernel(struct pib_hca_dev *dev, struct pib_hca_queue_mem *mem, size_t bytes)
{
	return pib_hca_buf_alloc(dev, &mem->buf, bytes);
}

struct ib_umem *pib_hca_umem_get(struct pib_hca_dev *dev, u64 addr, size_t bytes, int access)
{
	int ret = pib_hca_check_user_dma(dev);

	return ret ? ERR_PTR(ret) : pib_hca_compat_umem_get(&dev->ibdev, addr, bytes, access);
}

/*
 * Pins the first `bytes` bytes of a process's buffer of `length` bytes. -EINVAL: the buffer is
 * shorter, or does not begin on a page boundary.
 */
int pib_hca_queue_mem_user(struct pib_hca_dev *dev, struct pib_hca_queue_mem *mem, u64 addr,
			   u64 length, u64 bytes)
{
	struct ib_umem *umem;

	if (length < bytes || !PAGE_ALIGNED(addr))
		return -EINVAL;
	umem = pib_hca_umem_get(dev, addr, bytes, IB_ACCESS_LOCAL_WRITE);
	if (IS_ERR(umem))
		return PTR_ERR(umem);
	mem->umem = umem;
	return 0;
}

int pib_hca_queue_mem_table(struct pib_hca_dev *dev, struct pib_hca_page_table *table,
			    struct pib_hca_pages *pages, const struct pib_hca_queue_mem *mem)
{
	unsigned long page_size;

	if (!mem->umem)
		return pib_hca_table_from_buf(dev, table, pages, &mem->buf);
	/* With address 0 the core chooses a page size that divides the buffer's bus address. */
	page_size = ib_umem_find_best_pgsz(mem->umem, le64_to_cpu(dev->caps.page_size_cap), 0);
	if (!page_size)
		return -EINVAL;
	return pib_hca_table_from_umem(dev, table, pages, mem->umem, page_size);
}

void pib_hca_queue_mem_free(struct pib_hca_dev *dev, struct pib_hca_queue_mem *mem)
{
	if (mem->umem)
		ib_umem_release(mem->umem);
	mem->umem = NULL;
	pib_hca_buf_free(dev, &mem->buf);
}
