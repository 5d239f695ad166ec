// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Event queues: one for asynchronous events and command completions, and one for each completion
 * vector. With a single MSI-X vector both kinds share it.
 */
#include <linux/cpumask.h>
#include <linux/interrupt.h>

#include "pib_hca.h"

/* The greatest depth: an event for every QP. Events that find the queue full wait in the device. */
#define PIB_HCA_ASYNC_EQ_LOG_DEPTH PIB_HCA_MAX_EQ_LOG_DEPTH
/* The device delays completion events while an EQ is full. */
#define PIB_HCA_COMPLETION_EQ_LOG_DEPTH 12
/*
 * Maximum number of events that one interrupt handles: a small part of each EQ, so that new events
 * have room.
 */
#define PIB_HCA_EQ_BUDGET 256

static void pib_hca_eq_doorbell(struct pib_hca_eq *eq, bool arm)
{
	u64 value = (u64)eq->consumer << PIB_HCA_DB_COUNTER_SHIFT | eq->eqn;

	if (arm)
		value |= PIB_HCA_DB_EQ_ARM;
	dma_mb(); /* read the entries before the device may overwrite them */
	writeq(value, eq->dev->uar0 + PIB_HCA_UAR_EQ);
}

static struct pib_hca_eqe *pib_hca_next_eqe(struct pib_hca_eq *eq)
{
	u32 depth = 1U << eq->log_depth;
	u32 index = eq->consumer & (depth - 1);
	struct pib_hca_eqe *eqe = pib_hca_buf_at(&eq->buf, index * sizeof(*eqe));
	u8 first_pass = !(eq->consumer & depth);

	if ((READ_ONCE(eqe->owner) & PIB_HCA_OWNER_BIT) != first_pass)
		return NULL;
	dma_rmb(); /* read the owner bit before the body */
	return eqe;
}

/* Handles a bounded number of events: arming raises the interrupt again for the rest. */
static bool pib_hca_poll_eq(struct pib_hca_eq *eq)
{
	struct pib_hca_eqe *eqe, event;
	u32 handled = 0;

	while (handled < PIB_HCA_EQ_BUDGET && (eqe = pib_hca_next_eqe(eq))) {
		event = *eqe; /* a faulty device may write again between a check and a use */
		pib_hca_handle_event(eq->dev, &event);
		eq->consumer++;
		handled++;
	}
	pib_hca_eq_doorbell(eq, true);
	return handled;
}

static irqreturn_t pib_hca_interrupt(int irq, void *arg)
{
	struct pib_hca_eq *eq = arg;
	struct pib_hca_dev *dev = eq->dev;
	bool handled;

	WRITE_ONCE(eq->interrupts, eq->interrupts + 1);
	if (pib_hca_is_dead(dev))
		return IRQ_HANDLED;
	handled = pib_hca_poll_eq(eq);
	if (dev->vector_count == 1)
		handled |= pib_hca_poll_eq(&dev->eqs[1]);
	/* A device that cannot write to its async EQ still raises its interrupt. */
	if (eq->async && !handled)
		pib_hca_has_failed(dev);
	return IRQ_HANDLED;
}

void pib_hca_eqs_sync(struct pib_hca_dev *dev)
{
	u32 i;

	for (i = 0; i < dev->vector_count; i++)
		synchronize_irq(pci_irq_vector(dev->pdev, i));
}

/* ---------------------------------------------------------------- create and destroy --------- */

static int pib_hca_eq_create(struct pib_hca_dev *dev, struct pib_hca_eq *eq)
{
	struct pib_hca_create_eq in = {
		.vector = cpu_to_le32(eq->vector),
		.log_depth = eq->log_depth,
		.flags = eq->async ? PIB_HCA_EQ_ASYNC : 0,
	};
	struct pib_hca_page_table table = {};
	int ret;

	eq->dev = dev;
	eq->consumer = 0;
	ret = pib_hca_buf_alloc(dev, &eq->buf, sizeof(struct pib_hca_eqe) << eq->log_depth);
	if (ret)
		return ret;
	ret = pib_hca_table_from_buf(dev, &table, &in.pages, &eq->buf);
	if (!ret)
		ret = pib_hca_cmd_create(dev, PIB_HCA_CMD_CREATE_EQ, &in, sizeof(in), &eq->eqn);
	pib_hca_table_free(dev, &table);
	if (ret)
		pib_hca_buf_free(dev, &eq->buf);
	return ret;
}

static void pib_hca_eqs_destroy(struct pib_hca_dev *dev, u32 count)
{
	while (count--) {
		pib_hca_cmd_destroy(dev, PIB_HCA_CMD_DESTROY_EQ, dev->eqs[count].eqn);
		pib_hca_buf_free(dev, &dev->eqs[count].buf);
	}
}

