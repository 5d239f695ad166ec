// SPDX-License-Identifier: GPL-2.0-or-later
/* Step 2: start the command queue, and ask the device what it is. */
#include <linux/module.h>
#include <linux/slab.h>

#include "command.h"
#include "hca.h"

struct first {
	struct hca hca;
	struct command_queue commands;
};

static int first_show_device(struct first *first)
{
	struct pib_hca_query_device device;
	struct command command = {
		.opcode = PIB_HCA_CMD_QUERY_DEVICE,
		.out = &device,
		.out_length = sizeof(device),
	};
	int ret;

	ret = command_execute(&first->commands, &command, NULL);
	if (!ret)
		dev_info(&first->hca.pdev->dev, "%.64s: %u QPs, %u CQs, %u regions\n",
			 device.node_description, le32_to_cpu(device.max_qp),
			 le32_to_cpu(device.max_cq), le32_to_cpu(device.max_mr));
	return ret;
}

static int first_start(struct first *first, struct pci_dev *pdev)
{
	int ret;

	ret = hca_open(&first->hca, pdev);
	if (ret)
		return ret;
	ret = command_open(&first->commands, &first->hca);
	if (ret)
		goto err_hca;
	ret = first_show_device(first);
	if (ret)
		goto err_commands;
	return 0;

err_commands:
	hca_stop(&first->hca);
	command_close(&first->commands);
err_hca:
	hca_close(&first->hca);
	return ret;
}

static int first_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct first *first;

	first = devm_kzalloc(&pdev->dev, sizeof(*first), GFP_KERNEL);
	if (!first)
		return -ENOMEM;
	pci_set_drvdata(pdev, first);
	return first_start(first, pdev);
}

static void first_remove(struct pci_dev *pdev)
{
	struct first *first = pci_get_drvdata(pdev);

	hca_stop(&first->hca);
	command_close(&first->commands);
	hca_close(&first->hca);
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

MODULE_DESCRIPTION("A first HCA driver, step 2: the command queue");
MODULE_LICENSE("GPL");
