/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A process with the provider's queues, and a device that lies: numbers of objects, limits, CQEs and
 * all other bytes of the queues' buffers come from the input. The kernel is honest: it does not
 * destroy an object that another one uses. The buffers lie on the heap with exactly their size, so
 * that the sanitizer reports an access beyond them as it does one beyond the provider's own memory.
 */
#include "lying_device.h"

#include "lying_world.h"

#include <stdlib.h>
#include <string.h>

struct lying_world now;

uint8_t byte(void)
{
	if (!now.left)
		return 0;
	now.left--;
	return *now.input++;
}

uint32_t word(void)
{
	uint32_t value = byte();

	value |= (uint32_t)byte() << 8;
	value |= (uint32_t)byte() << 16;
	return value | (uint32_t)byte() << 24;
}

uint32_t lie(void)
{
	uint8_t first = byte();

	return first < 0xe0 ? first % 16 : word();
}

/* ---- the process --------------------------------------------------------------------------- */

static void *allocate(struct ibv_pd *pd, void *context, size_t size, size_t alignment,
		      uint64_t type)
{
	return aligned_alloc(alignment, size);
}

static void release(struct ibv_pd *pd, void *context, void *address, uint64_t type)
{
	free(address);
}

static struct ibv_cq *some_cq(void)
{
	return now.cqs[byte() % CQS];
}

/* Mostly a small number, sometimes any number: the provider checks it against the limits. */
static uint32_t amount(void)
{
	uint8_t first = byte();

	return first == 0xff ? word() : first % 9;
}

static void make_cq(void)
{
	struct ibv_cq **place = &now.cqs[byte() % CQS];
	struct ibv_cq_init_attr_ex attr = {
		.cqe = amount(),
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_IMM,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
		.parent_domain = &now.domain.ibv_pd,
	};
	struct ibv_cq_ex *made;

	if (*place || attr.cqe > 1000)
		return;
	made = pib_create_cq_ex(&now.context->ibv_ctx.context, &attr);
	*place = made ? ibv_cq_ex_to_cq(made) : NULL;
}

static void make_srq(void)
{
	struct ibv_srq **place = &now.srqs[byte() % SRQS];
	struct ibv_srq_init_attr_ex attr = {
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_BASIC,
		.pd = &now.domain.ibv_pd,
	};

	attr.attr.max_wr = amount();
	attr.attr.max_sge = amount();
	attr.cq = some_cq();
	if (*place || attr.attr.max_wr > 1000)
		return;
	if (attr.cq && byte() % 2) {
		attr.srq_type = IBV_SRQT_XRC;
		attr.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	}
	*place = pib_create_srq_ex(&now.context->ibv_ctx.context, &attr);
}

static void make_qp(void)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD,
						  IBV_QPT_XRC_SEND };
	struct ibv_qp **place = &now.qps[byte() % QPS];
	struct ibv_qp_init_attr_ex attr = {
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = &now.domain.ibv_pd,
	};

	attr.send_cq = some_cq();
	attr.recv_cq = some_cq();
	attr.srq = now.srqs[byte() % SRQS];
	attr.qp_type = types[byte() % ARRAY_SIZE(types)];
	attr.send_ops_flags = pib_send_ops_supported(attr.qp_type);
	attr.cap.max_send_wr = amount();
	attr.cap.max_recv_wr = amount();
	attr.cap.max_send_sge = amount();
	attr.cap.max_recv_sge = amount();
	attr.cap.max_inline_data = amount();
	if (attr.qp_type == IBV_QPT_XRC_SEND || byte() % 2 || (attr.srq && to_psrq(attr.srq)->cq))
		attr.srq = NULL;
	if (attr.qp_type == IBV_QPT_XRC_SEND)
		attr.recv_cq = NULL;
	if (*place || attr.cap.max_send_wr > 1000 || attr.cap.max_recv_wr > 1000)
		return;
	*place = pib_create_qp_ex(&now.context->ibv_ctx.context, &attr);
}

static void destroy(uint8_t which)
{
	struct ibv_qp **qp = &now.qps[which / 3 % QPS];
	struct ibv_cq **cq = &now.cqs[which / 3 % CQS];
	struct ibv_srq **srq = &now.srqs[which / 3 % SRQS];

	if (which % 3 == 0 && *qp && !pib_destroy_qp(*qp))
		*qp = NULL;
	if (which % 3 == 1 && *cq && !pib_destroy_cq(*cq))
		*cq = NULL;
	if (which % 3 == 2 && *srq && !pib_destroy_srq(*srq))
		*srq = NULL;
}

