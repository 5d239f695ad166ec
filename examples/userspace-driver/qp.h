/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Queue pairs (manual, 11) and their work requests (12): each has one SGE, and each send is signaled. */
#ifndef QP_H
#define QP_H

#include "cq.h"
#include "memory.h"

struct qp {
	struct pib_hca_qp_header *header;
	uint8_t *send_queue;
	uint8_t *receive_queue;
	uint32_t number;
	uint32_t sends;			/* posted; sends_done of them have completed */
	uint32_t sends_done;
	uint32_t receives;
	uint32_t receives_done;
};

/* The other end. */
struct peer {
	uint16_t lid;
	uint32_t qpn;
	uint32_t psn;
};

/* A piece of a region. */
struct piece {
	const struct region *region;
	size_t offset;
	uint32_t bytes;
};

void qp_create(struct hca *hca, struct qp *qp, enum pib_hca_qp_type type, const struct cq *cq);

/* Takes the QP from Reset to RTS. psn: PSN of its first request. */
void qp_connect_rc(struct hca *hca, const struct qp *qp, const struct peer *peer, uint32_t psn);
void qp_start_ud(struct hca *hca, const struct qp *qp, uint32_t qkey, uint32_t psn);

void qp_post_receive(struct qp *qp, struct piece piece);
void qp_post_send(struct hca *hca, struct qp *qp, struct piece piece);
void qp_post_datagram(struct hca *hca, struct qp *qp, struct piece piece, const struct peer *peer, uint32_t qkey);

/* opcode: PIB_HCA_WQE_RDMA_WRITE or PIB_HCA_WQE_RDMA_READ. */
void qp_post_rdma(struct hca *hca, struct qp *qp, enum pib_hca_wqe_opcode opcode, struct piece piece, uint64_t address,
		  uint32_t rkey);

/* Counts a completed WQE, which makes room in its queue. */
void qp_completed(struct qp *qp, const struct pib_hca_cqe *cqe);

void qp_destroy(struct hca *hca, const struct qp *qp);

#endif
