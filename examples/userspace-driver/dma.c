// SPDX-License-Identifier: GPL-2.0-or-later
#include "dma.h"

#include "fail.h"

#include <fcntl.h>
#include <linux/mman.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * Size of a huge page. Without an IOMMU the memory is a huge page, because that is contiguous, and the kernel neither
 * swaps it out nor moves it in a compaction.
 */
#define ALL_BYTES (2u << 20)
#define FIRST_BUS 0x10000000u

/* An entry of /proc/self/pagemap has the frame of a page that is present. The kernel's pages may have 64 KiB. */
#define PAGEMAP_PRESENT (1ull << 63)
#define PAGEMAP_FRAME ((1ull << 55) - 1)

static uint64_t physical_address(const void *memory)
{
	int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry, page_size = (uint64_t)sysconf(_SC_PAGESIZE);

	if (file < 0)
		fail_errno("/proc/self/pagemap");
	if (pread(file, &entry, sizeof(entry), (off_t)((uintptr_t)memory / page_size * sizeof(entry))) != sizeof(entry))
		fail_errno("/proc/self/pagemap");
	close(file);
	if (!(entry & PAGEMAP_PRESENT) || !(entry & PAGEMAP_FRAME))
		fail("/proc/self/pagemap hides the page's frame: only root sees it");
	return (entry & PAGEMAP_FRAME) * page_size;
}

static void *map_memory(int flags)
{
	void *memory = mmap(NULL, ALL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | flags,
			    -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

void dma_open(struct dma *dma, const struct vfio *vfio)
{
	dma->used = 0;
	dma->memory = map_memory(vfio->no_iommu ? MAP_HUGETLB | MAP_HUGE_2MB | MAP_LOCKED : 0);
	if (!dma->memory)
		fail_errno("no memory%s", vfio->no_iommu ? "; add a huge page of 2 MiB:  ./bind.sh" : "");
	if (vfio->no_iommu) {
		dma->bus = physical_address(dma->memory);
	} else {
		dma->bus = FIRST_BUS;
		vfio_map(vfio, dma->memory, ALL_BYTES, dma->bus);
	}
}

struct dma_block dma_take(struct dma *dma, size_t bytes)
{
	size_t whole = (bytes + DMA_PAGE - 1) / DMA_PAGE * DMA_PAGE;
	struct dma_block block = {
		.memory = dma->memory + dma->used,
		.bus = dma->bus + dma->used,
		.bytes = (uint32_t)bytes,
	};

	if (whole > ALL_BYTES - dma->used)
		fail("no room for %zu bytes in the memory for DMA: ask for shorter messages", bytes);
	dma->used += whole;
	return block;
}

void dma_close(struct dma *dma)
{
	munmap(dma->memory, ALL_BYTES);
}
