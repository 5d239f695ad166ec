// SPDX-License-Identifier: GPL-2.0-or-later
/* Step 5: create a CQ and a QP. */
#include <linux/module.h>
#include <linux/slab.h>

#include "command.h"
#include "cq.h"
#include "event.h"
#include "hca.h"
#include "memory.h"
#include "qp.h"

#define REGION_BYTES 4096

struct first {
	struct hca hca;
	struct command_queue commands;
	struct event_queue events;
	u32 pd;
	struct region region;
	struct cq cq;
	struct qp qp;
};

/* ---------------------------------------------------------------- steps 1 to 3 --------------- */

static int first_open_device(struct first *first, struct pci_dev *pdev)
{
	int ret;

	ret = hca_open(&first->hca, pdev);
	if (ret)
		return ret;
	ret = command_open(&first->commands, &first->hca);
	if (ret)
		goto err_hca;
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

/* ---------------------------------------------------------------- steps 4 and 5 -------------- */

static int first_create_objects(struct first *first)
{
	int ret;

	ret = memory_alloc_pd(&first->commands, &first->pd);
	if (ret)
		return ret;
	ret = region_create(&first->region, &first->commands, first->pd, REGION_BYTES,
			    PIB_HCA_ACCESS_LOCAL_WRITE | PIB_HCA_ACCESS_REMOTE_WRITE);
	if (ret)
		goto err_pd;
	ret = cq_create(&first->cq, &first->events);
	if (ret)
		goto err_region;
	ret = qp_create(&first->qp, &first->cq, first->pd);
	if (ret)
		goto err_cq;
	dev_info(&first->hca.pdev->dev, "CQ %u, QP %#x\n", first->cq.number, first->qp.number);
	return 0;

err_cq:
	cq_destroy(&first->cq);
err_region:
	region_destroy(&first->region);
err_pd:
	command_destroy(&first->commands, PIB_HCA_CMD_FREE_PD, first->pd);
	return ret;
}

static void first_destroy_objects(struct first *first)
{
	qp_destroy(&first->qp);
	cq_destroy(&first->cq);
	region_destroy(&first->region);
	command_destroy(&first->commands, PIB_HCA_CMD_FREE_PD, first->pd);
}

static int first_start(struct first *first, struct pci_dev *pdev)
{
	int ret;

	ret = first_open_device(first, pdev);
	if (ret)
		return ret;
	ret = first_create_objects(first);
	if (ret)
		first_close_device(first);
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

	first_destroy_objects(first);
	first_close_device(first);
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

MODULE_DESCRIPTION("A first HCA driver, step 5: completion queue and queue pair");
MODULE_LICENSE("GPL");
