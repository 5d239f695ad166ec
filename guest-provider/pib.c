// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The device: its discovery, and its registration with libibverbs. */
#include <config.h>

#include <stdlib.h>
#include <unistd.h>

#include "pib.h"
#include "pib_hca_abi.h"

/* Until the kernel has a driver id for the device, it is known by its PCI identity. */
static const struct verbs_match_ent pib_match_table[] = {
	VERBS_PCI_MATCH(PIB_HCA_PCI_VENDOR_ID, PIB_HCA_PCI_DEVICE_ID, NULL),
	{},
};

static struct verbs_device *pib_alloc_device(struct verbs_sysfs_dev *sysfs_dev)
{
	struct pib_device *dev;

	dev = calloc(1, sizeof(*dev));
	if (!dev)
		return NULL;
	dev->page_size = sysconf(_SC_PAGESIZE);
	return &dev->ibv_dev;
}

static void pib_uninit_device(struct verbs_device *verbs_device)
{
	free(to_pdev(&verbs_device->device));
}

static const struct verbs_device_ops pib_dev_ops = {
	.name = "pib",
	.match_min_abi_version = PIB_HCA_UVERBS_ABI_VERSION,
	.match_max_abi_version = PIB_HCA_UVERBS_ABI_VERSION,
	.match_table = pib_match_table,
	.alloc_device = pib_alloc_device,
	.uninit_device = pib_uninit_device,
	.alloc_context = pib_alloc_context,
	.import_context = pib_import_context,
};
PROVIDER_DRIVER(pib, pib_dev_ops);
