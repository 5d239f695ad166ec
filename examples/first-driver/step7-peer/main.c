// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Step 7: write to the memory of a peer. Files of the function:
 *
 *	address		LID, QPN, PSN, R_Key and address of this end, in hexadecimal digits
 *	peer		takes these numbers of the other end, and connects to it
 *	write		takes a text, and writes it to the peer's memory
 *	memory		the text that the peer has written here
 */
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
#define IN 0 /* where the peer writes */
#define OUT 2048
#define TEXT_BYTES 64
#define PORT 1
#define PSN 0x123456

/* peer.lid: 0 until it is connected. */
struct first {
	struct hca hca;
	struct command_queue commands;
	struct event_queue events;
	u32 pd;
	struct region region;
	struct cq cq;
	struct qp qp;
	struct mutex lock; /* peer, and posting to the QP */
	struct peer peer;
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

/* ---------------------------------------------------------------- step 7 --------------------- */

static ssize_t address_show(struct device *device, struct device_attribute *attr, char *text)
{
	struct first *first = dev_get_drvdata(device);
	int lid = port_active_lid(&first->commands, PORT);

	if (lid < 0)
		return lid;
	return sysfs_emit(text, "%x %x %x %x %llx\n", lid, first->qp.number, PSN, first->region.key,
			  first->region.bus + IN);
}
static DEVICE_ATTR_ADMIN_RO(address);

static int first_connect(struct first *first, const struct peer *peer)
{
	int ret;

	if (first->peer.lid)
		return -EISCONN;
	ret = qp_connect(&first->qp, peer, PSN);
	if (!ret)
		first->peer = *peer;
	return ret;
}

static ssize_t peer_store(struct device *device, struct device_attribute *attr, const char *text,
			  size_t count)
{
	struct first *first = dev_get_drvdata(device);
	struct peer peer;
	int ret;

	if (sscanf(text, "%hx %x %x %x %llx", &peer.lid, &peer.qpn, &peer.psn, &peer.rkey,
		   &peer.address) != 5 || !peer.lid)
		return -EINVAL;
	mutex_lock(&first->lock);
	ret = first_connect(first, &peer);
	mutex_unlock(&first->lock);
	return ret ?: count;
}
static DEVICE_ATTR_WO(peer);

static int first_write_text(struct first *first, const char *text)
{
	char *out = first->region.memory + OUT;

	if (!first->peer.lid)
		return -ENOTCONN;
	strscpy_pad(out, text, TEXT_BYTES);
	return qp_write(&first->qp, &first->peer, &first->region, OUT, TEXT_BYTES);
}

static ssize_t write_store(struct device *device, struct device_attribute *attr, const char *text,
			   size_t count)
{
	struct first *first = dev_get_drvdata(device);
	int ret;

	if (count >= TEXT_BYTES)
		return -EMSGSIZE;
	mutex_lock(&first->lock);
	ret = first_write_text(first, text);
	mutex_unlock(&first->lock);
	return ret ?: count;
}
static DEVICE_ATTR_WO(write);

static ssize_t memory_show(struct device *device, struct device_attribute *attr, char *text)
{
	struct first *first = dev_get_drvdata(device);

	return sysfs_emit(text, "%.*s\n", TEXT_BYTES, (char *)first->region.memory + IN);
}
static DEVICE_ATTR_ADMIN_RO(memory);

static struct attribute *first_attrs[] = {
	&dev_attr_address.attr,
	&dev_attr_memory.attr,
	&dev_attr_peer.attr,
	&dev_attr_write.attr,
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

MODULE_DESCRIPTION("A first HCA driver, step 7: a WRITE to a peer");
MODULE_LICENSE("GPL");
