/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reliable connections (manual, 11 and 12) that write to the memory of the other end. */
#ifndef QP_H
#define QP_H

#include "cq.h"
#include "memory.h"

/* producer: WQEs posted. Each has completed before the next one is posted. */
struct qp {
	struct cq *cq;
	struct pib_hca_qp_header *header;
	dma_addr_t bus;
	u32 number;
	u32 producer;
};

/* The other end. */
struct peer {
	u16 lid;
	u32 qpn;
	u32 psn;
	u32 rkey;
	u64 address;
};

int qp_create(struct qp *qp, struct cq *cq, u32 pd);
void qp_destroy(struct qp *qp);

/* Takes the QP from Reset to RTS, at port 1. psn: PSN of its first request. */
int qp_connect(struct qp *qp, const struct peer *peer, u32 psn);

/*
 * Writes `bytes` bytes of a region, from `offset` on, to the peer's address. Returns when the bytes
 * are there.
 */
int qp_write(struct qp *qp, const struct peer *peer, const struct region *region, u32 offset,
	     u32 bytes);

#endif