/* The provider copies inline data from here. */
static uint8_t data[64];

static struct ibv_sge sges[8];

static void fill_sges(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sges); i++)
		sges[i] = (struct ibv_sge){ .addr = (uintptr_t)data, .length = 8, .lkey = 1 };
}

static void post(struct ibv_qp *qp, uint8_t how)
{
	struct ibv_send_wr send = {
		.wr_id = 1,
		.sg_list = sges,
		.num_sge = byte() % 8,
		.opcode = how >> 1 & 0xf,
		.send_flags = how & 1 ? IBV_SEND_INLINE : IBV_SEND_SIGNALED,
	};
	struct ibv_recv_wr receive = { .wr_id = 2, .sg_list = sges, .num_sge = byte() % 8 };
	struct ibv_mw window = { .type = IBV_MW_TYPE_2 };
	struct ibv_send_wr *bad_send;
	struct ibv_recv_wr *bad_receive;

	send.bind_mw.mw = send.opcode == IBV_WR_BIND_MW ? &window : NULL;
	if (qp->qp_type == IBV_QPT_UD)
		send.wr.ud.ah = &now.ah.ibv_ah;
	pib_post_send(qp, &send, &bad_send);
	if (!qp->srq)
		pib_post_recv(qp, &receive, &bad_receive);
}

static void post_built(struct ibv_qp *qp, uint8_t how)
{
	struct ibv_qp_ex *ex = &to_pqp(qp)->verbs_qp.qp_ex;

	ex->wr_start(ex);
	ex->wr_send(ex);
	if (qp->qp_type == IBV_QPT_UD)
		ex->wr_set_ud_addr(ex, &now.ah.ibv_ah, 1, 1);
	if (how & 1)
		ex->wr_set_inline_data(ex, data, byte() % sizeof(data));
	else
		ex->wr_set_sge_list(ex, how >> 1 & 7, sges);
	if (how & 0x80)
		ex->wr_abort(ex);
	else
		ex->wr_complete(ex);
}

static void post_srq(struct ibv_srq *srq)
{
	struct ibv_recv_wr receive = { .wr_id = 3, .sg_list = sges, .num_sge = byte() % 8 };
	struct ibv_recv_wr *bad;

	pib_post_srq_recv(srq, &receive, &bad);
}

/* Polls a bounded number of times: a device that never stops writing never leaves the CQ empty. */
static void poll(struct ibv_cq *cq, uint8_t how)
{
	struct ibv_cq_ex *ex = &to_pcq(cq)->verbs_cq.cq_ex;
	struct ibv_poll_cq_attr attr = {};
	struct ibv_wc wc[4];
	int left = how >> 1 & 7;

	if (how & 1) {
		pib_poll_cq(cq, 1 + (how >> 1) % ARRAY_SIZE(wc), wc);
		return;
	}
	if (ex->start_poll(ex, &attr))
		return;
	do {
		ex->read_opcode(ex);
		ex->read_wc_flags(ex);
		ex->read_qp_num(ex);
	} while (left-- && !ex->next_poll(ex));
	ex->end_poll(ex);
}

static void modify(struct ibv_qp *qp, uint8_t how)
{
	struct ibv_qp_attr attr = { .qp_state = how & 1 ? IBV_QPS_RTS : IBV_QPS_RESET };

	pib_modify_qp(qp, &attr, IBV_QP_STATE);
}

static void resize(uint8_t which)
{
	struct ibv_cq *cq = now.cqs[which / 2 % CQS];
	struct ibv_srq *srq = now.srqs[which / 2 % SRQS];
	struct ibv_srq_attr attr = { .max_wr = byte() % 20 };

	if (which % 2 == 0 && cq)
		pib_resize_cq(cq, attr.max_wr);
	if (which % 2 == 1 && srq)
		pib_modify_srq(srq, &attr, IBV_SRQ_MAX_WR);
}

/* ---- the device ---------------------------------------------------------------------------- */

static struct pib_buf *some_buffer(uint8_t which)
{
	if (which % 3 == 0)
		return now.qps[which / 3 % QPS] ? &to_pqp(now.qps[which / 3 % QPS])->buf : NULL;
	if (which % 3 == 1)
		return now.cqs[which / 3 % CQS] ? &to_pcq(now.cqs[which / 3 % CQS])->buf : NULL;
	return now.srqs[which / 3 % SRQS] ? &to_psrq(now.srqs[which / 3 % SRQS])->buf : NULL;
}

