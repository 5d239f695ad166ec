// SPDX-License-Identifier: GPL-2.0-or-later
/* Shared receive queues of a process: posting, ids, events, resizing, and destroyed QPs. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "checks.h"
#include "loopback.h"

extern struct loopback lo;

#define CAP ((struct ibv_qp_cap){ .max_send_wr = 16, .max_send_sge = 1 })

static struct ibv_srq_attr query(struct ibv_srq *srq)
{
	struct ibv_srq_attr attr;

	CHECK_EQUAL(ibv_query_srq(srq, &attr), 0);
	return attr;
}

/* The limit is irrelevant at creation (ibv_create_srq(3)): a program may leave it uninitialized. */
static struct ibv_srq *make_srq(uint32_t max_wr)
{
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = max_wr, .max_sge = 2, .srq_limit = UINT32_MAX },
	};
	struct ibv_srq *srq = ibv_create_srq(lo.pd, &attr);

	CHECK(srq);
	CHECK(attr.attr.max_wr >= max_wr && attr.attr.max_sge >= 2);
	CHECK_EQUAL(query(srq).srq_limit, 0);
	return srq;
}

static int post(struct ibv_srq *srq, uint64_t wr_id)
{
	struct ibv_sge sge = sge_at(&lo, 1024 * (wr_id % 32), 1024);
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_srq_recv(srq, &wr, &bad);
}

static int post_until_full(struct ibv_srq *srq, uint64_t first)
{
	int posted = 0, ret;

	while (!(ret = post(srq, first + posted)))
		posted++;
	CHECK_EQUAL(ret, ENOMEM);
	return posted;
}

/* Sends from side 0 and returns the wr_id that side 1 received with. */
static uint64_t transfer(struct qp_pair *pair)
{
	struct ibv_wc wc;

	CHECK_EQUAL(post_send_at(&lo, pair->qp[0], 0, 0, 8, IBV_SEND_SIGNALED), 0);
	poll_one(pair->cq[0], &wc);
	CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
	poll_one(pair->cq[1], &wc);
	CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.qp_num, pair->qp[1]->qp_num);
	return wc.wr_id;
}

