/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel of lying_device.c: it passes on the device's numbers, and does not destroy an object
 * that another one uses.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "lying_world.h"

int ibv_cmd_create_cq(struct ibv_context *context, int cqe, struct ibv_comp_channel *channel,
		      int comp_vector, struct ibv_cq *cq, void *command, size_t command_size,
		      void *response, size_t response_size)
{
	struct pib_create_cq_resp *answer =
		container_of(response, struct pib_create_cq_resp, ibv_resp);

	cq->context = context;
	answer->drv_payload.cqn = lie();
	return byte() == 0xff ? ENOMEM : 0;
}

int ibv_cmd_create_cq_ex(struct ibv_context *context, const struct ibv_cq_init_attr_ex *attr,
			 struct verbs_cq *cq, void *command, size_t command_size,
			 void *response, size_t response_size, uint32_t flags)
{
	struct pib_create_cq_ex_resp *answer =
		container_of(response, struct pib_create_cq_ex_resp, ibv_resp);

	cq->cq.context = context;
	answer->drv_payload.cqn = lie();
	return byte() == 0xff ? ENOMEM : 0;
}

int ibv_cmd_resize_cq(struct ibv_cq *cq, int cqe, void *command, size_t command_size,
		      void *response, size_t response_size)
{
	return byte() == 0xff ? ENOMEM : 0;
}

int ibv_cmd_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr, void *command,
		      size_t command_size)
{
	return 0;
}

int ibv_cmd_destroy_cq(struct ibv_cq *cq)
{
	int i;

	for (i = 0; i < QPS; i++)
		if (now.qps[i] && (now.qps[i]->send_cq == cq || now.qps[i]->recv_cq == cq))
			return EBUSY;
	for (i = 0; i < SRQS; i++)
		if (now.srqs[i] && to_psrq(now.srqs[i])->cq == to_pcq(cq))
			return EBUSY;
	return 0;
}

int ibv_cmd_create_qp_ex(struct ibv_context *context, struct verbs_qp *qp,
			 struct ibv_qp_init_attr_ex *attr, void *command, size_t command_size,
			 void *response, size_t response_size)
{
	struct pib_create_qp_resp *answer =
		container_of(response, struct pib_create_qp_resp, ibv_resp);

	qp->qp.context = context;
	qp->qp.send_cq = attr->send_cq;
	qp->qp.recv_cq = attr->recv_cq;
	qp->qp.srq = attr->srq;
	qp->qp.qp_type = attr->qp_type;
	qp->qp.state = IBV_QPS_RESET;
	answer->drv_payload.qpn = lie();
	return byte() == 0xff ? ENOMEM : 0;
}

int ibv_cmd_open_qp(struct ibv_context *context, struct verbs_qp *qp, int qp_size,
		    struct ibv_qp_open_attr *attr, void *command, size_t command_size,
		    void *response, size_t response_size)
{
	return EOPNOTSUPP;
}

int ibv_cmd_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask, void *command,
		      size_t command_size)
{
	if (attr_mask & IBV_QP_STATE)
		qp->state = attr->qp_state;
	return 0;
}

int ibv_cmd_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		     struct ibv_qp_init_attr *init_attr, void *command, size_t command_size)
{
	return 0;
}

static void wait_for_acknowledgement(void)
{
	struct timespec limit;

	if (!now.slow)
		return;
	now.slow = false;
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += 60;
	sem_post(&now.in_kernel);
	now.late = sem_timedwait(&now.acknowledged, &limit) != 0;
}

int ibv_cmd_destroy_qp(struct ibv_qp *qp)
{
	wait_for_acknowledgement();
	return 0;
}

static int create_srq(struct ibv_context *context, struct ibv_srq *srq, void *response)
{
	struct pib_create_srq_resp *answer =
		container_of(response, struct pib_create_srq_resp, ibv_resp);

	srq->context = context;
	srq->pd = &now.domain.ibv_pd;
	answer->drv_payload.srqn = lie();
	return byte() == 0xff ? ENOMEM : 0;
}

int ibv_cmd_create_srq(struct ibv_pd *pd, struct ibv_srq *srq, struct ibv_srq_init_attr *attr,
		       void *command, size_t command_size, void *response, size_t response_size)
{
	return create_srq(pd->context, srq, response);
}

int ibv_cmd_create_srq_ex(struct ibv_context *context, struct verbs_srq *srq,
			  struct ibv_srq_init_attr_ex *attr, void *command, size_t command_size,
			  void *response, size_t response_size)
{
	return create_srq(context, &srq->srq, response);
}

int ibv_cmd_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int attr_mask,
		       void *command, size_t command_size)
{
	return byte() == 0xff ? ENOMEM : 0;
}

int ibv_cmd_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, void *command,
		      size_t command_size)
{
	return 0;
}

int ibv_cmd_destroy_srq(struct ibv_srq *srq)
{
	int i;

	for (i = 0; i < QPS; i++)
		if (now.qps[i] && now.qps[i]->srq == srq)
			return EBUSY;
	wait_for_acknowledgement();
	return 0;
}

int ibv_dontfork_range(void *base, size_t size)
{
	return 0;
}

int ibv_dofork_range(void *base, size_t size)
{
	return 0;
}
