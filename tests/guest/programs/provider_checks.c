// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Promises of the provider beyond moving data: queues that are full, work requests that are
 * refused, completions of QPs that are gone. Usage: provider-checks DEVICE [NAME]. Prints "ok NAME" or
 * "not ok NAME" for each check; exit status 1 when one failed.
 */
#include <errno.h>
#include <string.h>

#include "checks.h"
#include "loopback.h"

struct loopback lo;

#define CAP(sends, recvs)                                                              \
	((struct ibv_qp_cap){ .max_send_wr = (sends), .max_recv_wr = (recvs),          \
			      .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64 })

static void full_send_queue(void)
{
	struct qp_pair pair;
	int posted = 0, ret;

	pair_create(&lo, &pair, IBV_QPT_RC, CAP(10, 10), NULL);
	CHECK(pair.init.cap.max_send_wr >= 10);
	/* The peer stays in Init and answers nothing, so nothing completes. */
	qp_to_init(&lo, pair.qp[0]);
	qp_to_init(&lo, pair.qp[1]);
	qp_to_rts(&lo, pair.qp[0], pair.qp[1]->qp_num);
	while (!(ret = post_send_at(&lo, pair.qp[0], posted, 0, 8, IBV_SEND_SIGNALED)))
		posted++;
	CHECK_EQUAL(ret, ENOMEM);
	CHECK_EQUAL(posted, pair.init.cap.max_send_wr);
	pair_destroy(&pair);
}

static void full_receive_queue(void)
{
	struct qp_pair pair;
	int posted = 0, ret;

	pair_create(&lo, &pair, IBV_QPT_RC, CAP(10, 10), NULL);
	qp_to_init(&lo, pair.qp[0]);
	while (!(ret = post_recv_at(&lo, pair.qp[0], posted, 0, 8)))
		posted++;
	CHECK_EQUAL(ret, ENOMEM);
	CHECK_EQUAL(posted, pair.init.cap.max_recv_wr);
	pair_destroy(&pair);
}

static void unsignaled_sends_give_their_place_back(void)
{
	struct qp_pair pair;
	struct ibv_wc wc;
	int depth;

	pair_create(&lo, &pair, IBV_QPT_RC, CAP(16, 16), NULL);
	pair_connect(&lo, &pair);
	depth = pair.init.cap.max_send_wr;
	for (int i = 1; i <= 10 * depth; i++) {
		CHECK_EQUAL(post_recv_at(&lo, pair.qp[1], i, 4096, 64), 0);
		CHECK_EQUAL(post_send_at(&lo, pair.qp[0], i, 0, 64,
					 i % depth ? 0 : IBV_SEND_SIGNALED), 0);
		poll_one(pair.cq[1], &wc);
		CHECK_EQUAL(wc.wr_id, i);
		if (i % depth == 0) {
			poll_one(pair.cq[0], &wc);
			CHECK_EQUAL(wc.wr_id, i);
			CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
		}
	}
	pair_destroy(&pair);
}

static void posting_in_wrong_states(void)
{
	struct qp_pair pair;

	pair_create(&lo, &pair, IBV_QPT_RC, CAP(4, 4), NULL);
	CHECK(post_recv_at(&lo, pair.qp[0], 0, 0, 8) != 0);
	CHECK(post_send_at(&lo, pair.qp[0], 0, 0, 8, 0) != 0);
	qp_to_init(&lo, pair.qp[0]);
	CHECK_EQUAL(post_recv_at(&lo, pair.qp[0], 0, 0, 8), 0);
	CHECK(post_send_at(&lo, pair.qp[0], 0, 0, 8, 0) != 0);
	pair_destroy(&pair);
}

