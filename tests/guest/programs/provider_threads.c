// SPDX-License-Identifier: GPL-2.0-or-later
/* Threads that share a QP and a CQ get each completion exactly once. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "checks.h"
#include "loopback.h"

extern struct loopback lo;

#define THREADS 4
#define MESSAGES 500 /* requests of each thread */

static struct qp_pair shared;
static atomic_int polled, broken;
static atomic_uchar seen[THREADS * MESSAGES];

static void *post(void *arg)
{
	int first = (int)(intptr_t)arg * MESSAGES;

	for (int i = 0; i < MESSAGES; i++) {
		int ret;

		while ((ret = post_send_at(&lo, shared.qp[0], first + i, 0, 8,
					   IBV_SEND_SIGNALED)) == ENOMEM)
			sched_yield();
		if (ret)
			broken = 1;
	}
	return NULL;
}

static void *drain(void *arg)
{
	time_t end = time(NULL) + PATIENCE_S;
	struct ibv_wc wc[4];

	(void)arg;
	while (polled < THREADS * MESSAGES && !broken) {
		int n = ibv_poll_cq(shared.cq[0], 4, wc);

		for (int i = 0; i < n; i++) {
			if (wc[i].status || atomic_fetch_add(&seen[wc[i].wr_id], 1))
				broken = 1;
		}
		polled += n > 0 ? n : 0;
		if (n < 0 || time(NULL) > end)
			broken = 1;
		if (!n)
			sched_yield();
	}
	return NULL;
}

/* The thread that takes a receive's completion posts the next receive. */
static void *receive(void *arg)
{
	time_t end = time(NULL) + PATIENCE_S;
	int taken = 0;
	struct ibv_wc wc;

	(void)arg;
	while (taken < THREADS * MESSAGES && !broken) {
		if (ibv_poll_cq(shared.cq[1], 1, &wc) != 1) {
			if (time(NULL) > end)
				broken = 1;
			sched_yield();
			continue;
		}
		taken++;
		if (wc.status || post_recv_at(&lo, shared.qp[1], 0, 4096, 64))
			broken = 1;
	}
	return NULL;
}

static void threads_share_a_qp(void)
{
	struct ibv_qp_cap cap = { .max_send_wr = 32, .max_recv_wr = 64, .max_send_sge = 1,
				  .max_recv_sge = 1 };
	pthread_t poster[THREADS], drainer[2], receiver;

	pair_create(&lo, &shared, IBV_QPT_RC, cap, NULL);
	pair_connect(&lo, &shared);
	for (int i = 0; i < 64; i++)
		CHECK_EQUAL(post_recv_at(&lo, shared.qp[1], i, 4096, 64), 0);
	CHECK_EQUAL(pthread_create(&receiver, NULL, receive, NULL), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQUAL(pthread_create(&drainer[i], NULL, drain, NULL), 0);
	for (intptr_t i = 0; i < THREADS; i++)
		CHECK_EQUAL(pthread_create(&poster[i], NULL, post, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(poster[i], NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(drainer[i], NULL);
	pthread_join(receiver, NULL);
	CHECK_EQUAL(broken, 0);
	CHECK_EQUAL(polled, THREADS * MESSAGES);
	pair_destroy(&shared);
}

static void *churn(void *arg)
{
	struct ibv_cq *cq = arg;
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	for (int i = 0; i < 50 && !broken; i++) {
		struct ibv_qp *qp = ibv_create_qp(lo.pd, &init);

		if (!qp || ibv_destroy_qp(qp))
			broken = 1;
	}
	return NULL;
}

static void threads_create_and_destroy_qps(void)
{
	struct ibv_cq *cq = ibv_create_cq(lo.context, 16, NULL, NULL, 0);
	pthread_t thread[THREADS];

	CHECK(cq);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQUAL(pthread_create(&thread[i], NULL, churn, cq), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	CHECK_EQUAL(broken, 0);
	CHECK_EQUAL(ibv_destroy_cq(cq), 0);
}

const struct check thread_checks[] = {
	{ "threads_share_a_qp", threads_share_a_qp },
	{ "threads_create_and_destroy_qps", threads_create_and_destroy_qps },
	{ NULL, NULL },
};
