// SPDX-License-Identifier: GPL-2.0-or-later
#include "qp.h"

#include <linux/dma-mapping.h>

#define LOG_DEPTH 2
#define DEPTH (1u << LOG_DEPTH)
#define LOG_STRIDE 6
#define BYTES (PIB_HCA_QUEUE_HEADER_SIZE + (DEPTH << LOG_STRIDE))

#define PORT 1
#define MTU_1024 3
#define TIMEOUT 18 /* 4.096 us * 2^18 = 1 s; the device may wait longer */
#define RETRIES 7

struct write_wqe {
	struct pib_hca_wqe_control control;
	struct pib_hca_wqe_rdma rdma;
	struct pib_hca_sge sge;
};

static struct command_queue *commands_of(const struct qp *qp)
{
	return qp->cq->events->commands;
}

static struct device *device_of(const struct qp *qp)
{
	return &qp->cq->events->hca->pdev->dev;
}

/* ---------------------------------------------------------------- creation ------------------- */

static int create(struct qp *qp, u32 pd)
{
	struct pib_hca_create_qp in = {
		.pages = contiguous_pages(qp->bus, BYTES),
		.pd = cpu_to_le32(pd),
		.send_cq = cpu_to_le32(qp->cq->number),
		.recv_cq = cpu_to_le32(qp->cq->number),
		.sq_offset = cpu_to_le32(PIB_HCA_QUEUE_HEADER_SIZE),
		.flags = cpu_to_le32(PIB_HCA_QP_NO_RQ),
		.type = PIB_HCA_QP_RC,
		.log_sq_depth = LOG_DEPTH,
		.log_sq_stride = LOG_STRIDE,
	};
	struct command command = {
		.opcode = PIB_HCA_CMD_CREATE_QP,
		.in = &in,
		.in_length = sizeof(in),
	};

	return command_execute(commands_of(qp), &command, &qp->number);
}

int qp_create(struct qp *qp, struct cq *cq, u32 pd)
{
	int ret;

	qp->cq = cq;
	qp->producer = 0;
	qp->header = dma_alloc_coherent(device_of(qp), BYTES, &qp->bus, GFP_KERNEL);
	if (!qp->header)
		return -ENOMEM;
	ret = create(qp, pd);
	if (ret)
		dma_free_coherent(device_of(qp), BYTES, qp->header, qp->bus);
	return ret;
}

void qp_destroy(struct qp *qp)
{
	command_destroy(commands_of(qp), PIB_HCA_CMD_DESTROY_QP, qp->number);
	dma_free_coherent(device_of(qp), BYTES, qp->header, qp->bus);
}

/* ---------------------------------------------------------------- states --------------------- */

static int modify(struct qp *qp, u8 state, u32 mask, struct pib_hca_modify_qp *in)
{
	struct command command = {
		.opcode = PIB_HCA_CMD_MODIFY_QP,
		.object = qp->number,
		.in = in,
		.in_length = sizeof(*in),
	};

	in->state = state;
	in->attr_mask = cpu_to_le32(mask | PIB_HCA_QP_ATTR_STATE);
	return command_execute(commands_of(qp), &command, NULL);
}

static int to_init(struct qp *qp)
{
	struct pib_hca_modify_qp in = {
		.port = PORT,
		.access_flags = cpu_to_le32(PIB_HCA_ACCESS_REMOTE_WRITE),
	};

	return modify(qp, PIB_HCA_QPS_INIT, PIB_HCA_QP_ATTR_PKEY_INDEX | PIB_HCA_QP_ATTR_PORT |
		      PIB_HCA_QP_ATTR_ACCESS_FLAGS, &in);
}

static int to_rtr(struct qp *qp, const struct peer *peer)
{
	struct pib_hca_modify_qp in = {
		.path_mtu = MTU_1024,
		.rq_psn = cpu_to_le32(peer->psn),
		.dest_qpn = cpu_to_le32(peer->qpn),
		.av.dlid = cpu_to_le16(peer->lid),
		.min_rnr_timer = 12,
		.max_dest_rd_atomic = 1,
	};

	return modify(qp, PIB_HCA_QPS_RTR, PIB_HCA_QP_ATTR_AV | PIB_HCA_QP_ATTR_PATH_MTU |
		      PIB_HCA_QP_ATTR_DEST_QPN | PIB_HCA_QP_ATTR_RQ_PSN |
		      PIB_HCA_QP_ATTR_MAX_DEST_RD_ATOMIC | PIB_HCA_QP_ATTR_MIN_RNR_TIMER, &in);
}

static int to_rts(struct qp *qp, u32 psn)
{
	struct pib_hca_modify_qp in = {
		.sq_psn = cpu_to_le32(psn),
		.timeout = TIMEOUT,
		.retry_cnt = RETRIES,
		.rnr_retry = RETRIES,
		.max_rd_atomic = 1,
	};

	return modify(qp, PIB_HCA_QPS_RTS, PIB_HCA_QP_ATTR_TIMEOUT | PIB_HCA_QP_ATTR_RETRY_CNT |
		      PIB_HCA_QP_ATTR_RNR_RETRY | PIB_HCA_QP_ATTR_SQ_PSN |
		      PIB_HCA_QP_ATTR_MAX_QP_RD_ATOMIC, &in);
}

int qp_connect(struct qp *qp, const struct peer *peer, u32 psn)
{
	int ret;

	ret = to_init(qp);
	if (ret)
		return ret;
	ret = to_rtr(qp, peer);
	if (ret)
		return ret;
	return to_rts(qp, psn);
}

/* ---------------------------------------------------------------- work ----------------------- */

static void post(struct qp *qp, const struct write_wqe *wqe)
{
	void *queue = qp->header + 1;

	memcpy(queue + (qp->producer % DEPTH << LOG_STRIDE), wqe, sizeof(*wqe));
	dma_wmb(); /* the device may take the WQE as soon as it sees the producer */
	qp->producer++;
	WRITE_ONCE(qp->header->sq_producer, cpu_to_le32(qp->producer));
	/* writel() orders the store of the producer before its own. */
	writel(qp->number, qp->cq->events->hca->uar + PIB_HCA_UAR_SEND);
}

int qp_write(struct qp *qp, const struct peer *peer, const struct region *region, u32 offset,
	     u32 bytes)
{
	struct write_wqe wqe = {
		.control.opcode = PIB_HCA_WQE_RDMA_WRITE,
		.control.flags = PIB_HCA_WQE_SIGNALED,
		.control.num_sge = 1,
		.rdma.remote_addr = cpu_to_le64(peer->address),
		.rdma.rkey = cpu_to_le32(peer->rkey),
		.sge.addr = cpu_to_le64(region->bus + offset),
		.sge.length = cpu_to_le32(bytes),
		.sge.lkey = cpu_to_le32(region->key),
	};
	struct pib_hca_cqe cqe;

	post(qp, &wqe);
	return cq_wait(qp->cq, &cqe);
}
