/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Completion queues (manual, 10). */
#ifndef CQ_H
#define CQ_H

#include "hca.h"

/* consumer: CQEs taken. */
struct cq {
	struct pib_hca_cq_header *header;
	struct pib_hca_cqe *ring;
	uint32_t number;
	uint32_t consumer;
};

void cq_create(struct hca *hca, struct cq *cq);

/* Takes the next CQE, and sleeps until there is one. A CQE with an error ends the program. */
void cq_wait(struct hca *hca, struct cq *cq, struct pib_hca_cqe *taken);

void cq_destroy(struct hca *hca, const struct cq *cq);

#endif
