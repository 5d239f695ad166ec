// SPDX-License-Identifier: GPL-2.0-or-later
#include "event.h"

#include "command.h"
#include "fail.h"
#include "io.h"

#include <stdio.h>

#define LOG_DEPTH 8
#define DEPTH (1u << LOG_DEPTH)

static void arm(struct hca *hca)
{
	const struct event_queue *queue = &hca->events;

	store_barrier();	/* the device may write entries again as soon as it gets the counter */
	store64(hca->vfio.uar, PIB_HCA_UAR_EQ,
		(uint64_t)queue->consumer << PIB_HCA_DB_COUNTER_SHIFT | PIB_HCA_DB_EQ_ARM | queue->number);
}

void event_open(struct hca *hca)
{
	struct dma_block ring = dma_take(&hca->dma, DEPTH * sizeof(struct pib_hca_eqe));
	struct pib_hca_create_eq in = {
		.pages = {
			.root = htole64(ring.bus),
			.page_count = htole32(1),
			.log_page_size = PIB_HCA_MIN_LOG_PAGE_SIZE,
		},
		.vector = 0,
		.log_depth = LOG_DEPTH,
		.flags = PIB_HCA_EQ_ASYNC,
	};

	hca->events.ring = ring.memory;
	hca->events.consumer = 0;
	hca->events.number = command_in(hca, PIB_HCA_CMD_CREATE_EQ, 0, &in, sizeof(in));
	arm(hca);
}

static void take(const struct pib_hca_eqe *event)
{
	uint32_t number = le32toh(event->number), data = le32toh(event->data);

	switch (event->type) {
	case PIB_HCA_EVENT_PORT:
		printf("port %u has changed: %#x\n", event->port, data);
		break;
	case PIB_HCA_EVENT_CQ_ERROR:
		fail("CQ %u has an error: %u. Why:  ./pib why", number, data);
	case PIB_HCA_EVENT_QP_FATAL:
	case PIB_HCA_EVENT_QP_REQUEST_ERROR:
	case PIB_HCA_EVENT_QP_ACCESS_ERROR:
		fail("QP %#x is in Error: event %#x. Why:  ./pib why", number, event->type);
	case PIB_HCA_EVENT_DEVICE_FATAL:
		fail("the device has stopped: FATAL_CAUSE is %u. Why:  ./pib why", data);
	}
}

/* The oldest event that has not been taken; NULL: there is none. */
static const struct pib_hca_eqe *next(const struct event_queue *queue)
{
	const struct pib_hca_eqe *event = &queue->ring[queue->consumer % DEPTH];

	if (!hca_is_new(load_owner(&event->owner), queue->consumer, LOG_DEPTH))
		return NULL;
	load_barrier();
	return event;
}

static void take_all(struct hca *hca)
{
	uint32_t before = hca->events.consumer;
	const struct pib_hca_eqe *event;

	while ((event = next(&hca->events))) {
		take(event);
		hca->events.consumer++;
	}
	if (hca->events.consumer != before)	/* otherwise the queue is still armed */
		arm(hca);
}

void event_wait(struct hca *hca, int milliseconds)
{
	vfio_wait(&hca->vfio, NO_FILE, milliseconds);
	take_all(hca);
}

void event_wait_input(struct hca *hca, int file)
{
	bool has_input;

	do {
		has_input = vfio_wait(&hca->vfio, file, FOR_EVER);
		take_all(hca);
	} while (!has_input);
}

void event_close(struct hca *hca)
{
	command(hca, PIB_HCA_CMD_DESTROY_EQ, hca->events.number);
}
