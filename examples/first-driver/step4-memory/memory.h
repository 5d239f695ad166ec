/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Protection domains and memory regions (manual, 6.10, 6.11 and 13). */
#ifndef MEMORY_H
#define MEMORY_H

#include "command.h"

/* Memory with a key, which is its L_Key and its R_Key. Its addresses are bus addresses. */
struct region {
	struct command_queue *commands;
	void *memory;
	dma_addr_t bus;
	u32 bytes;
	u32 key;
};

int memory_alloc_pd(struct command_queue *commands, u32 *pd);

/* access: PIB_HCA_ACCESS_*. */
int region_create(struct region *region, struct command_queue *commands, u32 pd, u32 bytes,
		  u32 access);
void region_destroy(struct region *region);

/* Page list of memory that is contiguous on the bus. */
static inline struct pib_hca_pages contiguous_pages(dma_addr_t bus, u32 bytes)
{
	return (struct pib_hca_pages){
		.root = cpu_to_le64(bus),
		.page_count = cpu_to_le32(DIV_ROUND_UP(bytes, 1u << PIB_HCA_MIN_LOG_PAGE_SIZE)),
		.log_page_size = PIB_HCA_MIN_LOG_PAGE_SIZE,
	};
}

#endif
