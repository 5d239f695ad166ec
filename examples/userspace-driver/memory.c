// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory.h"

#include "command.h"

#include <endian.h>

struct pib_hca_pages block_pages(const struct dma_block *block)
{
	struct pib_hca_pages pages = {
		.root = htole64(block->bus),
		.page_count = htole32((block->bytes + DMA_PAGE - 1) / DMA_PAGE),
		.log_page_size = PIB_HCA_MIN_LOG_PAGE_SIZE,
	};

	return pages;
}

void region_create(struct hca *hca, struct region *region, size_t bytes, uint32_t access)
{
	struct pib_hca_create_mr in = { .pd = htole32(hca->pd), .access = htole32(access), .length = htole64(bytes) };

	region->block = dma_take(&hca->dma, bytes);
	in.iova = htole64(region_address(region));
	in.pages = block_pages(&region->block);
	in.key = 0x5a;
	region->key = command_in(hca, PIB_HCA_CMD_CREATE_MR, 0, &in, sizeof(in));
}

void region_destroy(struct hca *hca, const struct region *region)
{
	command(hca, PIB_HCA_CMD_DESTROY_MR, region->key);
}