static int pib_hca_eqs_create(struct pib_hca_dev *dev)
{
	u32 completion_eqs = max(dev->vector_count, 2U) - 1;
	u32 i;
	int ret;

	dev->eq_count = 1 + completion_eqs;
	for (i = 0; i < dev->eq_count; i++) {
		struct pib_hca_eq *eq = &dev->eqs[i];

		eq->async = i == 0;
		eq->vector = i % dev->vector_count;
		eq->log_depth = eq->async ? PIB_HCA_ASYNC_EQ_LOG_DEPTH :
					    PIB_HCA_COMPLETION_EQ_LOG_DEPTH;
		ret = pib_hca_eq_create(dev, eq);
		if (ret) {
			pib_hca_eqs_destroy(dev, i);
			return ret;
		}
	}
	return 0;
}

/* ---------------------------------------------------------------- interrupts ----------------- */

static void pib_hca_free_irqs(struct pib_hca_dev *dev, u32 count)
{
	while (count--) {
		int irq = pci_irq_vector(dev->pdev, count);

		irq_update_affinity_hint(irq, NULL);
		free_irq(irq, &dev->eqs[count]);
	}
}

static void pib_hca_name_eq(struct pib_hca_eq *eq)
{
	const char *slot = pci_name(eq->dev->pdev);

	if (eq->async)
		snprintf(eq->name, sizeof(eq->name), PIB_HCA_NAME "-async@pci:%s", slot);
	else
		snprintf(eq->name, sizeof(eq->name), PIB_HCA_NAME "-comp%u@pci:%s",
			 eq->vector - 1, slot);
}

static int pib_hca_request_irqs(struct pib_hca_dev *dev)
{
	int node = dev_to_node(&dev->pdev->dev);
	u32 i;
	int ret;

	for (i = 0; i < dev->vector_count; i++) {
		int irq = pci_irq_vector(dev->pdev, i);

		pib_hca_name_eq(&dev->eqs[i]);
		ret = request_irq(irq, pib_hca_interrupt, 0, dev->eqs[i].name, &dev->eqs[i]);
		if (ret) {
			pib_hca_free_irqs(dev, i);
			return ret;
		}
		/* Spread completion vectors over processors; the async vector may go to any. */
		if (i)
			irq_set_affinity_and_hint(irq,
						  cpumask_of(cpumask_local_spread(i - 1, node)));
	}
	return 0;
}

static int pib_hca_alloc_vectors(struct pib_hca_dev *dev)
{
	u32 offered = pib_hca_read(dev, PIB_HCA_REG_VECTOR_COUNT);
	u32 wanted = min_t(u32, num_online_cpus() + 1, min_t(u32, offered, PIB_HCA_MAX_VECTORS));
	int ret;

	ret = pci_alloc_irq_vectors(dev->pdev, 1, max(wanted, 1U), PCI_IRQ_MSIX);
	if (ret < 0) {
		dev_err(&dev->pdev->dev, "no MSI-X vectors (%d): boot without pci=nomsi\n", ret);
		return ret;
	}
	dev->vector_count = ret;
	return 0;
}

/* Executes the first command whose completion an interrupt reports. */
static int pib_hca_test_events(struct pib_hca_dev *dev)
{
	struct pib_hca_cmd_args args = { .opcode = PIB_HCA_CMD_NOP };

	return pib_hca_cmd(dev, &args);
}

int pib_hca_eqs_init(struct pib_hca_dev *dev)
{
	u32 i;
	int ret;

	ret = pib_hca_alloc_vectors(dev);
	if (ret)
		return ret;
	ret = pib_hca_eqs_create(dev);
	if (ret)
		goto err_vectors;
	ret = pib_hca_request_irqs(dev);
	if (ret)
		goto err_eqs;
	for (i = 0; i < dev->eq_count; i++)
		pib_hca_eq_doorbell(&dev->eqs[i], true);
	pib_hca_cmdq_use_events(dev, true);
	ret = pib_hca_test_events(dev);
	if (ret)
		goto err_irqs;
	return 0;

err_irqs:
	pib_hca_cmdq_use_events(dev, false);
	pib_hca_free_irqs(dev, dev->vector_count);
err_eqs:
	pib_hca_eqs_destroy(dev, dev->eq_count);
err_vectors:
	pci_free_irq_vectors(dev->pdev);
	return ret;
}

void pib_hca_eqs_cleanup(struct pib_hca_dev *dev)
{
	pib_hca_cmdq_use_events(dev, false);
	pib_hca_free_irqs(dev, dev->vector_count);
	pib_hca_eqs_destroy(dev, dev->eq_count);
	pci_free_irq_vectors(dev->pdev);
}
