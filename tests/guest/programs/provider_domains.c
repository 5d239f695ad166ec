// SPDX-License-Identifier: GPL-2.0-or-later
/* Parent and thread domains, contexts that are imported, and the two clocks. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "checks.h"
#include "loopback.h"

extern struct loopback lo;

#define CAP ((struct ibv_qp_cap){ .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, \
				  .max_recv_sge = 1 })

static int allocated, freed;

static void *allocate(struct ibv_pd *pd, void *context, size_t size, size_t alignment,
		      uint64_t type)
{
	(void)type;
	CHECK(pd && context == &allocated);
	return ++allocated > 1 ? aligned_alloc(alignment, size) : IBV_ALLOCATOR_USE_DEFAULT;
}

static void release(struct ibv_pd *pd, void *context, void *memory, uint64_t type)
{
	(void)type;
	CHECK(pd && context == &allocated);
	freed++;
	free(memory);
}

static void send_one(struct loopback *with, struct qp_pair *pair)
{
	struct ibv_wc wc;

	CHECK_EQUAL(post_recv_at(with, pair->qp[1], 1, 4096, 64), 0);
	CHECK_EQUAL(post_send_at(with, pair->qp[0], 2, 0, 64, IBV_SEND_SIGNALED), 0);
	poll_one(pair->cq[0], &wc);
	CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
	poll_one(pair->cq[1], &wc);
	CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
}

static void parent_domain(void)
{
	struct ibv_td_init_attr td_attr = {};
	struct ibv_parent_domain_init_attr attr = {
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = allocate, .free = release, .pd_context = &allocated,
	};
	struct loopback in_domain = lo;
	struct qp_pair pair;

	CHECK(!ibv_alloc_parent_domain(lo.context, &attr));
	CHECK_EQUAL(errno, EINVAL);
	attr.pd = ibv_alloc_pd(lo.context);
	attr.td = ibv_alloc_td(lo.context, &td_attr);
	CHECK(attr.pd && attr.td);
	in_domain.pd = ibv_alloc_parent_domain(lo.context, &attr);
	CHECK(in_domain.pd);
	in_domain.mr = ibv_reg_mr(in_domain.pd, lo.buffer, BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE);
	CHECK(in_domain.mr);
	CHECK_EQUAL(ibv_dealloc_pd(attr.pd), EBUSY);
	CHECK_EQUAL(ibv_dealloc_td(attr.td), EBUSY);

	/* allocate() leaves the first QP's memory to the library, and allocates the second one's. */
	pair_create(&in_domain, &pair, IBV_QPT_RC, CAP, NULL);
	CHECK_EQUAL(allocated, 2);
	pair_connect(&in_domain, &pair);
	send_one(&in_domain, &pair);
	CHECK_EQUAL(ibv_dealloc_pd(in_domain.pd), EBUSY);
	pair_destroy(&pair);
	CHECK_EQUAL(freed, 1);

	CHECK_EQUAL(ibv_dereg_mr(in_domain.mr), 0);
	CHECK_EQUAL(ibv_dealloc_pd(in_domain.pd), 0);
	CHECK_EQUAL(ibv_dealloc_td(attr.td), 0);
	CHECK_EQUAL(ibv_dealloc_pd(attr.pd), 0);
}

static void imports(void)
{
	struct ibv_parent_domain_init_attr attr = {};
	struct loopback imported = lo;
	struct ibv_pd *domain;
	struct qp_pair pair;

	imported.context = ibv_import_device(dup(lo.context->cmd_fd));
	CHECK(imported.context);
	CHECK(!ibv_import_pd(imported.context, 0x7fffffff));
	imported.pd = ibv_import_pd(imported.context, lo.pd->handle);
	CHECK(imported.pd);
	CHECK(!ibv_import_mr(imported.pd, 0x7fffffff));
	imported.mr = ibv_import_mr(imported.pd, lo.mr->handle);
	CHECK(imported.mr);
	CHECK_EQUAL(imported.mr->lkey, lo.mr->lkey);
	CHECK_EQUAL(imported.mr->rkey, lo.mr->rkey);

	pair_create(&imported, &pair, IBV_QPT_RC, CAP, NULL);
	pair_connect(&imported, &pair);
	send_one(&imported, &pair);
	pair_destroy(&pair);
	ibv_unimport_mr(imported.mr);
	attr.pd = imported.pd;
	domain = ibv_alloc_parent_domain(imported.context, &attr);
	CHECK(domain);
	ibv_unimport_pd(imported.pd);
	CHECK_EQUAL(ibv_dealloc_pd(domain), 0); /* frees what the parent domain contained */
	CHECK_EQUAL(ibv_close_device(imported.context), 0);
	/* The original context still works. */
	pair_create(&lo, &pair, IBV_QPT_RC, CAP, NULL);
	pair_connect(&lo, &pair);
	send_one(&lo, &pair);
	pair_destroy(&pair);
}

