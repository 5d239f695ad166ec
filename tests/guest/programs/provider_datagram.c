// SPDX-License-Identifier: GPL-2.0-or-later
/* Datagrams and their addresses, completion events, and the other interfaces for posting and polling. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include "checks.h"
#include "loopback.h"

extern struct loopback lo;

static const struct ibv_qp_cap cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1,
				       .max_recv_sge = 1, .max_inline_data = 64 };

static void send_datagram(struct qp_pair *pair, struct ibv_ah *ah)
{
	struct ibv_sge sge = sge_at(&lo, 0, 32);
	struct ibv_send_wr wr = {
		.wr_id = 5, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { .ah = ah, .remote_qpn = pair->qp[1]->qp_num, .remote_qkey = QKEY },
	}, *bad;

	CHECK_EQUAL(ibv_post_send(pair->qp[0], &wr, &bad), 0);
}

static void datagram_completions(void)
{
	uint8_t path_bits = (1 << lo.port.lmc) - 1; /* the port's last LID */
	struct qp_pair pair;
	struct ibv_wc wc;

	pair_create(&lo, &pair, IBV_QPT_UD, cap, NULL);
	pair_connect(&lo, &pair);
	memcpy(lo.buffer, "thirty-two bytes of a datagram.", 32);
	for (int grh = 0; grh < 2; grh++) {
		struct ibv_ah_attr attr = own_address(&lo, grh);
		struct ibv_ah *ah;

		attr.sl = 1;
		attr.src_path_bits = path_bits;
		ah = ibv_create_ah(lo.pd, &attr);
		CHECK(ah);
		memset(lo.buffer + 4096, 0, 128);
		CHECK_EQUAL(post_recv_at(&lo, pair.qp[1], 9, 4096, 128), 0);
		send_datagram(&pair, ah);
		poll_one(pair.cq[0], &wc);
		CHECK_EQUAL(wc.wr_id, 5);
		CHECK_EQUAL(wc.opcode, IBV_WC_SEND);
		poll_one(pair.cq[1], &wc);
		CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
		CHECK_EQUAL(wc.wr_id, 9);
		CHECK_EQUAL(wc.opcode, IBV_WC_RECV);
		CHECK_EQUAL(wc.byte_len, 40 + 32);
		CHECK_EQUAL(wc.src_qp, pair.qp[0]->qp_num);
		CHECK_EQUAL(wc.slid, lo.port.lid + path_bits);
		CHECK_EQUAL(wc.sl, 1);
		CHECK_EQUAL(wc.wc_flags, grh ? IBV_WC_GRH : 0);
		CHECK(!memcmp(lo.buffer + 4096 + 40, lo.buffer, 32));
		CHECK_EQUAL(!!memcmp(lo.buffer + 4096 + 24, &lo.gid, 16), !grh);
		CHECK_EQUAL(ibv_destroy_ah(ah), 0);
	}
	pair_destroy(&pair);
}

static int refused(struct ibv_ah_attr attr)
{
	struct ibv_ah *ah = ibv_create_ah(lo.pd, &attr);

	if (!ah)
		return errno == EINVAL;
	ibv_destroy_ah(ah);
	return 0;
}

static void addresses_are_checked(void)
{
	struct ibv_ah_attr attr = own_address(&lo, 1);
	struct ibv_ah *ah = ibv_create_ah(lo.pd, &attr);

	CHECK(ah);
	CHECK_EQUAL(ibv_destroy_ah(ah), 0);
	attr.port_num = 0;
	CHECK(refused(attr));
	attr.port_num = 200;
	CHECK(refused(attr));
	attr = own_address(&lo, 1);
	attr.sl = 16;
	CHECK(refused(attr));
	attr = own_address(&lo, 1);
	attr.static_rate = 63;
	CHECK(refused(attr));
	attr = own_address(&lo, 1);
	attr.grh.sgid_index = lo.port.gid_tbl_len;
	CHECK(refused(attr));
	attr = own_address(&lo, 1);
	attr.grh.flow_label = 1 << 20;
	CHECK(refused(attr));
}

