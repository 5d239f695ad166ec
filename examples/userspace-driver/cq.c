// SPDX-License-Identifier: GPL-2.0-or-later
#include "cq.h"

#include "command.h"
#include "deadline.h"
#include "event.h"
#include "fail.h"
#include "io.h"
#include "memory.h"

#define LOG_DEPTH 6
#define DEPTH (1u << LOG_DEPTH)
#define LIMIT_S 300
#define LOOK_MS 10000

static const char *const STATUSES[] = {
	[PIB_HCA_WC_LOC_LEN_ERR] = "LOC_LEN_ERR",
	[PIB_HCA_WC_LOC_QP_OP_ERR] = "LOC_QP_OP_ERR",
	[PIB_HCA_WC_LOC_PROT_ERR] = "LOC_PROT_ERR",
	[PIB_HCA_WC_WR_FLUSH_ERR] = "WR_FLUSH_ERR",
	[PIB_HCA_WC_BAD_RESP_ERR] = "BAD_RESP_ERR",
	[PIB_HCA_WC_REM_INV_REQ_ERR] = "REM_INV_REQ_ERR",
	[PIB_HCA_WC_REM_ACCESS_ERR] = "REM_ACCESS_ERR",
	[PIB_HCA_WC_REM_OP_ERR] = "REM_OP_ERR",
	[PIB_HCA_WC_RETRY_EXC_ERR] = "RETRY_EXC_ERR",
	[PIB_HCA_WC_RNR_RETRY_EXC_ERR] = "RNR_RETRY_EXC_ERR",
};

static const char *status_name(uint8_t status)
{
	if (status >= sizeof(STATUSES) / sizeof(STATUSES[0]) || !STATUSES[status])
		return "a status that this driver does not expect";
	return STATUSES[status];
}

void cq_create(struct hca *hca, struct cq *cq)
{
	struct dma_block buffer = dma_take(&hca->dma, PIB_HCA_QUEUE_HEADER_SIZE + DEPTH * sizeof(struct pib_hca_cqe));
	struct pib_hca_create_cq in = {
		.pages = block_pages(&buffer),
		.eqn = htole32(hca->events.number),
		.uar = 0,
		.log_depth = LOG_DEPTH,
	};

	cq->header = buffer.memory;
	cq->ring = (struct pib_hca_cqe *)((uint8_t *)buffer.memory + PIB_HCA_QUEUE_HEADER_SIZE);
	cq->consumer = 0;
	cq->number = command_in(hca, PIB_HCA_CMD_CREATE_CQ, 0, &in, sizeof(in));
}

static bool poll(struct cq *cq, struct pib_hca_cqe *taken)
{
	const struct pib_hca_cqe *next = &cq->ring[cq->consumer % DEPTH];

	if (!hca_is_new(load_owner(&next->owner), cq->consumer, LOG_DEPTH))
		return false;
	load_barrier();
	*taken = *next;
	cq->consumer++;
	store_barrier();	/* the device may write the entry again as soon as it sees the counter */
	*(volatile __le32 *)&cq->header->consumer = htole32(cq->consumer);
	return true;
}

/* The next completion raises an event; so does one that the device has already written. */
static void arm(struct hca *hca, const struct cq *cq)
{
	store64(hca->vfio.uar, PIB_HCA_UAR_CQ_ARM, (uint64_t)cq->consumer << PIB_HCA_DB_COUNTER_SHIFT | cq->number);
}

void cq_wait(struct hca *hca, struct cq *cq, struct pib_hca_cqe *taken)
{
	time_t deadline = deadline_in(LIMIT_S);

	while (!poll(cq, taken)) {
		if (deadline_passed(deadline))
			fail("no completion in %d s. Does the peer still run?", LIMIT_S);
		arm(hca, cq);
		event_wait(hca, LOOK_MS);
	}
	if (taken->status != PIB_HCA_WC_SUCCESS)
		fail("QP %#x, WQE %u of the %s queue: %s, vendor_error %u. Why:  ./pib why", le32toh(taken->qpn),
		     le32toh(taken->wqe_counter), taken->opcode & PIB_HCA_CQE_IS_RECV ? "receive" : "send",
		     status_name(taken->status), taken->vendor_error);
}

void cq_destroy(struct hca *hca, const struct cq *cq)
{
	command(hca, PIB_HCA_CMD_DESTROY_CQ, cq->number);
}
