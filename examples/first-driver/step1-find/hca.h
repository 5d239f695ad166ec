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

/* The device is reset afterwards, and may reach memory. */
int hca_open(struct hca *hca, struct pci_dev *pdev);

/* The device reaches no memory any more, so that its driver may free it. */
void hca_stop(struct hca *hca);

void hca_close(struct hca *hca);

/* Whether the device has written an entry; counter tells the pass of software (manual, 1). */
static inline bool hca_is_new(u8 owner, u32 counter, unsigned int log_depth)
{
	return (owner & PIB_HCA_OWNER_BIT) == (((counter >> log_depth) & 1) ^ 1);
}

#endif
