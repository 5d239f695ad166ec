// SPDX-License-Identifier: GPL-2.0-or-later
/* Step 6: write to our own memory, whenever a process reads the function's file `self`. */
#include <linux/module.h>
#include <linux/slab.h>

#include "command.h"
#include "cq.h"
#include "event.h"
#include "hca.h"
#include "memory.h"
#include "port.h"
#include "qp.h"

#define REGION_BYTES 4096
#define FROM 0
#define TO 2048
#define BYTES 64
#define PORT 1
#define PSN 0x123456

struct first {
	struct hca hca;
	struct command_queue commands;
	struct event_queue events;
	u32 pd;
	struct region region;
	struct cq cq;
	struct mutex lock; /* one WRITE at a time */
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
	return 0;

err_region:
	region_destroy(&first->region);
err_pd:
	command_destroy(&first->commands, PIB_HCA_CMD_FREE_PD, first->pd);
	return ret;
}

static void first_destroy_objects(struct first *first)
{
	cq_destroy(&first->cq);
	region_destroy(&first->region);
	command_destroy(&first->commands, PIB_HCA_CMD_FREE_PD, first->pd);
}

/* ---------------------------------------------------------------- step 6 --------------------- */

/* A QP that is its own peer: both directions begin with the same PSN. */
static int first_write_by(struct first *first, struct qp *qp, u16 lid)
{
	struct peer self = {
		.lid = lid,
		.qpn = qp->number,
		.psn = PSN,
		.rkey = first->region.key,
		.address = first->region.bus + TO,
	};
	int ret;

	ret = qp_connect(qp, &self, PSN);
	if (ret)
		return ret;
	return qp_write(qp, &self, &first->region, FROM, BYTES);
}

static int first_write_self(struct first *first)
{
	u8 *memory = first->region.memory;
	struct qp qp;
	int ret, lid;

	lid = port_active_lid(&first->commands, PORT);
	if (lid < 0)
		return lid;
	get_random_bytes(memory + FROM, BYTES);
	memset(memory + TO, 0, BYTES);
	ret = qp_create(&qp, &first->cq, first->pd);
	if (ret)
		return ret;
	ret = first_write_by(first, &qp, lid);
	qp_destroy(&qp);
	if (!ret && memcmp(memory + FROM, memory + TO, BYTES))
		ret = -EIO;
	return ret;
}

static ssize_t self_show(struct device *device, struct device_attribute *attr, char *text)
{
	struct first *first = dev_get_drvdata(device);
	int ret;

	mutex_lock(&first->lock);
	ret = first_write_self(first);
	mutex_unlock(&first->lock);
	return ret ?: sysfs_emit(text, "%d bytes written\n", BYTES);
}
static DEVICE_ATTR_ADMIN_RO(self);

static struct attribute *first_attrs[] = {
	&dev_attr_self.attr,
	NULL
};
ATTRIBUTE_GROUPS(first);

static int first_start(struct first *first, struct pci_dev *pdev)
{
	int ret;

	mutex_init(&first->lock);
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
	.dev_groups = first_groups,
};
module_pci_driver(first_driver);

MODULE_DESCRIPTION("A first HCA driver, step 6: a WRITE to oneself");
MODULE_LICENSE("GPL");
