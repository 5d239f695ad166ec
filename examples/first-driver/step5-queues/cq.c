// SPDX-License-Identifier: GPL-2.0-or-later
#include "cq.h"

#include <linux/dma-mapping.h>
#include <linux/jiffies.h>

#include "memory.h"

#define LOG_DEPTH 5
#define DEPTH (1u << LOG_DEPTH)
#define BYTES (PIB_HCA_QUEUE_HEADER_SIZE + DEPTH * sizeof(struct pib_hca_cqe))
#define LIMIT_S 60

static struct device *device_of(const struct cq *cq)
{
	return &cq->events->hca->pdev->dev;
}

static int create(struct cq *cq)
{
	struct pib_hca_create_cq in = {
		.pages = contiguous_pages(cq->bus, BYTES),
		.eqn = cpu_to_le32(cq->events->number),
		.log_depth = LOG_DEPTH,
	};
	struct command command = {
		.opcode = PIB_HCA_CMD_CREATE_CQ,
		.in = &in,
		.in_length = sizeof(in),
	};

	return command_execute(cq->events->commands, &command, &cq->number);
}

int cq_create(struct cq *cq, struct event_queue *events)
{
	int ret;

	cq->events = events;
	cq->consumer = 0;
	cq->header = dma_alloc_coherent(device_of(cq), BYTES, &cq->bus, GFP_KERNEL);
	if (!cq->header)
		return -ENOMEM;
	cq->ring = (struct pib_hca_cqe *)(cq->header + 1);
	ret = create(cq);
	if (ret)
		dma_free_coherent(device_of(cq), BYTES, cq->header, cq->bus);
	return ret;
}

void cq_destroy(struct cq *cq)
{
	command_destroy(cq->events->commands, PIB_HCA_CMD_DESTROY_CQ, cq->number);
	dma_free_coherent(device_of(cq), BYTES, cq->header, cq->bus);
}

static bool poll(struct cq *cq, struct pib_hca_cqe *taken)
{
	const struct pib_hca_cqe *next = &cq->ring[cq->consumer % DEPTH];

	if (!hca_is_new(READ_ONCE(next->owner), cq->consumer, LOG_DEPTH))
		return false;
	dma_rmb(); /* load the rest of the entry after its owner bit */
	*taken = *next;
	cq->consumer++;
	dma_mb(); /* the device may write the entry again as soon as it sees the counter */
	WRITE_ONCE(cq->header->consumer, cpu_to_le32(cq->consumer));
	return true;
}

/* The next completion raises an event; so does one that the device has already written. */
static void arm(const struct cq *cq)
{
	u64 value = (u64)cq->consumer << PIB_HCA_DB_COUNTER_SHIFT | cq->number;

	writeq(value, cq->events->hca->uar + PIB_HCA_UAR_CQ_ARM);
}

int cq_wait(struct cq *cq, struct pib_hca_cqe *taken)
{
	unsigned long end = jiffies + LIMIT_S * HZ;

	while (!poll(cq, taken)) {
		u32 seen = READ_ONCE(cq->events->completions);

		if (time_after(jiffies, end))
			return -ETIMEDOUT;
		arm(cq);
		wait_event_timeout(cq->events->wait, READ_ONCE(cq->events->completions) != seen,
				   HZ);
	}
	if (taken->status == PIB_HCA_WC_SUCCESS)
		return 0;
	dev_err(device_of(cq), "WQE %u of QP %#x: status %u, vendor_error %u. Why:  ./pib why\n",
		le32_to_cpu(taken->wqe_counter), le32_to_cpu(taken->qpn), taken->status,
		taken->vendor_error);
	return -EIO;
}
