// SPDX-License-Identifier: GPL-2.0-or-later
/* Step 8: register an InfiniBand device. */
#include <linux/module.h>

#include "verbs.h"

/* ---------------------------------------------------------------- steps 1 to 3 --------------- */

static int first_query_device(struct first *first)
{
	struct command command = {
		.opcode = PIB_HCA_CMD_QUERY_DEVICE,
		.out = &first->device,
		.out_length = sizeof(first->device),
	};
	int ret;

	ret = command_execute(&first->commands, &command, NULL);
	if (ret)
		return ret;
	return first->device.port_count >= 1 && first->device.port_count <= PIB_HCA_MAX_PORTS ?
		0 : -ENODEV;
}

static int first_open_device(struct first *first, struct pci_dev *pdev)
{
	int ret;

	ret = hca_open(&first->hca, pdev);
	if (ret)
		return ret;
	ret = command_open(&first->commands, &first->hca);
	if (ret)
		goto err_hca;
	ret = first_query_device(first);
	if (ret)
		goto err_commands;
	ret = event_open(&first->events, &first->hca, &first->commands);
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

static void first_close_device(struct first *first)
{
	event_close(&first->events);
	hca_stop(&first->hca);
	command_close(&first->commands);
	hca_close(&first->hca);
}

/* ---------------------------------------------------------------- step 8 --------------------- */

static int first_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct first *first;
	int ret;

	first = verbs_alloc();
	if (!first)
		return -ENOMEM;
	pci_set_drvdata(pdev, first);
	ret = first_open_device(first, pdev);
	if (ret)
		goto err_dealloc;
	ret = verbs_register(first);
	if (ret)
		goto err_close;
	return 0;

err_close:
	first_close_device(first);
err_dealloc:
	ib_dealloc_device(&first->ib);
	return ret;
}

static void first_remove(struct pci_dev *pdev)
{
	struct first *first = pci_get_drvdata(pdev);

	verbs_unregister(first);
	first_close_device(first);
	ib_dealloc_device(&first->ib);
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

MODULE_DESCRIPTION("A first HCA driver, step 8: registration with ib_core");
MODULE_LICENSE("GPL");
