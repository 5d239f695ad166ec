/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Queue pairs of one process that talk to each other through the device's first Active port.
 * All calls must succeed; a failure ends the check that made the call.
 */
#ifndef LOOPBACK_H
#define LOOPBACK_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#define BUFFER_BYTES 65536
#define QKEY 0x11223344

struct loopback {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_port_attr port;
	uint8_t port_num;
	union ibv_gid gid;
	uint8_t *buffer;
};

/* Two QPs; side 0 and side 1 each have one CQ for both queues of their QP. */
struct qp_pair {
	struct ibv_cq *cq[2];
	struct ibv_qp *qp[2];
	struct ibv_qp_init_attr init; /* cap: the capabilities that ibv_create_qp() has granted */
};

void loopback_open(struct loopback *lo, const char *device);
void loopback_close(struct loopback *lo);

/* Limit of each wait, in seconds. Only a hang takes that long. */
#define PATIENCE_S 120

/* Polls `count` completions in the order in which they come; fails after PATIENCE_S. */
void poll_all(struct ibv_cq *cq, struct ibv_wc *wc, int count);
void poll_one(struct ibv_cq *cq, struct ibv_wc *wc);
/* Starts to poll an extended CQ when it has a completion; fails after PATIENCE_S. */
void start_poll(struct ibv_cq_ex *cq);

/* Creates two QPs in Reset. */
void pair_create(struct loopback *lo, struct qp_pair *pair, enum ibv_qp_type type,
		 struct ibv_qp_cap cap, struct ibv_comp_channel *channel);
/* Like pair_create(), but both QPs receive from `srq`. */
void pair_create_srq(struct loopback *lo, struct qp_pair *pair, enum ibv_qp_type type,
		     struct ibv_qp_cap cap, struct ibv_comp_channel *channel,
		     struct ibv_srq *srq);
void pair_destroy(struct qp_pair *pair);
void qp_to_init(struct loopback *lo, struct ibv_qp *qp);
void qp_to_rts(struct loopback *lo, struct ibv_qp *qp, uint32_t dest_qpn);
void qp_to_state(struct ibv_qp *qp, enum ibv_qp_state state);
void pair_connect(struct loopback *lo, struct qp_pair *pair);

struct ibv_sge sge_at(struct loopback *lo, size_t offset, uint32_t length);
int post_recv_at(struct loopback *lo, struct ibv_qp *qp, uint64_t wr_id, size_t offset,
		 uint32_t length);
int post_send_at(struct loopback *lo, struct ibv_qp *qp, uint64_t wr_id, size_t offset,
		 uint32_t length, unsigned int flags);
struct ibv_ah_attr own_address(struct loopback *lo, int with_grh);

#endif
