/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The HCA's PCI function, as sysfs shows it (manual, 2). */
#ifndef FUNCTION_H
#define FUNCTION_H

#include <limits.h>
#include <stdbool.h>

/* no_iommu: the kernel has no IOMMU for the function, which therefore reaches all memory. */
struct function {
	char address[NAME_MAX + 1];	/* 0000:01:00.0 */
	char group[PATH_MAX];		/* /dev/vfio/7 */
	bool no_iommu;
};

/* Finds the first HCA. It must be bound to vfio-pci. */
void function_find(struct function *found);

#endif