static void bad_wr_is_named_and_those_before_it_are_posted(void)
{
	struct ibv_sge sge[64];
	struct ibv_send_wr wr[3], *bad = NULL;
	struct qp_pair pair;
	struct ibv_wc wc;

	pair_create(&lo, &pair, IBV_QPT_RC, CAP(8, 8), NULL);
	pair_connect(&lo, &pair);
	for (int i = 0; i < 64; i++)
		sge[i] = sge_at(&lo, 0, 1);
	for (int i = 0; i < 3; i++) {
		wr[i] = (struct ibv_send_wr){
			.wr_id = i, .sg_list = sge, .num_sge = i == 1 ? 64 : 1,
			.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
			.next = i < 2 ? &wr[i + 1] : NULL,
		};
		CHECK_EQUAL(post_recv_at(&lo, pair.qp[1], i, 4096, 64), 0);
	}
	CHECK_EQUAL(ibv_post_send(pair.qp[0], wr, &bad), EINVAL);
	CHECK(bad == &wr[1]);
	poll_one(pair.cq[0], &wc);
	CHECK_EQUAL(wc.wr_id, 0);
	CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
	CHECK_EQUAL(ibv_post_send(pair.qp[0], &wr[2], &bad), 0);
	poll_one(pair.cq[0], &wc);
	CHECK_EQUAL(wc.wr_id, 2);
	pair_destroy(&pair);
}

static void refused_work_requests(void)
{
	struct ibv_sge sge = sge_at(&lo, 0, 8);
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct qp_pair pair;

	pair_create(&lo, &pair, IBV_QPT_RC, CAP(8, 8), NULL);
	pair_connect(&lo, &pair);
	wr.opcode = IBV_WR_RDMA_READ;
	wr.send_flags = IBV_SEND_INLINE;
	CHECK_EQUAL(ibv_post_send(pair.qp[0], &wr, &bad), EINVAL);
	wr.opcode = IBV_WR_TSO;
	wr.send_flags = 0;
	CHECK_EQUAL(ibv_post_send(pair.qp[0], &wr, &bad), EINVAL);
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = IBV_SEND_IP_CSUM;
	CHECK_EQUAL(ibv_post_send(pair.qp[0], &wr, &bad), EINVAL);
	wr.send_flags = IBV_SEND_INLINE;
	sge.length = pair.init.cap.max_inline_data + 1;
	CHECK_EQUAL(ibv_post_send(pair.qp[0], &wr, &bad), EINVAL);
	pair_destroy(&pair);
}

static int post_read(struct ibv_qp *qp, size_t from, size_t to, uint32_t length)
{
	struct ibv_sge sge = sge_at(&lo, to, length);
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
		.wr.rdma = { .remote_addr = (uintptr_t)lo.buffer + from, .rkey = lo.mr->rkey },
	}, *bad;

	return ibv_post_send(qp, &wr, &bad);
}

/* A fenced SEND begins after the RDMA READ before it (IBA vol. 1, 10.8.3.3), so it sends what the READ has returned. */
static void fenced_send_has_the_data_of_a_read(void)
{
	enum { SOURCE = 0, READ_TO = 16384, RECEIVED = 32768, BYTES = 16384 };
	struct qp_pair pair;
	struct ibv_wc wc;

	pair_create(&lo, &pair, IBV_QPT_RC, CAP(8, 8), NULL);
	pair_connect(&lo, &pair);
	for (int round = 1; round <= 8; round++) {
		memset(lo.buffer + SOURCE, round, BYTES);
		memset(lo.buffer + READ_TO, 0xee, BYTES);
		memset(lo.buffer + RECEIVED, 0xdd, BYTES);
		CHECK_EQUAL(post_recv_at(&lo, pair.qp[1], round, RECEIVED, BYTES), 0);
		CHECK_EQUAL(post_read(pair.qp[0], SOURCE, READ_TO, BYTES), 0);
		CHECK_EQUAL(post_send_at(&lo, pair.qp[0], round, READ_TO, BYTES,
					 IBV_SEND_SIGNALED | IBV_SEND_FENCE), 0);
		poll_one(pair.cq[0], &wc);
		CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
		poll_one(pair.cq[1], &wc);
		CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
		CHECK(!memcmp(lo.buffer + RECEIVED, lo.buffer + SOURCE, BYTES));
	}
	pair_destroy(&pair);
}

