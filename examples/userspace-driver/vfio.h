/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The function by way of the kernel's VFIO: BARs, interrupt, memory for DMA. */
#ifndef USERSPACE_VFIO_H
#define USERSPACE_VFIO_H

#include "function.h"

#include <stddef.h>
#include <stdint.h>

struct vfio {
	int container;
	int group;
	int device;
	int interrupt;			/* an eventfd, readable after vector 0 was raised */
	bool no_iommu;
	volatile uint8_t *registers;	/* BAR0 */
	volatile uint8_t *uar;		/* page 0 of BAR2: UAR 0 */
};

/* Opens the function, and enables memory access and MSI-X. */
void vfio_open(struct vfio *vfio, const struct function *function);

/* Lets the device access memory and send interrupts. Call this after a reset. */
void vfio_enable_bus_master(const struct vfio *vfio);

/* Maps memory of this process for the device at a bus address. Only with an IOMMU. */
void vfio_map(const struct vfio *vfio, void *memory, size_t bytes, uint64_t bus);

#define NO_FILE (-1)
#define FOR_EVER (-1)

/*
 * Waits for an interrupt, or input of a file, for at most the given time. Returns whether the file has input or is at
 * its end.
 */
bool vfio_wait(const struct vfio *vfio, int file, int milliseconds);

void vfio_close(struct vfio *vfio);

#endif