/* The range of multicast LIDs ends at 0xfffe (IBA 4.1.1); 0xffff is the permissive LID. */
static void the_last_multicast_lid_is_attached(void)
{
	union ibv_gid group = { .raw = { 0xff, 0x12, 0x40, 0x1b, [15] = 0x77 } };
	struct qp_pair pair;

	pair_create(&lo, &pair, IBV_QPT_UD, cap, NULL);
	CHECK_EQUAL(ibv_attach_mcast(pair.qp[0], &group, 0xfffe), 0);
	CHECK(ibv_attach_mcast(pair.qp[1], &group, 0xffff));
	CHECK_EQUAL(ibv_detach_mcast(pair.qp[0], &group, 0xfffe), 0);
	pair_destroy(&pair);
}

static int has_event(struct ibv_comp_channel *channel, int timeout_ms)
{
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };

	return poll(&fd, 1, timeout_ms) == 1;
}

static void take_event(struct ibv_comp_channel *channel, struct ibv_cq *expected)
{
	struct ibv_cq *cq;
	void *context;

	CHECK(has_event(channel, PATIENCE_S * 1000));
	CHECK_EQUAL(ibv_get_cq_event(channel, &cq, &context), 0);
	CHECK(cq == expected);
	ibv_ack_cq_events(cq, 1);
}

static void solicited_events_only(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(lo.context);
	struct qp_pair pair;
	struct ibv_wc wc[2];

	CHECK(channel);
	pair_create(&lo, &pair, IBV_QPT_RC, cap, channel);
	pair_connect(&lo, &pair);
	CHECK_EQUAL(ibv_req_notify_cq(pair.cq[1], 1), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQUAL(post_recv_at(&lo, pair.qp[1], i, 4096, 64), 0);
	CHECK_EQUAL(post_send_at(&lo, pair.qp[0], 0, 0, 8, IBV_SEND_SIGNALED), 0);
	poll_one(pair.cq[0], wc);
	poll_one(pair.cq[1], wc);
	CHECK(!has_event(channel, 0));
	CHECK_EQUAL(post_send_at(&lo, pair.qp[0], 1, 0, 8,
				 IBV_SEND_SIGNALED | IBV_SEND_SOLICITED), 0);
	take_event(channel, pair.cq[1]);
	poll_one(pair.cq[1], wc);
	CHECK_EQUAL(wc[0].wr_id, 1);
	pair_destroy(&pair);
	CHECK_EQUAL(ibv_destroy_comp_channel(channel), 0);
}

/* Completions before ibv_req_notify_cq() raise no event; the next completion raises one. */
static void events_for_new_completions(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(lo.context);
	struct qp_pair pair;
	struct ibv_wc wc;

	CHECK(channel);
	pair_create(&lo, &pair, IBV_QPT_RC, cap, channel);
	pair_connect(&lo, &pair);
	for (int i = 0; i < 2; i++)
		CHECK_EQUAL(post_recv_at(&lo, pair.qp[1], i, 4096, 64), 0);
	CHECK_EQUAL(post_send_at(&lo, pair.qp[0], 0, 0, 8, IBV_SEND_SIGNALED), 0);
	poll_one(pair.cq[0], &wc);
	CHECK_EQUAL(ibv_req_notify_cq(pair.cq[1], 0), 0);
	CHECK(!has_event(channel, 100));
	CHECK_EQUAL(post_send_at(&lo, pair.qp[0], 1, 0, 8, IBV_SEND_SIGNALED), 0);
	take_event(channel, pair.cq[1]);
	poll_one(pair.cq[1], &wc);
	poll_one(pair.cq[1], &wc);
	pair_destroy(&pair);
	CHECK_EQUAL(ibv_destroy_comp_channel(channel), 0);
}

static struct ibv_qp_ex *create_ex(struct ibv_cq *cq, struct ibv_qp **qp)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq, .recv_cq = cq, .cap = cap, .qp_type = IBV_QPT_RC, .pd = lo.pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE |
				  IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_BIND_MW,
	};

	*qp = ibv_create_qp_ex(lo.context, &init);
	CHECK(*qp);
	return ibv_qp_to_qp_ex(*qp);
}

static void build(struct ibv_qp_ex *qpx, uint64_t wr_id, uint32_t length)
{
	qpx->wr_id = wr_id;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qpx, lo.mr->rkey, (uintptr_t)lo.buffer + 8192);
	ibv_wr_set_inline_data(qpx, lo.buffer, length);
}