static void flags_of_creation_are_refused(void)
{
	struct ibv_cq *cq = ibv_create_cq(lo.context, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq, .recv_cq = cq, .cap = CAP(1, 1), .qp_type = IBV_QPT_UD, .pd = lo.pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
	};
	struct ibv_qp *qp;

	CHECK(cq);
	errno = 0;
	CHECK(!ibv_create_qp_ex(lo.context, &init));
	CHECK_EQUAL(errno, EOPNOTSUPP);
	init.create_flags = 0;
	qp = ibv_create_qp_ex(lo.context, &init);
	CHECK(qp);
	CHECK_EQUAL(ibv_destroy_qp(qp), 0);
	CHECK_EQUAL(ibv_destroy_cq(cq), 0);
}

static void inline_data_is_copied_at_once(void)
{
	char text[64] = "inline data need no memory region";
	struct ibv_sge sge[2] = { { .addr = (uintptr_t)text, .length = 10 },
				  { .addr = (uintptr_t)text + 10, .length = 54 } };
	struct ibv_send_wr wr = {
		.sg_list = sge, .num_sge = 2, .opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED, .imm_data = 0x04030201,
	}, *bad;
	struct qp_pair pair;
	struct ibv_wc wc;

	pair_create(&lo, &pair, IBV_QPT_RC, CAP(8, 8), NULL);
	pair_connect(&lo, &pair);
	memset(lo.buffer, 0, 256);
	CHECK_EQUAL(post_recv_at(&lo, pair.qp[1], 7, 0, 256), 0);
	CHECK_EQUAL(ibv_post_send(pair.qp[0], &wr, &bad), 0);
	memset(text, 'x', sizeof(text));
	poll_one(pair.cq[1], &wc);
	CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.byte_len, 64);
	CHECK_EQUAL(wc.opcode, IBV_WC_RECV);
	CHECK_EQUAL(wc.wc_flags, IBV_WC_WITH_IMM);
	CHECK_EQUAL(wc.imm_data, 0x04030201);
	CHECK_EQUAL(wc.qp_num, pair.qp[1]->qp_num);
	CHECK(!strcmp((char *)lo.buffer, "inline data need no memory region"));
	pair_destroy(&pair);
}

/* Completions that were not polled before their QP was destroyed are never seen; others are. */
static void destroyed_qps_leave_no_completions(void)
{
	struct qp_pair pair, other;
	struct ibv_wc wc[16];

	pair_create(&lo, &pair, IBV_QPT_RC, CAP(8, 8), NULL);
	other = pair;
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr init = pair.init;

		init.send_cq = init.recv_cq = pair.cq[i];
		other.qp[i] = ibv_create_qp(lo.pd, &init);
		CHECK(other.qp[i]);
	}
	pair_connect(&lo, &pair);
	pair_connect(&lo, &other);
	for (int i = 0; i < 4; i++) {
		struct qp_pair *of = i & 1 ? &other : &pair;

		CHECK_EQUAL(post_recv_at(&lo, of->qp[1], 100 + i, 4096, 64), 0);
		CHECK_EQUAL(post_send_at(&lo, of->qp[0], i, 0, 64, IBV_SEND_SIGNALED), 0);
	}
	/* A flushed receive of the QP that stays is the last completion of all. */
	CHECK_EQUAL(post_recv_at(&lo, other.qp[1], 200, 4096, 64), 0);
	poll_one(pair.cq[1], wc);
	CHECK_EQUAL(wc[0].wr_id, 100);
	for (int i = 0; i < 2; i++) {
		CHECK_EQUAL(ibv_destroy_qp(pair.qp[i]), 0);
		pair.qp[i] = NULL;
	}
	poll_all(pair.cq[0], wc, 2);
	CHECK_EQUAL(wc[0].wr_id, 1);
	CHECK_EQUAL(wc[1].wr_id, 3);
	poll_all(pair.cq[1], wc, 2);
	CHECK_EQUAL(wc[0].wr_id, 101);
	CHECK_EQUAL(wc[1].wr_id, 103);
	qp_to_state(other.qp[1], IBV_QPS_ERR);
	poll_one(pair.cq[1], wc);
	CHECK_EQUAL(wc[0].wr_id, 200);
	CHECK_EQUAL(wc[0].status, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQUAL(ibv_poll_cq(pair.cq[0], 16, wc), 0);
	CHECK_EQUAL(ibv_poll_cq(pair.cq[1], 16, wc), 0);
	pair_destroy(&other);
}

