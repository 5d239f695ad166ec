// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Path migration (IBA vol. 1, 17.2.8), moderation and the GID table as a program sees them. Both paths lead to
 * this port itself; the tests of the switch have two different paths.
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>

#include "checks.h"
#include "loopback.h"

extern struct loopback lo;

#define CAP                                                                            \
	((struct ibv_qp_cap){                                                          \
		.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 })

static void load_alternate(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.alt_ah_attr = own_address(&lo, 0),
		.alt_port_num = lo.port_num,
		.alt_timeout = 17,
		.path_mig_state = IBV_MIG_REARM,
	};

	CHECK_EQUAL(ibv_modify_qp(qp, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), 0);
}

static int migrate(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .path_mig_state = IBV_MIG_MIGRATED };

	return ibv_modify_qp(qp, &attr, IBV_QP_PATH_MIG_STATE);
}

static struct ibv_qp_attr query(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQUAL(ibv_query_qp(qp, &attr, IBV_QP_PATH_MIG_STATE | IBV_QP_ALT_PATH |
				 IBV_QP_TIMEOUT, &init), 0);
	return attr;
}

static void transfer(struct qp_pair *pair, int from)
{
	struct ibv_wc wc;

	CHECK_EQUAL(post_recv_at(&lo, pair->qp[!from], 1, 4096, 64), 0);
	CHECK_EQUAL(post_send_at(&lo, pair->qp[from], 2, 0, 64, IBV_SEND_SIGNALED), 0);
	poll_one(pair->cq[from], &wc);
	CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
	poll_one(pair->cq[!from], &wc);
	CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
}

