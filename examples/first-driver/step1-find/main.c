// SPDX-License-Identifier: GPL-2.0-or-later
/* Step 1: find the function, and read its registers. */
#include <linux/module.h>
#include <linux/slab.h>

#include "hca.h"

static int first_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct hca *hca;
	int ret;

	hca = devm_kzalloc(&pdev->dev, sizeof(*hca), GFP_KERNEL);
	if (!hca)
		return -ENOMEM;
	ret = hca_open(hca, pdev);
	if (ret)
		return ret;
	pci_set_drvdata(pdev, hca);
	dev_info(&pdev->dev, "interface %#x, %u ports, node GUID %016llx\n",
		 readl(hca->registers + PIB_HCA_REG_VERSION),
		 readl(hca->registers + PIB_HCA_REG_PORT_COUNT),
		 readq(hca->registers + PIB_HCA_REG_NODE_GUID));
	return 0;
}

static void first_remove(struct pci_dev *pdev)
{
	struct hca *hca = pci_get_drvdata(pdev);

	hca_stop(hca);
	hca_close(hca);
}

static const struct pci_device_id first_ids[] = {
	{ PCI_DEVICE(PIB_HCA_PCI_VENDOR_ID, PIB_HCA_PCI_DEVICE_ID) },
	{}
};
MODULE_DEVICE_TABLE(pci, first_ids);

static struct pci_driver first_driver = {
	.name = KBUILD_MODNAME,
	.id_table = first_ids,
	.probe = first_probe,
	.remove = first_remove,
};
module_pci_driver(first_driver);

MODULE_DESCRIPTION("A first HCA driver, step 1: find the function");
MODULE_LICENSE("GPL");