/* Connects two QPs with builders; returns the builder of side 0. */
static struct ibv_qp_ex *pair_of_builders(struct qp_pair *pair)
{
	for (int i = 0; i < 2; i++) {
		pair->cq[i] = ibv_create_cq(lo.context, 16, NULL, NULL, 0);
		CHECK(pair->cq[i]);
		create_ex(pair->cq[i], &pair->qp[i]);
	}
	pair_connect(&lo, pair);
	return ibv_qp_to_qp_ex(pair->qp[0]);
}

static void batches_of_builders(void)
{
	struct qp_pair pair;
	struct ibv_qp_ex *qpx = pair_of_builders(&pair);
	struct ibv_wc wc[2];

	/* If one request of a batch is invalid, no request of the batch is posted. */
	ibv_wr_start(qpx);
	build(qpx, 1, 8);
	build(qpx, 2, 1 << 20);
	build(qpx, 3, 8);
	CHECK_EQUAL(ibv_wr_complete(qpx), EINVAL);
	ibv_wr_start(qpx);
	build(qpx, 4, 8);
	ibv_wr_abort(qpx);
	ibv_wr_start(qpx);
	for (int i = 0; i < 100; i++)
		build(qpx, 5, 8);
	CHECK_EQUAL(ibv_wr_complete(qpx), ENOMEM);

	memcpy(lo.buffer, "written!", 8);
	memset(lo.buffer + 8192, 0, 8);
	ibv_wr_start(qpx);
	build(qpx, 6, 8);
	build(qpx, 7, 8);
	CHECK_EQUAL(ibv_wr_complete(qpx), 0);
	poll_all(pair.cq[0], wc, 2);
	CHECK_EQUAL(wc[0].wr_id, 6);
	CHECK_EQUAL(wc[1].wr_id, 7);
	CHECK_EQUAL(wc[1].opcode, IBV_WC_RDMA_WRITE);
	CHECK(!memcmp(lo.buffer + 8192, "written!", 8));
	pair_destroy(&pair);
}

static void builders_take_no_inline_data_for_a_read(void)
{
	struct qp_pair pair;
	struct ibv_qp_ex *qpx = pair_of_builders(&pair);

	ibv_wr_start(qpx);
	ibv_wr_rdma_read(qpx, lo.mr->rkey, (uintptr_t)lo.buffer + 8192);
	ibv_wr_set_inline_data(qpx, lo.buffer, 8);
	CHECK_EQUAL(ibv_wr_complete(qpx), EINVAL);
	pair_destroy(&pair);
}

/* Only ibv_bind_mw() binds a window of type 1 (IBA vol. 1, 11.2.8.10). */
static void builders_bind_no_window_of_type_1(void)
{
	struct ibv_mw_bind_info info = { .mr = lo.mr, .addr = (uintptr_t)lo.buffer, .length = 64 };
	struct ibv_mw *mw = ibv_alloc_mw(lo.pd, IBV_MW_TYPE_1);
	struct qp_pair pair;
	struct ibv_qp_ex *qpx = pair_of_builders(&pair);

	CHECK(mw);
	ibv_wr_start(qpx);
	ibv_wr_bind_mw(qpx, mw, ibv_inc_rkey(mw->rkey), &info);
	CHECK_EQUAL(ibv_wr_complete(qpx), EINVAL);
	pair_destroy(&pair);
	CHECK_EQUAL(ibv_dealloc_mw(mw), 0);
}

/* Creates two UD QPs; the CQ of side 1 is `cq`. */
static void datagram_pair(struct qp_pair *pair, struct ibv_cq *cq)
{
	pair_create(&lo, pair, IBV_QPT_UD, cap, NULL);
	CHECK_EQUAL(ibv_destroy_qp(pair->qp[1]), 0);
	CHECK_EQUAL(ibv_destroy_cq(pair->cq[1]), 0);
	pair->cq[1] = cq;
	pair->init.send_cq = pair->init.recv_cq = cq;
	pair->qp[1] = ibv_create_qp(lo.pd, &pair->init);
	CHECK(pair->qp[1]);
	pair_connect(&lo, pair);
}

