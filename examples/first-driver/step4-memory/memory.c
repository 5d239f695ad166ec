// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory.h"

#include <linux/dma-mapping.h>

#define KEY_BYTE 0x5a

int memory_alloc_pd(struct command_queue *commands, u32 *pd)
{
	struct command command = { .opcode = PIB_HCA_CMD_ALLOC_PD };

	return command_execute(commands, &command, pd);
}

static int register_memory(struct region *region, u32 pd, u32 access)
{
	struct pib_hca_create_mr in = {
		.pd = cpu_to_le32(pd),
		.access = cpu_to_le32(access),
		.iova = cpu_to_le64(region->bus),
		.length = cpu_to_le64(region->bytes),
		.pages = contiguous_pages(region->bus, region->bytes),
		.key = KEY_BYTE,
	};
	struct command command = {
		.opcode = PIB_HCA_CMD_CREATE_MR,
		.in = &in,
		.in_length = sizeof(in),
	};

	return command_execute(region->commands, &command, &region->key);
}

static void free_memory(struct region *region)
{
	dma_free_coherent(&region->commands->hca->pdev->dev, region->bytes, region->memory,
			  region->bus);
}

int region_create(struct region *region, struct command_queue *commands, u32 pd, u32 bytes,
		  u32 access)
{
	int ret;

	region->commands = commands;
	region->bytes = bytes;
	region->memory = dma_alloc_coherent(&commands->hca->pdev->dev, bytes, &region->bus,
					    GFP_KERNEL);
	if (!region->memory)
		return -ENOMEM;
	ret = register_memory(region, pd, access);
	if (ret)
		free_memory(region);
	return ret;
}

/* From the completion of DESTROY_MR on no packet reaches the memory. */
void region_destroy(struct region *region)
{
	command_destroy(region->commands, PIB_HCA_CMD_DESTROY_MR, region->key);
	free_memory(region);
}