static void scribble(void)
{
	struct pib_buf *buffer = some_buffer(byte());
	size_t at = byte() | byte() << 8;
	int left = 1 + byte() % 16;

	for (; buffer && buffer->addr && left; left--, at++)
		((uint8_t *)buffer->addr)[at % buffer->length] = byte();
}

/* A CQE that the provider takes for its next one, or for one after it. */
static void complete(struct ibv_cq *ibcq)
{
	struct pib_cq *cq = to_pcq(ibcq);
	uint32_t counter = cq->consumer + byte() % 4;
	struct pib_hca_cqe *cqe = &cq->cqes[counter & ((1u << cq->log_depth) - 1)];

	cqe->qpn = htole32(lie());
	cqe->srqn = htole32(lie());
	cqe->wqe_counter = htole32(lie());
	cqe->opcode = byte();
	cqe->flags = byte();
	cqe->status = byte();
	cqe->owner = (counter >> cq->log_depth & 1) ^ PIB_HCA_OWNER_BIT;
}

/* ---- one life ------------------------------------------------------------------------------ */

void begin_life(void)
{
	struct pib_hca_alloc_ucontext_resp limits = {
		.max_qp_wr = 64, .max_sge = 8, .max_inline_data = 64, .max_cqe = 64
	};

	now.device.page_size = PAGE;
	now.context = calloc(1, sizeof(*now.context));
	now.context->ibv_ctx.context.device = &now.device.ibv_dev.device;
	now.context->uar = aligned_alloc(PAGE, PAGE);
	now.context->uar_size = PAGE;
	pthread_mutex_init(&now.context->table_mutex, NULL);
	if (byte() & 1) {
		limits.max_qp_wr = word();
		limits.max_sge = word();
		limits.max_inline_data = word();
		limits.max_cqe = word();
	}
	if (byte() & 1) {
		now.context->shadow = aligned_alloc(PAGE, PAGE);
		memset(now.context->shadow, byte(), PAGE);
	}
	pib_keep_limits(now.context, &limits);
	now.pd.ibv_pd.context = &now.context->ibv_ctx.context;
	now.domain = (struct pib_pd){ .ibv_pd = now.pd.ibv_pd,
				      .contained = &now.pd,
				      .alloc = allocate,
				      .free = release };
	now.ah.ibv_ah.context = now.pd.ibv_pd.context;
}

void end_life(void)
{
	int i;

	for (i = 0; i < 3 * QPS; i += 3)
		destroy(i);
	for (i = 2; i < 3 * SRQS; i += 3)
		destroy(i);
	for (i = 1; i < 3 * CQS; i += 3)
		destroy(i);
	pib_table_free(&now.context->qps);
	pib_table_free(&now.context->xrc_srqs);
	pthread_mutex_destroy(&now.context->table_mutex);
	free(now.context->uar);
	free(now.context->shadow);
	free(now.context);
}

static void use(uint8_t step)
{
	struct ibv_qp *qp = now.qps[byte() % QPS];
	uint8_t how = byte();

	if (!qp)
		return;
	if (step == 0)
		post(qp, how);
	else if (step == 1)
		post_built(qp, how);
	else
		modify(qp, how);
}

static void use_cq(uint8_t step)
{
	struct ibv_cq *cq = some_cq();

	if (!cq)
		return;
	if (step == 0)
		poll(cq, byte());
	else if (step == 1)
		pib_req_notify_cq(cq, byte() & 1);
	else
		complete(cq);
}

static void take_step(uint8_t step)
{
	struct ibv_srq *srq;

	switch (step % 12) {
	case 0:
		make_cq();
		break;
	case 1:
		make_srq();
		break;
	case 2:
		make_qp();
		break;
	case 3:
		destroy(byte());
		break;
	case 4:
		scribble();
		break;
	case 5:
		resize(byte());
		break;
	case 6:
		srq = now.srqs[byte() % SRQS];
		if (srq)
			post_srq(srq);
		break;
	case 7:
	case 8:
		use(step % 12 == 7 ? 0 : 1 + (step / 12) % 2);
		break;
	default:
		use_cq(step % 12 - 9);
		break;
	}
}

void lying_device_run(const uint8_t *input, size_t length)
{
	int steps;

	memset(&now, 0, sizeof(now));
	now.input = input;
	now.left = length;
	fill_sges();
	begin_life();
	for (steps = 0; now.left && steps < MOST_STEPS; steps++)
		take_step(byte());
	end_life();
}