static void extended_polling_names_the_sender(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 16, .wc_flags = IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL |
				       IBV_WC_EX_WITH_QP_NUM,
	};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(lo.context, &attr);
	struct ibv_ah_attr address = own_address(&lo, 0);
	struct qp_pair pair;
	struct ibv_ah *ah;
	struct ibv_wc wc;

	CHECK(cq);
	datagram_pair(&pair, ibv_cq_ex_to_cq(cq));
	address.sl = 1;
	ah = ibv_create_ah(lo.pd, &address);
	CHECK(ah);
	CHECK_EQUAL(post_recv_at(&lo, pair.qp[1], 9, 4096, 128), 0);
	send_datagram(&pair, ah);
	poll_one(pair.cq[0], &wc);
	start_poll(cq);
	CHECK_EQUAL(cq->wr_id, 9);
	CHECK_EQUAL(ibv_wc_read_src_qp(cq), pair.qp[0]->qp_num);
	CHECK_EQUAL(ibv_wc_read_qp_num(cq), pair.qp[1]->qp_num);
	CHECK_EQUAL(ibv_wc_read_slid(cq), lo.port.lid);
	CHECK_EQUAL(ibv_wc_read_sl(cq), 1);
	ibv_end_poll(cq);
	CHECK_EQUAL(ibv_destroy_ah(ah), 0);
	pair_destroy(&pair);
}

static void extended_polling(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 16, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM |
				       IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
	};
	struct ibv_poll_cq_attr poll_attr = {};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(lo.context, &attr);
	struct qp_pair pair = {};
	struct ibv_qp *other;
	uint64_t last = 0;
	struct ibv_wc wc[4];
	int seen = 0;

	CHECK(cq);
	pair.cq[0] = ibv_create_cq(lo.context, 16, NULL, NULL, 0);
	pair.cq[1] = ibv_cq_ex_to_cq(cq);
	for (int i = 0; i < 2; i++)
		create_ex(pair.cq[i], &pair.qp[i]);
	pair_connect(&lo, &pair);
	CHECK_EQUAL(ibv_start_poll(cq, &poll_attr), ENOENT);
	for (int i = 0; i < 4; i++) {
		CHECK_EQUAL(post_recv_at(&lo, pair.qp[1], i, 4096, 64), 0);
		CHECK_EQUAL(post_send_at(&lo, pair.qp[0], i, 0, 8 + i, IBV_SEND_SIGNALED), 0);
	}
	poll_all(pair.cq[0], wc, 4);
	CHECK_EQUAL(ibv_start_poll(cq, &poll_attr), 0);
	do {
		CHECK_EQUAL(cq->wr_id, seen);
		CHECK_EQUAL(cq->status, IBV_WC_SUCCESS);
		CHECK_EQUAL(ibv_wc_read_opcode(cq), IBV_WC_RECV);
		CHECK_EQUAL(ibv_wc_read_byte_len(cq), 8 + seen);
		CHECK_EQUAL(ibv_wc_read_qp_num(cq), pair.qp[1]->qp_num);
		CHECK(ibv_wc_read_completion_ts(cq) >= last);
		last = ibv_wc_read_completion_ts(cq);
		/* The thread has the CQ's lock and may use the CQ all the same. */
		CHECK_EQUAL(ibv_req_notify_cq(ibv_cq_ex_to_cq(cq), 0), 0);
		create_ex(pair.cq[1], &other);
		CHECK_EQUAL(ibv_destroy_qp(other), 0);
		seen++;
	} while (!ibv_next_poll(cq));
	ibv_end_poll(cq);
	CHECK_EQUAL(seen, 4);
	CHECK_EQUAL(ibv_start_poll(cq, &poll_attr), ENOENT);
	pair_destroy(&pair);
}

const struct check datagram_checks[] = {
	{ "datagram_completions", datagram_completions },
	{ "the_last_multicast_lid_is_attached", the_last_multicast_lid_is_attached },
	{ "addresses_are_checked", addresses_are_checked },
	{ "solicited_events_only", solicited_events_only },
	{ "events_for_new_completions", events_for_new_completions },
	{ "batches_of_builders", batches_of_builders },
	{ "builders_take_no_inline_data_for_a_read", builders_take_no_inline_data_for_a_read },
	{ "builders_bind_no_window_of_type_1", builders_bind_no_window_of_type_1 },
	{ "extended_polling", extended_polling },
	{ "extended_polling_names_the_sender", extended_polling_names_the_sender },
	{ NULL, NULL },
};
