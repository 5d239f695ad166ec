// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp.h"

#include "command.h"
#include "fail.h"
#include "io.h"
#include "port.h"

#include <string.h>

#define LOG_DEPTH 4
#define DEPTH (1u << LOG_DEPTH)
#define LOG_SEND_STRIDE 7
#define SEND_STRIDE (1u << LOG_SEND_STRIDE)
#define LOG_RECEIVE_STRIDE 5
#define RECEIVE_STRIDE (1u << LOG_RECEIVE_STRIDE)
#define SEND_OFFSET PIB_HCA_QUEUE_HEADER_SIZE
#define RECEIVE_OFFSET (SEND_OFFSET + DEPTH * SEND_STRIDE)

#define MTU_1024 3
#define TIMEOUT 18			/* 4.096 us * 2^18 = 1 s; the device may wait longer */
#define RETRIES 7

/* Send WQEs, by type of QP and operation (manual, 12.1). */
struct send_wqe {
	struct pib_hca_wqe_control control;
	struct pib_hca_sge sge;
};

struct rdma_wqe {
	struct pib_hca_wqe_control control;
	struct pib_hca_wqe_rdma rdma;
	struct pib_hca_sge sge;
};

struct datagram_wqe {
	struct pib_hca_wqe_control control;
	struct pib_hca_wqe_ud ud;
	struct pib_hca_sge sge;
};

struct receive_wqe {
	struct pib_hca_recv_wqe control;
	struct pib_hca_sge sge;
};

_Static_assert(sizeof(struct datagram_wqe) <= SEND_STRIDE && sizeof(struct receive_wqe) <= RECEIVE_STRIDE, "strides");

/* ---------------------------------------------------------------- creation ------------------- */

void qp_create(struct hca *hca, struct qp *qp, enum pib_hca_qp_type type, const struct cq *cq)
{
	struct dma_block buffer = dma_take(&hca->dma, RECEIVE_OFFSET + DEPTH * RECEIVE_STRIDE);
	struct pib_hca_create_qp in = {
		.pages = block_pages(&buffer),
		.pd = htole32(hca->pd),
		.send_cq = htole32(cq->number),
		.recv_cq = htole32(cq->number),
		.uar = 0,
		.sq_offset = htole32(SEND_OFFSET),
		.rq_offset = htole32(RECEIVE_OFFSET),
		.type = type,
		.log_sq_depth = LOG_DEPTH,
		.log_rq_depth = LOG_DEPTH,
		.log_sq_stride = LOG_SEND_STRIDE,
		.log_rq_stride = LOG_RECEIVE_STRIDE,
	};

	memset(qp, 0, sizeof(*qp));
	qp->header = buffer.memory;
	qp->send_queue = (uint8_t *)buffer.memory + SEND_OFFSET;
	qp->receive_queue = (uint8_t *)buffer.memory + RECEIVE_OFFSET;
	qp->number = command_in(hca, PIB_HCA_CMD_CREATE_QP, 0, &in, sizeof(in));
}

void qp_destroy(struct hca *hca, const struct qp *qp)
{
	command(hca, PIB_HCA_CMD_DESTROY_QP, qp->number);
}

/* ---------------------------------------------------------------- states --------------------- */

static void modify(struct hca *hca, const struct qp *qp, enum pib_hca_qp_state state, uint32_t mask,
		   struct pib_hca_modify_qp *in)
{
	in->state = state;
	in->attr_mask = htole32(mask | PIB_HCA_QP_ATTR_STATE);
	command_in(hca, PIB_HCA_CMD_MODIFY_QP, qp->number, in, sizeof(*in));
}

static void rc_to_rtr(struct hca *hca, const struct qp *qp, const struct peer *peer)
{
	struct pib_hca_modify_qp in = {
		.path_mtu = MTU_1024,
		.rq_psn = htole32(peer->psn),
		.dest_qpn = htole32(peer->qpn),
		.av = { .dlid = htole16(peer->lid) },
		.min_rnr_timer = 12,
		.max_dest_rd_atomic = 1,
	};

	modify(hca, qp, PIB_HCA_QPS_RTR, PIB_HCA_QP_ATTR_AV | PIB_HCA_QP_ATTR_PATH_MTU | PIB_HCA_QP_ATTR_DEST_QPN |
	       PIB_HCA_QP_ATTR_RQ_PSN | PIB_HCA_QP_ATTR_MAX_DEST_RD_ATOMIC | PIB_HCA_QP_ATTR_MIN_RNR_TIMER, &in);
}

static void rc_to_rts(struct hca *hca, const struct qp *qp, uint32_t psn)
{
	struct pib_hca_modify_qp in = {
		.sq_psn = htole32(psn),
		.timeout = TIMEOUT,
		.retry_cnt = RETRIES,
		.rnr_retry = RETRIES,
		.max_rd_atomic = 1,
	};

	modify(hca, qp, PIB_HCA_QPS_RTS, PIB_HCA_QP_ATTR_TIMEOUT | PIB_HCA_QP_ATTR_RETRY_CNT |
	       PIB_HCA_QP_ATTR_RNR_RETRY | PIB_HCA_QP_ATTR_SQ_PSN | PIB_HCA_QP_ATTR_MAX_QP_RD_ATOMIC, &in);
}

