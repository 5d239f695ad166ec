/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The event queue (manual, 9): one for all events, at MSI-X vector 0. */
#ifndef EVENT_H
#define EVENT_H

#include <linux/wait.h>

#include "command.h"

/* consumer: events taken. completions: completion events, which wake sleepers at `wait`. */
struct event_queue {
	struct hca *hca;
	struct command_queue *commands;
	struct pib_hca_eqe *ring;
	dma_addr_t bus;
	u32 number;
	u32 consumer;
	u32 completions;
	wait_queue_head_t wait;
	/* The interrupt handler calls this function when a port changes; NULL: there is none. */
	void (*port_changed)(struct event_queue *queue, u8 port, u32 changes);
};

/* *queue is zeroed, except port_changed. */
int event_open(struct event_queue *queue, struct hca *hca, struct command_queue *commands);
void event_close(struct event_queue *queue);

#endif