static void expect_event(struct ibv_qp *qp, enum ibv_event_type type)
{
	struct pollfd fd = { .fd = lo.context->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	CHECK_EQUAL(poll(&fd, 1, PATIENCE_S * 1000), 1);
	CHECK_EQUAL(ibv_get_async_event(lo.context, &event), 0);
	ibv_ack_async_event(&event);
	CHECK_EQUAL(event.event_type, type);
	CHECK(event.element.qp == qp);
}

static void a_path_is_loaded_armed_and_taken(void)
{
	struct qp_pair pair;

	pair_create(&lo, &pair, IBV_QPT_RC, CAP, NULL);
	pair_connect(&lo, &pair);
	CHECK_EQUAL(query(pair.qp[0]).path_mig_state, IBV_MIG_MIGRATED);
	load_alternate(pair.qp[0]);
	load_alternate(pair.qp[1]);
	CHECK_EQUAL(query(pair.qp[0]).alt_port_num, lo.port_num);
	CHECK_EQUAL(query(pair.qp[0]).alt_ah_attr.dlid, lo.port.lid);
	CHECK_EQUAL(query(pair.qp[0]).alt_timeout, 17);
	/* Both sides receive packets that the other sends in REARM, so both become ARMED. */
	for (int i = 0; i < 4; i++)
		transfer(&pair, i % 2);
	CHECK_EQUAL(query(pair.qp[0]).path_mig_state, IBV_MIG_ARMED);
	CHECK_EQUAL(query(pair.qp[1]).path_mig_state, IBV_MIG_ARMED);
	CHECK_EQUAL(migrate(pair.qp[0]), 0);
	expect_event(pair.qp[0], IBV_EVENT_PATH_MIG);
	transfer(&pair, 0);
	expect_event(pair.qp[1], IBV_EVENT_PATH_MIG);
	CHECK_EQUAL(query(pair.qp[1]).path_mig_state, IBV_MIG_MIGRATED);
	CHECK_EQUAL(query(pair.qp[1]).timeout, 17);
	transfer(&pair, 1);
	pair_destroy(&pair);
}

static void a_path_that_is_not_armed_is_not_taken(void)
{
	struct ibv_qp_attr attr = { .alt_ah_attr = own_address(&lo, 0), .alt_port_num = 77 };
	struct qp_pair pair;

	pair_create(&lo, &pair, IBV_QPT_RC, CAP, NULL);
	pair_connect(&lo, &pair);
	CHECK_EQUAL(ibv_modify_qp(pair.qp[0], &attr, IBV_QP_ALT_PATH), EINVAL);
	load_alternate(pair.qp[0]);
	CHECK(migrate(pair.qp[0]) != 0);
	CHECK_EQUAL(query(pair.qp[0]).path_mig_state, IBV_MIG_REARM);
	transfer(&pair, 0);
	pair_destroy(&pair);
}

static void the_gid_table_is_the_ports(void)
{
	struct ibv_gid_entry entries[64], one;
	ssize_t count = ibv_query_gid_table(lo.context, entries, 64, 0);
	int seen = 0;

	CHECK(count > 0);
	for (ssize_t i = 0; i < count; i++) {
		CHECK_EQUAL(entries[i].gid_type, IBV_GID_TYPE_IB);
		CHECK_EQUAL(ibv_query_gid_ex(lo.context, entries[i].port_num,
					     entries[i].gid_index, &one, 0), 0);
		CHECK(!memcmp(&one.gid, &entries[i].gid, sizeof(one.gid)));
		seen += entries[i].port_num == lo.port_num && entries[i].gid_index == 0 &&
			!memcmp(&entries[i].gid, &lo.gid, sizeof(lo.gid));
	}
	CHECK_EQUAL(seen, 1);
	CHECK_EQUAL(ibv_query_gid_table(lo.context, entries, 0, 0), -EINVAL);
}

/* memcpy() of the host chooses the order in which a packet's bytes are copied. */
static void data_is_not_promised_to_come_in_order(void)
{
	struct qp_pair pair;

	pair_create(&lo, &pair, IBV_QPT_RC, CAP, NULL);
	CHECK_EQUAL(ibv_query_qp_data_in_order(pair.qp[0], IBV_WR_RDMA_WRITE, 0), 0);
	pair_destroy(&pair);
}

/* Whether an event of the channel comes within the time given. */
static int event_within(struct ibv_comp_channel *channel, int ms)
{
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	if (poll(&fd, 1, ms) != 1)
		return 0;
	CHECK_EQUAL(ibv_get_cq_event(channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	return 1;
}

/* With a count of three, two completions raise no event; the third one does. */
static void an_event_waits_for_its_completions(void)
{
	struct ibv_modify_cq_attr attr = {
		.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = { .cq_count = 3 },
	};
	struct ibv_comp_channel *channel = ibv_create_comp_channel(lo.context);
	struct qp_pair pair;

	CHECK(channel);
	pair_create(&lo, &pair, IBV_QPT_RC, CAP, channel);
	pair_connect(&lo, &pair);
	CHECK_EQUAL(ibv_modify_cq(pair.cq[0], &attr), 0);
	CHECK_EQUAL(ibv_req_notify_cq(pair.cq[0], 0), 0);
	for (int i = 0; i < 3; i++) {
		CHECK(!event_within(channel, 0));
		transfer(&pair, 0);
	}
	CHECK(event_within(channel, PATIENCE_S * 1000));
	/* With a period, a single completion raises an event, too. */
	attr.moderate.cq_period = 1000;
	CHECK_EQUAL(ibv_modify_cq(pair.cq[0], &attr), 0);
	CHECK_EQUAL(ibv_req_notify_cq(pair.cq[0], 0), 0);
	transfer(&pair, 0);
	CHECK(event_within(channel, PATIENCE_S * 1000));
	pair_destroy(&pair);
	CHECK_EQUAL(ibv_destroy_comp_channel(channel), 0);
}

/* Posts two SENDs to a peer with one receive request, and moves the QP to SQD. */
static void begin_to_drain(struct qp_pair *pair)
{
	struct ibv_qp_attr drain = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct ibv_wc wc;

	pair_create(&lo, pair, IBV_QPT_RC, CAP, NULL);
	pair_connect(&lo, pair);
	CHECK_EQUAL(post_recv_at(&lo, pair->qp[1], 3, 4096, 64), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQUAL(post_send_at(&lo, pair->qp[0], i, 0, 64, IBV_SEND_SIGNALED), 0);
	/* When the first SEND has completed, the second one has begun. */
	poll_one(pair->cq[0], &wc);
	CHECK_EQUAL(ibv_modify_qp(pair->qp[0], &drain, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
}

static void expect_draining(struct ibv_qp *qp, bool draining)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQUAL(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	CHECK_EQUAL(attr.qp_state, IBV_QPS_SQD);
	CHECK_EQUAL(!!attr.sq_draining, draining);
}

static void expect_sent(struct qp_pair *pair, uint64_t wr_id)
{
	struct ibv_wc wc;

	poll_one(pair->cq[0], &wc);
	CHECK_EQUAL(wc.wr_id, wr_id);
	CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
}

/* SQD: requests that have begun complete, later ones wait until the QP returns to RTS. */
static void a_send_queue_drains_and_goes_on(void)
{
	struct qp_pair pair;
	struct ibv_wc wc;

	begin_to_drain(&pair);
	CHECK_EQUAL(post_send_at(&lo, pair.qp[0], 2, 0, 64, IBV_SEND_SIGNALED), 0);
	expect_draining(pair.qp[0], true);
	for (int i = 0; i < 2; i++)
		CHECK_EQUAL(post_recv_at(&lo, pair.qp[1], 3, 4096, 64), 0);
	expect_event(pair.qp[0], IBV_EVENT_SQ_DRAINED);
	expect_sent(&pair, 1);
	expect_draining(pair.qp[0], false);
	CHECK_EQUAL(ibv_poll_cq(pair.cq[0], 1, &wc), 0);
	qp_to_state(pair.qp[0], IBV_QPS_RTS);
	expect_sent(&pair, 2);
	pair_destroy(&pair);
}

/* A send queue finishes draining even if no later request wakes it. */
static void a_send_queue_drains_by_itself(void)
{
	struct qp_pair pair;

	begin_to_drain(&pair);
	expect_draining(pair.qp[0], true);
	CHECK_EQUAL(post_recv_at(&lo, pair.qp[1], 3, 4096, 64), 0);
	expect_event(pair.qp[0], IBV_EVENT_SQ_DRAINED);
	expect_sent(&pair, 1);
	expect_draining(pair.qp[0], false);
	pair_destroy(&pair);
}

const struct check path_checks[] = {
	{ "a send queue drains and goes on", a_send_queue_drains_and_goes_on },
	{ "a send queue drains by itself", a_send_queue_drains_by_itself },
	{ "a path is loaded, armed and taken", a_path_is_loaded_armed_and_taken },
	{ "a path that is not armed is not taken", a_path_that_is_not_armed_is_not_taken },
	{ "an event waits for its completions", an_event_waits_for_its_completions },
	{ "the GID table is the ports'", the_gid_table_is_the_ports },
	{ "data is not promised to come in order", data_is_not_promised_to_come_in_order },
	{ NULL, NULL },
};