void qp_connect_rc(struct hca *hca, const struct qp *qp, const struct peer *peer, uint32_t psn)
{
	struct pib_hca_modify_qp init = { .port = PORT };

	modify(hca, qp, PIB_HCA_QPS_INIT, PIB_HCA_QP_ATTR_PKEY_INDEX | PIB_HCA_QP_ATTR_PORT |
	       PIB_HCA_QP_ATTR_ACCESS_FLAGS, &init);
	rc_to_rtr(hca, qp, peer);
	rc_to_rts(hca, qp, psn);
}

void qp_start_ud(struct hca *hca, const struct qp *qp, uint32_t qkey, uint32_t psn)
{
	struct pib_hca_modify_qp init = { .port = PORT, .qkey = htole32(qkey) }, rtr = { 0 },
				 rts = { .sq_psn = htole32(psn) };

	modify(hca, qp, PIB_HCA_QPS_INIT, PIB_HCA_QP_ATTR_PKEY_INDEX | PIB_HCA_QP_ATTR_PORT | PIB_HCA_QP_ATTR_QKEY,
	       &init);
	modify(hca, qp, PIB_HCA_QPS_RTR, 0, &rtr);
	modify(hca, qp, PIB_HCA_QPS_RTS, PIB_HCA_QP_ATTR_SQ_PSN, &rts);
}

/* ---------------------------------------------------------------- posting -------------------- */

static struct pib_hca_sge sge(struct piece piece)
{
	struct pib_hca_sge sge = {
		.addr = htole64(region_address(piece.region) + piece.offset),
		.length = htole32(piece.bytes),
		.lkey = htole32(piece.region->key),
	};

	return sge;
}

static struct pib_hca_wqe_control control(enum pib_hca_wqe_opcode opcode)
{
	struct pib_hca_wqe_control control = { .opcode = opcode, .flags = PIB_HCA_WQE_SIGNALED, .num_sge = 1 };

	return control;
}

/* The device may take a WQE as soon as it sees the producer. */
static void publish(__le32 *producer, uint32_t value)
{
	store_barrier();
	*(volatile __le32 *)producer = htole32(value);
	store_barrier();
}

static void post(struct hca *hca, struct qp *qp, const void *wqe, size_t bytes)
{
	if (qp->sends - qp->sends_done == DEPTH)
		fail("the send queue is full");
	memcpy(qp->send_queue + qp->sends % DEPTH * SEND_STRIDE, wqe, bytes);
	publish(&qp->header->sq_producer, ++qp->sends);
	store32(hca->vfio.uar, PIB_HCA_UAR_SEND, qp->number);
}

/* A receive queue needs no doorbell, except in Error. */
void qp_post_receive(struct qp *qp, struct piece piece)
{
	struct receive_wqe wqe = { .control = { .num_sge = htole32(1) }, .sge = sge(piece) };

	if (qp->receives - qp->receives_done == DEPTH)
		fail("the receive queue is full: post fewer receives, or increase DEPTH");
	memcpy(qp->receive_queue + qp->receives % DEPTH * RECEIVE_STRIDE, &wqe, sizeof(wqe));
	publish(&qp->header->rq_producer, ++qp->receives);
}

void qp_post_send(struct hca *hca, struct qp *qp, struct piece piece)
{
	struct send_wqe wqe = { .control = control(PIB_HCA_WQE_SEND), .sge = sge(piece) };

	post(hca, qp, &wqe, sizeof(wqe));
}

void qp_post_rdma(struct hca *hca, struct qp *qp, enum pib_hca_wqe_opcode opcode, struct piece piece, uint64_t address,
		  uint32_t rkey)
{
	struct rdma_wqe wqe = {
		.control = control(opcode),
		.rdma = { .remote_addr = htole64(address), .rkey = htole32(rkey) },
		.sge = sge(piece),
	};

	post(hca, qp, &wqe, sizeof(wqe));
}

void qp_post_datagram(struct hca *hca, struct qp *qp, struct piece piece, const struct peer *peer, uint32_t qkey)
{
	struct datagram_wqe wqe = {
		.control = control(PIB_HCA_WQE_SEND),
		.ud = {
			.av = { .dlid = htole16(peer->lid), .port = PORT },
			.dest_qpn = htole32(peer->qpn),
			.qkey = htole32(qkey),
		},
		.sge = sge(piece),
	};

	post(hca, qp, &wqe, sizeof(wqe));
}

/* A CQE also completes the earlier WQEs of its queue. */
void qp_completed(struct qp *qp, const struct pib_hca_cqe *cqe)
{
	uint32_t done = le32toh(cqe->wqe_counter) + 1;

	if (cqe->opcode & PIB_HCA_CQE_IS_RECV)
		qp->receives_done = done;
	else
		qp->sends_done = done;
}