static void expect_event(enum ibv_event_type type)
{
	struct pollfd fd = { .fd = lo.context->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	CHECK_EQUAL(poll(&fd, 1, PATIENCE_S * 1000), 1);
	CHECK_EQUAL(ibv_get_async_event(lo.context, &event), 0);
	ibv_ack_async_event(&event);
	CHECK_EQUAL(event.event_type, type);
}

static void an_srq_fills_up_and_gives_places_back(void)
{
	struct ibv_srq *srq = make_srq(10);
	struct qp_pair pair;
	int posted;

	pair_create_srq(&lo, &pair, IBV_QPT_RC, CAP, NULL, srq);
	CHECK_EQUAL(pair.init.cap.max_recv_wr, 0);
	CHECK_EQUAL(ibv_destroy_srq(srq), EBUSY);
	pair_connect(&lo, &pair);
	posted = post_until_full(srq, 0);
	CHECK_EQUAL(posted, query(srq).max_wr);
	/* Wraps around the ring several times; posts a WQE whenever a place is free. */
	for (int i = 0; i < 5 * posted; i++) {
		CHECK_EQUAL(transfer(&pair), i);
		CHECK_EQUAL(post(srq, posted + i), 0);
		CHECK_EQUAL(post(srq, 0), ENOMEM);
	}
	CHECK(post_recv_at(&lo, pair.qp[1], 0, 0, 8) != 0);
	pair_destroy(&pair);
	CHECK_EQUAL(ibv_destroy_srq(srq), 0);
}

static void the_limit_is_told_once(void)
{
	struct ibv_srq_attr attr = { .srq_limit = 2 };
	struct ibv_srq *srq = make_srq(8);
	struct qp_pair pair;

	pair_create_srq(&lo, &pair, IBV_QPT_RC, CAP, NULL, srq);
	pair_connect(&lo, &pair);
	for (int i = 0; i < 4; i++)
		CHECK_EQUAL(post(srq, i), 0);
	CHECK_EQUAL(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
	CHECK_EQUAL(query(srq).srq_limit, 2);
	for (int i = 0; i < 3; i++)
		CHECK_EQUAL(transfer(&pair), i);
	expect_event(IBV_EVENT_SRQ_LIMIT_REACHED);
	CHECK_EQUAL(query(srq).srq_limit, 0);
	attr.srq_limit = 9;
	CHECK_EQUAL(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), EINVAL);
	pair_destroy(&pair);
	CHECK_EQUAL(ibv_destroy_srq(srq), 0);
}

static void a_qp_in_error_tells_its_last_wqe(void)
{
	struct ibv_srq *srq = make_srq(8);
	struct qp_pair pair;
	struct ibv_wc wc;

	pair_create_srq(&lo, &pair, IBV_QPT_RC, CAP, NULL, srq);
	pair_connect(&lo, &pair);
	CHECK_EQUAL(post(srq, 5), 0);
	qp_to_state(pair.qp[1], IBV_QPS_ERR);
	expect_event(IBV_EVENT_QP_LAST_WQE_REACHED);
	CHECK_EQUAL(ibv_poll_cq(pair.cq[1], 1, &wc), 0);
	pair_destroy(&pair);
	/* The WQE is still there for another QP. */
	pair_create_srq(&lo, &pair, IBV_QPT_RC, CAP, NULL, srq);
	pair_connect(&lo, &pair);
	CHECK_EQUAL(transfer(&pair), 5);
	pair_destroy(&pair);
	CHECK_EQUAL(ibv_destroy_srq(srq), 0);
}

static void an_srq_grows_and_shrinks(void)
{
	struct ibv_srq_attr attr = { .max_wr = 64 };
	struct ibv_srq *srq = make_srq(4);
	struct qp_pair pair;
	int next, posted;

	pair_create_srq(&lo, &pair, IBV_QPT_RC, CAP, NULL, srq);
	pair_connect(&lo, &pair);
	posted = post_until_full(srq, 0);
	for (next = 0; next < 3; next++)
		CHECK_EQUAL(transfer(&pair), next);
	CHECK_EQUAL(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0);
	CHECK_EQUAL(query(srq).max_wr, 64);
	posted += post_until_full(srq, posted);
	CHECK_EQUAL(posted, 64 + next);
	attr.max_wr = 8;
	CHECK_EQUAL(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
	for (; posted - next > 8; next++)
		CHECK_EQUAL(transfer(&pair), next);
	CHECK_EQUAL(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0);
	CHECK_EQUAL(post(srq, 0), ENOMEM);
	for (; next < posted; next++)
		CHECK_EQUAL(transfer(&pair), next);
	CHECK_EQUAL(post_until_full(srq, 0), 8);
	pair_destroy(&pair);
	CHECK_EQUAL(ibv_destroy_srq(srq), 0);
}

static void completions_of_qps_that_go_give_their_places_back(void)
{
	struct ibv_srq *srq = make_srq(8);
	struct qp_pair pair;
	struct ibv_wc wc;
	int depth = query(srq).max_wr;

	for (int round = 0; round < 3; round++) {
		pair_create_srq(&lo, &pair, IBV_QPT_RC, CAP, NULL, srq);
		pair_connect(&lo, &pair);
		CHECK_EQUAL(post_until_full(srq, 0), depth);
		for (int i = 0; i < depth; i++) {
			CHECK_EQUAL(post_send_at(&lo, pair.qp[0], i, 0, 8, IBV_SEND_SIGNALED), 0);
			poll_one(pair.cq[0], &wc);
			CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
		}
		if (round == 1)
			qp_to_state(pair.qp[1], IBV_QPS_RESET);
		pair_destroy(&pair); /* the receives are not polled yet */
	}
	CHECK_EQUAL(post_until_full(srq, 0), depth);
	CHECK_EQUAL(ibv_destroy_srq(srq), 0);
}

static void datagrams_share(void)
{
	struct ibv_srq *srq = make_srq(4);
	struct ibv_ah_attr address = own_address(&lo, 0);
	struct ibv_ah *ah = ibv_create_ah(lo.pd, &address);
	struct qp_pair pair;
	struct ibv_wc wc;

	CHECK(ah);
	pair_create_srq(&lo, &pair, IBV_QPT_UD, CAP, NULL, srq);
	pair_connect(&lo, &pair);
	for (int i = 0; i < 4; i++)
		CHECK_EQUAL(post(srq, i), 0);
	for (int i = 0; i < 4; i++) {
		struct ibv_sge sge = sge_at(&lo, 32768, 100);
		struct ibv_send_wr wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.wr.ud = { .ah = ah, .remote_qpn = pair.qp[i % 2]->qp_num,
				   .remote_qkey = QKEY },
		}, *bad;

		CHECK_EQUAL(ibv_post_send(pair.qp[0], &wr, &bad), 0);
		poll_one(pair.cq[i % 2], &wc);
		CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
		CHECK_EQUAL(wc.wr_id, i);
		CHECK_EQUAL(wc.byte_len, 140);
	}
	pair_destroy(&pair);
	CHECK_EQUAL(ibv_destroy_ah(ah), 0);
	CHECK_EQUAL(ibv_destroy_srq(srq), 0);
}

static void srqs_beyond_the_limits(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_srq_init_attr_ex ex = {
		.attr = { .max_wr = 1, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_TM,
		.pd = lo.pd,
	};
	struct ibv_device_attr attr;

	CHECK_EQUAL(ibv_query_device(lo.context, &attr), 0);
	init.attr.max_wr = attr.max_srq_wr + 1;
	CHECK(!ibv_create_srq(lo.pd, &init));
	init.attr = (struct ibv_srq_attr){ .max_wr = 1, .max_sge = attr.max_srq_sge + 1 };
	CHECK(!ibv_create_srq(lo.pd, &init));
	init.attr = (struct ibv_srq_attr){ .max_wr = 0, .max_sge = 1 };
	CHECK(!ibv_create_srq(lo.pd, &init));
	CHECK(!ibv_create_srq_ex(lo.context, &ex));
	CHECK_EQUAL(errno, EOPNOTSUPP);
}

const struct check srq_checks[] = {
	{ "an_srq_fills_up_and_gives_places_back", an_srq_fills_up_and_gives_places_back },
	{ "the_limit_is_told_once", the_limit_is_told_once },
	{ "a_qp_in_error_tells_its_last_wqe", a_qp_in_error_tells_its_last_wqe },
	{ "an_srq_grows_and_shrinks", an_srq_grows_and_shrinks },
	{ "completions_of_qps_that_go_give_their_places_back",
	  completions_of_qps_that_go_give_their_places_back },
	{ "datagrams_share", datagrams_share },
	{ "srqs_beyond_the_limits", srqs_beyond_the_limits },
	{ NULL, NULL },
};
