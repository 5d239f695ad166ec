/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An honest device and two threads: one destroys an object, the other one creates one, perhaps while
 * it polls the object's CQ. Or both reset QPs of the same two CQs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "lying_device.h"
#include "lying_world.h"

/* Without input all objects of a kind have the same number, and no call fails. */
static void begin_honestly(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 8 };

	memset(&now, 0, sizeof(now));
	begin_life();
	now.cqs[0] = ibv_cq_ex_to_cq(pib_create_cq_ex(&now.context->ibv_ctx.context, &attr));
	sem_init(&now.in_kernel, 0, 0);
	sem_init(&now.acknowledged, 0, 0);
}

/* The QP receives at the second CQ, if there is one. */
static struct ibv_qp *honest_qp(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = &now.domain.ibv_pd,
		.send_cq = now.cqs[0],
		.recv_cq = now.cqs[1] ? now.cqs[1] : now.cqs[0],
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	return pib_create_qp_ex(&now.context->ibv_ctx.context, &attr);
}

static struct ibv_srq *honest_srq(void)
{
	struct ibv_srq_init_attr_ex attr = {
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = &now.domain.ibv_pd,
		.cq = now.cqs[0],
		.attr = { .max_wr = 1, .max_sge = 1 },
	};

	return pib_create_srq_ex(&now.context->ibv_ctx.context, &attr);
}

static void *destroy_qp(void *qp)
{
	pib_destroy_qp(qp);
	return NULL;
}

static void *destroy_srq(void *srq)
{
	pib_destroy_srq(srq);
	return NULL;
}

static const char *end_honestly(bool is_known)
{
	const char *fault = NULL;

	if (!is_known)
		fault = "the new object is not in the table";
	if (now.late)
		fault = "a creation waited for the events of another object";
	end_life();
	sem_destroy(&now.in_kernel);
	sem_destroy(&now.acknowledged);
	return fault;
}

const char *slow_destroy_of_qp(void)
{
	struct ibv_qp *first;
	pthread_t destroyer;

	begin_honestly();
	first = honest_qp();
	now.slow = true;
	pthread_create(&destroyer, NULL, destroy_qp, first);
	sem_wait(&now.in_kernel);
	now.qps[0] = honest_qp();
	sem_post(&now.acknowledged);
	pthread_join(destroyer, NULL);
	return end_honestly(now.qps[0] && pib_table_find(&now.context->qps, 0, to_pcq(now.cqs[0])) ==
						  to_pqp(now.qps[0]));
}

const char *slow_destroy_of_srq(void)
{
	struct ibv_srq *first;
	pthread_t destroyer;

	begin_honestly();
	first = honest_srq();
	now.slow = true;
	pthread_create(&destroyer, NULL, destroy_srq, first);
	sem_wait(&now.in_kernel);
	now.srqs[0] = honest_srq();
	sem_post(&now.acknowledged);
	pthread_join(destroyer, NULL);
	return end_honestly(now.srqs[0] &&
			    pib_table_find(&now.context->xrc_srqs, 0, to_pcq(now.cqs[0])) ==
				    to_psrq(now.srqs[0]));
}

/* Between start_poll() and end_poll() the thread has the CQ's lock. */
static const char *use_polled_cq(void)
{
	struct pib_cq *cq = to_pcq(now.cqs[0]);
	struct ibv_cq_ex *cq_ex = &cq->verbs_cq.cq_ex;
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_poll_cq_attr attr = {};

	/* A SEND of QP 0 is complete, and so is a receive. */
	cq->cqes[0] = (struct pib_hca_cqe){ .owner = PIB_HCA_OWNER_BIT };
	cq->cqes[1] = (struct pib_hca_cqe){ .opcode = PIB_HCA_CQE_RECV, .owner = PIB_HCA_OWNER_BIT };
	if (ibv_start_poll(cq_ex, &attr))
		return "there is no completion";
	if (ibv_start_poll(cq_ex, &attr) != EBUSY || pib_resize_cq(now.cqs[0], 16) != EBUSY)
		return "a CQ that is polled is not busy";
	sem_post(&now.acknowledged);
	/* The QP that is being destroyed has the same number, and leaves the table with its CQE. */
	now.qps[0] = honest_qp();
	if (!now.qps[0] || pib_destroy_qp(now.qps[0]))
		return "no QP can be created and destroyed";
	now.qps[0] = honest_qp();
	if (!now.qps[0] || pib_modify_qp(now.qps[0], &reset, IBV_QP_STATE))
		return "no QP can be reset";
	if (ibv_wc_read_opcode(cq_ex) != IBV_WC_SEND || ibv_next_poll(cq_ex) != ENOENT)
		return "the current completion has changed";
	ibv_end_poll(cq_ex);
	if (cq->consumer != 2 || ibv_start_poll(cq_ex, &attr) != ENOENT)
		return "completions were not consumed";
	return pib_table_find(&now.context->qps, 0, cq) == to_pqp(now.qps[0]) ?
		       NULL : "the new QP is not in the table";
}

static void *poll_and_create(void *fault)
{
	*(const char **)fault = use_polled_cq();
	return NULL;
}

const char *create_qp_of_polled_cq(void)
{
	static const char *fault; /* a thread that hangs may still write it */
	pthread_t destroyer, poller;
	struct timespec limit;

	begin_honestly();
	now.slow = true;
	pthread_create(&destroyer, NULL, destroy_qp, honest_qp());
	sem_wait(&now.in_kernel);
	pthread_create(&poller, NULL, poll_and_create, &fault);
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += 60;
	if (pthread_timedjoin_np(poller, NULL, &limit))
		return "the thread waits for the lock that it has";
	sem_post(&now.acknowledged);
	pthread_join(destroyer, NULL);
	if (fault)
		return fault;
	return end_honestly(true);
}

static void *reset_qp(void *qp)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	pib_modify_qp(qp, &reset, IBV_QP_STATE);
	return NULL;
}

/* The thread has the lock of the CQ that a reset takes last, and needs the one that it takes first. */
static void *poll_and_reset(void *unused)
{
	bool second = (uintptr_t)to_pcq(now.cqs[1]) > (uintptr_t)to_pcq(now.cqs[0]);
	struct pib_cq *cq = to_pcq(now.cqs[second]);
	struct ibv_cq_ex *cq_ex = &cq->verbs_cq.cq_ex;
	struct ibv_poll_cq_attr attr = {};

	cq->cqes[0] = (struct pib_hca_cqe){ .owner = PIB_HCA_OWNER_BIT };
	if (ibv_start_poll(cq_ex, &attr))
		return "there is no completion";
	sem_post(&now.in_kernel);
	usleep(300000); /* enough for the other thread to take the first lock */
	reset_qp(now.qps[0]);
	ibv_end_poll(cq_ex);
	return NULL;
}

const char *reset_qps_of_polled_cq(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 8 };
	pthread_t resetter, poller;
	struct timespec limit;
	void *fault;

	begin_honestly();
	now.cqs[1] = ibv_cq_ex_to_cq(pib_create_cq_ex(&now.context->ibv_ctx.context, &attr));
	now.qps[0] = honest_qp();
	now.qps[1] = honest_qp();
	pthread_create(&poller, NULL, poll_and_reset, NULL);
	sem_wait(&now.in_kernel);
	pthread_create(&resetter, NULL, reset_qp, now.qps[1]);
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += 60;
	if (pthread_timedjoin_np(poller, &fault, &limit))
		return "two resets wait for one another's lock";
	pthread_join(resetter, NULL);
	if (fault)
		return fault;
	return end_honestly(true);
}