static void error_flushes_what_was_and_what_is_posted(void)
{
	struct qp_pair pair;
	struct ibv_wc wc[4];

	pair_create(&lo, &pair, IBV_QPT_RC, CAP(8, 8), NULL);
	pair_connect(&lo, &pair);
	CHECK_EQUAL(post_recv_at(&lo, pair.qp[0], 1, 0, 64), 0);
	CHECK_EQUAL(post_recv_at(&lo, pair.qp[0], 2, 0, 64), 0);
	qp_to_state(pair.qp[0], IBV_QPS_ERR);
	CHECK_EQUAL(post_recv_at(&lo, pair.qp[0], 3, 0, 64), 0);
	poll_all(pair.cq[0], wc, 3);
	for (int i = 0; i < 3; i++) {
		CHECK_EQUAL(wc[i].wr_id, i + 1);
		CHECK_EQUAL(wc[i].status, IBV_WC_WR_FLUSH_ERR);
		CHECK_EQUAL(wc[i].qp_num, pair.qp[0]->qp_num);
	}
	CHECK_EQUAL(post_send_at(&lo, pair.qp[0], 4, 0, 64, 0), 0);
	poll_one(pair.cq[0], wc);
	CHECK_EQUAL(wc[0].wr_id, 4);
	CHECK_EQUAL(wc[0].status, IBV_WC_WR_FLUSH_ERR);
	pair_destroy(&pair);
}

static void reset_and_use_again(void)
{
	struct qp_pair pair;
	struct ibv_wc wc;

	pair_create(&lo, &pair, IBV_QPT_RC, CAP(8, 8), NULL);
	for (int round = 0; round < 3; round++) {
		pair_connect(&lo, &pair);
		for (int i = 0; i < 5; i++) {
			CHECK_EQUAL(post_recv_at(&lo, pair.qp[1], 10 * round + i, 4096, 64), 0);
			CHECK_EQUAL(post_send_at(&lo, pair.qp[0], i, 0, 64, IBV_SEND_SIGNALED), 0);
			poll_one(pair.cq[1], &wc);
			CHECK_EQUAL(wc.wr_id, 10 * round + i);
		}
		/* Reset removes the five send completions that are left. */
		qp_to_state(pair.qp[0], IBV_QPS_RESET);
		qp_to_state(pair.qp[1], IBV_QPS_RESET);
		CHECK_EQUAL(ibv_poll_cq(pair.cq[0], 1, &wc), 0);
	}
	pair_destroy(&pair);
}

