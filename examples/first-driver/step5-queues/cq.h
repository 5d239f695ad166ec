/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Completion queues (manual, 10). */
#ifndef CQ_H
#define CQ_H

#include "event.h"

/* consumer: CQEs taken. */
struct cq {
	struct event_queue *events;
	struct pib_hca_cq_header *header;
	struct pib_hca_cqe *ring;
	dma_addr_t bus;
	u32 number;
	u32 consumer;
};

int cq_create(struct cq *cq, struct event_queue *events);
void cq_destroy(struct cq *cq);

/*
 * Sleeps until there is a CQE, and takes it. Fails if the CQE has an error, or none comes in time.
 */
int cq_wait(struct cq *cq, struct pib_hca_cqe *taken);

#endif