static int shift_s; /* seconds that clock_gettime() adds to the wall clock of this process */

/* The provider and this program call this function in place of the C library's. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
	int ret = syscall(SYS_clock_gettime, clock, now);

	if (!ret && clock == CLOCK_REALTIME)
		now->tv_sec += shift_s;
	return ret;
}

static uint64_t wall_clock(void)
{
	struct timespec now;

	CHECK_EQUAL(clock_gettime(CLOCK_REALTIME, &now), 0);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static uint64_t device_clock(void)
{
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };

	CHECK_EQUAL(ibv_query_rt_values_ex(lo.context, &values), 0);
	CHECK_EQUAL(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	return values.raw_clock.tv_nsec;
}

/* The measured offset of two clocks may be wrong by the duration of the measurement. */
#define CLOCK_SLACK_NS 10000000000ull

/* Sends a message to the extended CQ of side 1, and returns the wall clock time of its completion. */
static uint64_t wall_clock_of_a_message(struct qp_pair *pair, struct ibv_cq_ex *cq)
{
	struct ibv_wc wc;
	uint64_t found;

	CHECK_EQUAL(post_recv_at(&lo, pair->qp[1], 1, 4096, 64), 0);
	CHECK_EQUAL(post_send_at(&lo, pair->qp[0], 2, 0, 64, IBV_SEND_SIGNALED), 0);
	poll_one(pair->cq[0], &wc);
	start_poll(cq);
	found = ibv_wc_read_completion_wallclock_ns(cq);
	ibv_end_poll(cq);
	return found;
}

#define SHIFT_S 3600

/* Time stamps follow a wall clock that has been set, at the latest a second later. */
static void wall_clock_may_be_set(struct qp_pair *pair, struct ibv_cq_ex *cq)
{
	uint64_t found, now;

	shift_s = SHIFT_S;
	usleep(1100000);
	found = wall_clock_of_a_message(pair, cq);
	now = wall_clock();
	shift_s = 0;
	CHECK(found + CLOCK_SLACK_NS >= now && found <= now + CLOCK_SLACK_NS);
}

static void clocks(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 16, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
				       IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
	};
	struct ibv_device_attr_ex device = {};
	uint64_t device_before, wall_before;
	struct ibv_cq_ex *cq;
	struct qp_pair pair;
	struct ibv_wc wc;

	CHECK_EQUAL(ibv_query_device_ex(lo.context, NULL, &device), 0);
	CHECK_EQUAL(device.completion_timestamp_mask, UINT64_MAX);
	CHECK_EQUAL(device.hca_core_clock, 1000000);
	cq = ibv_create_cq_ex(lo.context, &attr);
	CHECK(cq);
	pair_create(&lo, &pair, IBV_QPT_RC, CAP, NULL);
	for (int i = 0; i < 2; i++)
		CHECK_EQUAL(ibv_destroy_qp(pair.qp[i]), 0);
	CHECK_EQUAL(ibv_destroy_cq(pair.cq[1]), 0);
	pair.cq[1] = ibv_cq_ex_to_cq(cq);
	for (int i = 0; i < 2; i++) {
		pair.init.send_cq = pair.init.recv_cq = pair.cq[i];
		pair.qp[i] = ibv_create_qp(lo.pd, &pair.init);
		CHECK(pair.qp[i]);
	}
	pair_connect(&lo, &pair);
	device_before = device_clock();
	wall_before = wall_clock();
	CHECK_EQUAL(post_recv_at(&lo, pair.qp[1], 1, 4096, 64), 0);
	CHECK_EQUAL(post_send_at(&lo, pair.qp[0], 2, 0, 64, IBV_SEND_SIGNALED), 0);
	poll_one(pair.cq[0], &wc);
	start_poll(cq);
	CHECK(ibv_wc_read_completion_ts(cq) >= device_before);
	CHECK(ibv_wc_read_completion_ts(cq) <= device_clock());
	CHECK(ibv_wc_read_completion_wallclock_ns(cq) + CLOCK_SLACK_NS >= wall_before);
	CHECK(ibv_wc_read_completion_wallclock_ns(cq) <= wall_clock() + CLOCK_SLACK_NS);
	ibv_end_poll(cq);
	wall_clock_may_be_set(&pair, cq);
	pair_destroy(&pair);
}

const struct check domain_checks[] = {
	{ "parent_domain", parent_domain },
	{ "imports", imports },
	{ "clocks", clocks },
	{ NULL, NULL },
};
