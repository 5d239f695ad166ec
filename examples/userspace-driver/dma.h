/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory that the device reads and writes. There is one piece of it, contiguous on the bus. It is cut into blocks of
 * whole pages, and given back as a whole after the device's last access.
 */
#ifndef DMA_H
#define DMA_H

#include "vfio.h"

#define DMA_PAGE 4096u

/* A block of memory that dma_take() returns, all bytes 0. bus: the block's bus address. */
struct dma_block {
	void *memory;
	uint64_t bus;
	uint32_t bytes;
};

struct dma {
	uint8_t *memory;
	uint64_t bus;
	size_t used;
};

void dma_open(struct dma *dma, const struct vfio *vfio);
struct dma_block dma_take(struct dma *dma, size_t bytes);
void dma_close(struct dma *dma);

#endif
