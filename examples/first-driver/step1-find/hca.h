/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The PCI function: its BARs, and its reset (manual, 2 to 4). */
#ifndef HCA_H
#define HCA_H

#include <linux/io.h>
#include <linux/pci.h>

#include "pib_hca_hw.h"

/* uar: page 0 of BAR2, the doorbells. */
struct hca {
	struct pci_dev *pdev;
	void __iomem *registers;
	void __iomem *uar;
};

/* Resets the device and gives it bus mastering. */
int hca_open(struct hca *hca, struct pci_dev *pdev);

/* Ends the device's accesses to memory, so that its driver may free the memory. */
void hca_stop(struct hca *hca);

void hca_close(struct hca *hca);

/*
 * Returns whether the device has written an entry; counter gives software's pass over the ring
 * (manual, 1).
 */
static inline bool hca_is_new(u8 owner, u32 counter, unsigned int log_depth)
{
	return (owner & PIB_HCA_OWNER_BIT) == (((counter >> log_depth) & 1) ^ 1);
}

#endif
