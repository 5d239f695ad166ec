/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory regions (manual, 6.11 and 13). */
#ifndef MEMORY_H
#define MEMORY_H

#include "hca.h"

/* A region of a block. Its addresses are this process's addresses. key: its L_Key and R_Key. */
struct region {
	struct dma_block block;
	uint32_t key;
};

/* access: PIB_HCA_ACCESS_*. */
void region_create(struct hca *hca, struct region *region, size_t bytes, uint32_t access);
void region_destroy(struct hca *hca, const struct region *region);

static inline uint64_t region_address(const struct region *region)
{
	return (uintptr_t)region->block.memory;
}

/* Page list of a block, which is contiguous on the bus. */
struct pib_hca_pages block_pages(const struct dma_block *block);

#endif
