// SPDX-License-Identifier: GPL-2.0-or-later
#include "loopback.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "checks.h"

static struct ibv_device *find_device(struct ibv_device **list, const char *name)
{
	struct ibv_device *found = NULL;

	for (int i = 0; list && list[i]; i++) {
		if (!strcmp(ibv_get_device_name(list[i]), name))
			found = list[i];
	}
	return found;
}

void loopback_open(struct loopback *lo, const char *device)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_device *dev = find_device(list, device);

	memset(lo, 0, sizeof(*lo));
	CHECK(dev);
	lo->context = ibv_open_device(dev);
	ibv_free_device_list(list);
	CHECK(lo->context);
	lo->port_num = 1;
	CHECK_EQUAL(ibv_query_port(lo->context, lo->port_num, &lo->port), 0);
	CHECK_EQUAL(lo->port.state, IBV_PORT_ACTIVE);
	CHECK_EQUAL(ibv_query_gid(lo->context, lo->port_num, 0, &lo->gid), 0);
	lo->pd = ibv_alloc_pd(lo->context);
	CHECK(lo->pd);
	lo->buffer = aligned_alloc(4096, BUFFER_BYTES);
	CHECK(lo->buffer);
	lo->mr = ibv_reg_mr(lo->pd, lo->buffer, BUFFER_BYTES,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	CHECK(lo->mr);
}

void loopback_close(struct loopback *lo)
{
	CHECK_EQUAL(ibv_dereg_mr(lo->mr), 0);
	CHECK_EQUAL(ibv_dealloc_pd(lo->pd), 0);
	CHECK_EQUAL(ibv_close_device(lo->context), 0);
	free(lo->buffer);
}

void poll_all(struct ibv_cq *cq, struct ibv_wc *wc, int count)
{
	time_t end = time(NULL) + PATIENCE_S;
	int done = 0;

	while (done < count) {
		int n = ibv_poll_cq(cq, count - done, wc + done);

		CHECK(n >= 0);
		CHECK(time(NULL) < end);
		done += n;
	}
}

void poll_one(struct ibv_cq *cq, struct ibv_wc *wc)
{
	poll_all(cq, wc, 1);
}

void start_poll(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = {};
	time_t end = time(NULL) + PATIENCE_S;
	int ret;

	while ((ret = ibv_start_poll(cq, &attr)) == ENOENT)
		CHECK(time(NULL) < end);
	CHECK_EQUAL(ret, 0);
}

void pair_create(struct loopback *lo, struct qp_pair *pair, enum ibv_qp_type type,
		 struct ibv_qp_cap cap, struct ibv_comp_channel *channel)
{
	pair_create_srq(lo, pair, type, cap, channel, NULL);
}

void pair_create_srq(struct loopback *lo, struct qp_pair *pair, enum ibv_qp_type type,
		     struct ibv_qp_cap cap, struct ibv_comp_channel *channel,
		     struct ibv_srq *srq)
{
	for (int i = 0; i < 2; i++) {
		pair->cq[i] = ibv_create_cq(lo->context, 256, NULL, channel, 0);
		CHECK(pair->cq[i]);
		pair->init = (struct ibv_qp_init_attr){
			.send_cq = pair->cq[i],
			.recv_cq = pair->cq[i],
			.srq = srq,
			.cap = cap,
			.qp_type = type,
		};
		pair->qp[i] = ibv_create_qp(lo->pd, &pair->init);
		CHECK(pair->qp[i]);
	}
}

void pair_destroy(struct qp_pair *pair)
{
	for (int i = 0; i < 2; i++) {
		if (pair->qp[i])
			CHECK_EQUAL(ibv_destroy_qp(pair->qp[i]), 0);
	}
	for (int i = 0; i < 2; i++)
		CHECK_EQUAL(ibv_destroy_cq(pair->cq[i]), 0);
}

void qp_to_init(struct loopback *lo, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = lo->port_num,
		.qkey = QKEY,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC,
	};
	int is_ud = qp->qp_type == IBV_QPT_UD;

	CHECK_EQUAL(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				  (is_ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)), 0);
}

struct ibv_ah_attr own_address(struct loopback *lo, int with_grh)
{
	return (struct ibv_ah_attr){
		.dlid = lo->port.lid,
		.port_num = lo->port_num,
		.is_global = with_grh,
		.grh = { .dgid = lo->gid, .hop_limit = 1 },
	};
}

void qp_to_rts(struct loopback *lo, struct ibv_qp *qp, uint32_t dest_qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.ah_attr = own_address(lo, 0),
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest_qpn,
		.rq_psn = 0x765432,
		.sq_psn = 0x765432,
		.max_dest_rd_atomic = 4,
		.max_rd_atomic = 4,
		.min_rnr_timer = 12,
		.timeout = 18,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};
	int is_ud = qp->qp_type == IBV_QPT_UD;

	CHECK_EQUAL(ibv_modify_qp(qp, &attr, is_ud ? IBV_QP_STATE :
				  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				  IBV_QP_MIN_RNR_TIMER), 0);
	attr.qp_state = IBV_QPS_RTS;
	CHECK_EQUAL(ibv_modify_qp(qp, &attr, is_ud ? IBV_QP_STATE | IBV_QP_SQ_PSN :
				  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				  IBV_QP_MAX_QP_RD_ATOMIC), 0);
}

void qp_to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	CHECK_EQUAL(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}

void pair_connect(struct loopback *lo, struct qp_pair *pair)
{
	for (int i = 0; i < 2; i++)
		qp_to_init(lo, pair->qp[i]);
	for (int i = 0; i < 2; i++)
		qp_to_rts(lo, pair->qp[i], pair->qp[!i]->qp_num);
}

struct ibv_sge sge_at(struct loopback *lo, size_t offset, uint32_t length)
{
	return (struct ibv_sge){
		.addr = (uintptr_t)lo->buffer + offset,
		.length = length,
		.lkey = lo->mr->lkey,
	};
}

int post_recv_at(struct loopback *lo, struct ibv_qp *qp, uint64_t wr_id, size_t offset,
		 uint32_t length)
{
	struct ibv_sge sge = sge_at(lo, offset, length);
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(qp, &wr, &bad);
}

int post_send_at(struct loopback *lo, struct ibv_qp *qp, uint64_t wr_id, size_t offset,
		 uint32_t length, unsigned int flags)
{
	struct ibv_sge sge = sge_at(lo, offset, length);
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = flags,
	}, *bad;

	return ibv_post_send(qp, &wr, &bad);
}
