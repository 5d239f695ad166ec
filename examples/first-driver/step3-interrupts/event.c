// SPDX-License-Identifier: GPL-2.0-or-later
#include "event.h"

#include <linux/dma-mapping.h>
#include <linux/interrupt.h>

#define LOG_DEPTH 8
#define DEPTH (1u << LOG_DEPTH)
#define BYTES (DEPTH * sizeof(struct pib_hca_eqe))

static void take(struct event_queue *queue, const struct pib_hca_eqe *event)
{
	void (*port_changed)(struct event_queue *queue, u8 port, u32 changes);
	struct device *device = &queue->hca->pdev->dev;
	u32 data = le32_to_cpu(event->data);

	switch (event->type) {
	case PIB_HCA_EVENT_COMPLETION:
		WRITE_ONCE(queue->completions, queue->completions + 1);
		wake_up_all(&queue->wait);
		break;
	case PIB_HCA_EVENT_COMMAND: /* the command queue polls */
		break;
	case PIB_HCA_EVENT_PORT:
		dev_info(device, "port %u: changes %#x\n", event->port, data);
		port_changed = READ_ONCE(queue->port_changed);
		if (port_changed)
			port_changed(queue, event->port, data);
		break;
	default:
		dev_err(device, "event %#x of %#x: %#x. Why:  ./pib why\n", event->type,
			le32_to_cpu(event->number), data);
	}
}

static void arm(const struct event_queue *queue)
{
	u64 value = (u64)queue->consumer << PIB_HCA_DB_COUNTER_SHIFT;

	dma_mb(); /* the device may write entries again as soon as it gets the counter */
	writeq(value | PIB_HCA_DB_EQ_ARM | queue->number, queue->hca->uar + PIB_HCA_UAR_EQ);
}

/*
 * If no event is new, the queue is still armed: an earlier call has taken the event of this
 * interrupt, or there was none.
 */
static irqreturn_t handle(int irq, void *data)
{
	struct event_queue *queue = data;
	u32 before = queue->consumer;

	for (;;) {
		const struct pib_hca_eqe *event = &queue->ring[queue->consumer % DEPTH];

		if (!hca_is_new(READ_ONCE(event->owner), queue->consumer, LOG_DEPTH))
			break;
		dma_rmb(); /* load the rest of the entry after its owner bit */
		take(queue, event);
		queue->consumer++;
	}
	if (queue->consumer == before)
		return IRQ_NONE;
	arm(queue);
	return IRQ_HANDLED;
}

static int create(struct event_queue *queue)
{
	struct pib_hca_create_eq in = {
		.pages.root = cpu_to_le64(queue->bus),
		.pages.page_count = cpu_to_le32(1),
		.pages.log_page_size = PIB_HCA_MIN_LOG_PAGE_SIZE,
		.log_depth = LOG_DEPTH,
		.flags = PIB_HCA_EQ_ASYNC,
	};
	struct command command = {
		.opcode = PIB_HCA_CMD_CREATE_EQ,
		.in = &in,
		.in_length = sizeof(in),
	};

	return command_execute(queue->commands, &command, &queue->number);
}

/* The handler of the interrupt runs from enable_irq() on. */
static int connect_interrupt(struct event_queue *queue)
{
	struct pci_dev *pdev = queue->hca->pdev;
	int ret;

	ret = pci_alloc_irq_vectors(pdev, 1, 1, PCI_IRQ_MSIX);
	if (ret < 0)
		return ret;
	ret = request_irq(pci_irq_vector(pdev, 0), handle, IRQF_NO_AUTOEN,
			  KBUILD_MODNAME, queue);
	if (ret)
		pci_free_irq_vectors(pdev);
	return ret;
}

static void disconnect_interrupt(struct event_queue *queue)
{
	free_irq(pci_irq_vector(queue->hca->pdev, 0), queue);
	pci_free_irq_vectors(queue->hca->pdev);
}

int event_open(struct event_queue *queue, struct hca *hca, struct command_queue *commands)
{
	struct device *device = &hca->pdev->dev;
	int ret;

	queue->hca = hca;
	queue->commands = commands;
	init_waitqueue_head(&queue->wait);
	queue->ring = dma_alloc_coherent(device, BYTES, &queue->bus, GFP_KERNEL);
	if (!queue->ring)
		return -ENOMEM;
	ret = connect_interrupt(queue);
	if (ret)
		goto err_free;
	ret = create(queue);
	if (ret)
		goto err_interrupt;
	arm(queue);
	enable_irq(pci_irq_vector(hca->pdev, 0));
	return 0;

err_interrupt:
	disconnect_interrupt(queue);
err_free:
	dma_free_coherent(device, BYTES, queue->ring, queue->bus);
	return ret;
}

/*
 * The handler ends first: it might ring the doorbell of a queue that is destroyed. The ring has
 * room for the events that nothing takes any more.
 */
void event_close(struct event_queue *queue)
{
	disconnect_interrupt(queue);
	command_destroy(queue->commands, PIB_HCA_CMD_DESTROY_EQ, queue->number);
	dma_free_coherent(&queue->hca->pdev->dev, BYTES, queue->ring, queue->bus);
}
