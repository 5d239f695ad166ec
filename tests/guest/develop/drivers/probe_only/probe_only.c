// SPDX-License-Identifier: GPL-2.0-or-later
/* A driver that finds the HCA and leaves it as it is. */
#include <linux/module.h>
#include <linux/pci.h>

static int probe_only_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	dev_info(&pdev->dev, "probe_only has found the HCA\n");
	return 0;
}

static void probe_only_remove(struct pci_dev *pdev)
{
	dev_info(&pdev->dev, "probe_only has left the HCA\n");
}

static const struct pci_device_id probe_only_ids[] = {
	{ PCI_DEVICE(0x1234, 0x1b0c) },
	{}
};
MODULE_DEVICE_TABLE(pci, probe_only_ids);

static struct pci_driver probe_only_driver = {
	.name = "probe_only",
	.id_table = probe_only_ids,
	.probe = probe_only_probe,
	.remove = probe_only_remove,
};
module_pci_driver(probe_only_driver);

MODULE_DESCRIPTION("Test: a driver that only finds the HCA");
MODULE_LICENSE("GPL");