static void queues_that_are_not_there(void)
{
	struct qp_pair pair;
	struct ibv_qp_cap cap = { .max_send_wr = 4, .max_send_sge = 1 };

	pair_create(&lo, &pair, IBV_QPT_RC, cap, NULL);
	CHECK_EQUAL(pair.init.cap.max_recv_wr, 0);
	qp_to_init(&lo, pair.qp[0]);
	CHECK(post_recv_at(&lo, pair.qp[0], 0, 0, 8) != 0);
	pair_destroy(&pair);
	cap = (struct ibv_qp_cap){ .max_recv_wr = 4, .max_recv_sge = 1 };
	pair_create(&lo, &pair, IBV_QPT_RC, cap, NULL);
	CHECK_EQUAL(pair.init.cap.max_send_wr, 0);
	pair_connect(&lo, &pair);
	CHECK(post_send_at(&lo, pair.qp[0], 0, 0, 8, 0) != 0);
	pair_destroy(&pair);
}

static void objects_beyond_the_limits(void)
{
	struct ibv_device_attr attr;
	struct ibv_cq *cq = ibv_create_cq(lo.context, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
					 .cap = CAP(1, 1) };

	CHECK(cq);
	CHECK_EQUAL(ibv_query_device(lo.context, &attr), 0);
	CHECK(!ibv_create_cq(lo.context, attr.max_cqe + 1, NULL, NULL, 0));
	CHECK(!ibv_create_cq(lo.context, 0, NULL, NULL, 0));
	CHECK(!ibv_create_cq(lo.context, 1, NULL, NULL, lo.context->num_comp_vectors));
	init.cap.max_send_wr = attr.max_qp_wr + 1;
	CHECK(!ibv_create_qp(lo.pd, &init));
	init.cap = CAP(1, 1);
	init.cap.max_recv_sge = attr.max_sge + 1;
	CHECK(!ibv_create_qp(lo.pd, &init));
	init.cap = CAP(1, 1);
	init.cap.max_inline_data = 1 << 20;
	CHECK(!ibv_create_qp(lo.pd, &init));
	init.cap = CAP(attr.max_qp_wr, attr.max_qp_wr);
	init.cap.max_send_sge = init.cap.max_recv_sge = attr.max_sge;
	struct ibv_qp *qp = ibv_create_qp(lo.pd, &init);

	CHECK(qp);
	CHECK_EQUAL(ibv_destroy_qp(qp), 0);
	CHECK_EQUAL(ibv_destroy_cq(cq), 0);
}

static const struct check checks[] = {
	{ "full_send_queue", full_send_queue },
	{ "full_receive_queue", full_receive_queue },
	{ "unsignaled_sends_give_their_place_back", unsignaled_sends_give_their_place_back },
	{ "posting_in_wrong_states", posting_in_wrong_states },
	{ "bad_wr_is_named_and_those_before_it_are_posted",
	  bad_wr_is_named_and_those_before_it_are_posted },
	{ "refused_work_requests", refused_work_requests },
	{ "fenced_send_has_the_data_of_a_read", fenced_send_has_the_data_of_a_read },
	{ "flags_of_creation_are_refused", flags_of_creation_are_refused },
	{ "inline_data_is_copied_at_once", inline_data_is_copied_at_once },
	{ "destroyed_qps_leave_no_completions", destroyed_qps_leave_no_completions },
	{ "error_flushes_what_was_and_what_is_posted",
	  error_flushes_what_was_and_what_is_posted },
	{ "reset_and_use_again", reset_and_use_again },
	{ "queues_that_are_not_there", queues_that_are_not_there },
	{ "objects_beyond_the_limits", objects_beyond_the_limits },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	int bad;

	if (setjmp(check_failed))
		return 2;
	if (argc != 2 && argc != 3) {
		fprintf(stderr, "usage: provider-checks DEVICE [NAME]\n");
		return 2;
	}
	only_check = argv[2];
	loopback_open(&lo, argv[1]);
	bad = run_checks(checks) + run_checks(datagram_checks) + run_checks(thread_checks) +
	      run_checks(srq_checks) + run_checks(path_checks) + run_checks(memory_checks) +
	      run_checks(domain_checks) + run_checks(page_checks);
	if (setjmp(check_failed))
		return 2;
	loopback_close(&lo);
	return bad ? 1 : 0;
}
