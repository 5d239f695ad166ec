// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * MODIFY_QP and QUERY_QP (IBA vol. 1, 11.2.4.2 and 11.2.4.3). ib_modify_qp_is_ok() checks which
 * attributes a transition has; the device checks their values.
 */
#include "pib_hca.h"

static void pib_hca_paths_from_attr(struct pib_hca_modify_qp *in, const struct ib_qp_attr *attr,
				    int mask)
{
	if (mask & IB_QP_AV)
		pib_hca_av_from_attr(&in->av, &attr->ah_attr, 0);
	if (mask & IB_QP_ALT_PATH) {
		pib_hca_av_from_attr(&in->alt_av, &attr->alt_ah_attr, 0);
		in->alt_port = attr->alt_port_num;
		in->alt_timeout = attr->alt_timeout;
		in->alt_pkey_index = cpu_to_le16(attr->alt_pkey_index);
	}
}

/* All fields are written; the device reads only those that the mask names. */
static void pib_hca_modify_from_attr(struct pib_hca_modify_qp *in, const struct ib_qp_attr *attr,
				     int mask)
{
	/* Verbs and the device use the same values: see abi_check.c. */
	*in = (struct pib_hca_modify_qp) {
		.attr_mask = cpu_to_le32(mask),
		.state = attr->qp_state,
		.cur_state = attr->cur_qp_state,
		.path_mtu = attr->path_mtu,
		.path_mig_state = attr->path_mig_state,
		.qkey = cpu_to_le32(attr->qkey),
		.rq_psn = cpu_to_le32(attr->rq_psn),
		.sq_psn = cpu_to_le32(attr->sq_psn),
		.dest_qpn = cpu_to_le32(attr->dest_qp_num),
		/* Leave out hints about registrations, which mean nothing for a QP. */
		.access_flags = cpu_to_le32(attr->qp_access_flags &
					    ~(PIB_HCA_ACCESS_HINTS | IB_ACCESS_ON_DEMAND)),
		.pkey_index = cpu_to_le16(attr->pkey_index),
		.port = attr->port_num,
		.timeout = attr->timeout,
		.retry_cnt = attr->retry_cnt,
		.rnr_retry = attr->rnr_retry,
		.min_rnr_timer = attr->min_rnr_timer,
		.max_rd_atomic = attr->max_rd_atomic,
		.max_dest_rd_atomic = attr->max_dest_rd_atomic,
		.en_sqd_async_notify = attr->en_sqd_async_notify,
	};
	pib_hca_paths_from_attr(in, attr, mask);
}

/*
 * Returns whether a transition may fail on a dead device. A transition to Reset or Error always
 * succeeds: the QPs of a dead device are inactive.
 */
static bool pib_hca_may_fail(enum ib_qp_state new_state)
{
	return new_state != IB_QPS_RESET && new_state != IB_QPS_ERR;
}

static int pib_hca_modify_locked(struct pib_hca_dev *dev, struct pib_hca_qp *qp,
				 const struct ib_qp_attr *attr, int mask)
{
	enum ib_qp_state cur_state = mask & IB_QP_CUR_STATE ? attr->cur_qp_state : qp->state;
	enum ib_qp_state new_state = mask & IB_QP_STATE ? attr->qp_state : cur_state;
	struct pib_hca_modify_qp in;
	int ret;

	if (!ib_modify_qp_is_ok(cur_state, new_state, qp->ibqp.qp_type, mask))
		return -EINVAL;
	pib_hca_modify_from_attr(&in, attr, mask);
	ret = pib_hca_cmd_set(dev, PIB_HCA_CMD_MODIFY_QP, qp->qpn, &in, sizeof(in));
	if (ret && (!pib_hca_is_dead(dev) || pib_hca_may_fail(new_state)))
		return ret;
	WRITE_ONCE(qp->state, new_state);
	if (new_state == IB_QPS_RESET)
		WRITE_ONCE(qp->last_wqe_told, false);
	if (new_state == IB_QPS_RESET && !qp->user)
		pib_hca_cq_reset_qp(qp);
	if (ret && new_state == IB_QPS_ERR && qp->ibqp.srq) {
		pib_hca_wait_quiet(dev);
		pib_hca_tell_last_wqe(qp);
	}
	return 0;
}

int pib_hca_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int attr_mask,
		      struct ib_udata *udata)
{
	struct pib_hca_qp *qp = to_pqp(ibqp);
	int ret;

	if (attr_mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	ret = pib_hca_udata_no_input(udata);
	if (ret)
		return ret;
	mutex_lock(&qp->mutex);
	ret = pib_hca_modify_locked(to_pdev(ibqp->device), qp, attr, attr_mask);
	mutex_unlock(&qp->mutex);
	return ret;
}

/* ---------------------------------------------------------------- query ---------------------- */

static void pib_hca_attr_from_query(struct ib_qp_attr *attr, const struct pib_hca_modify_qp *out)
{
	attr->qp_state = out->state;
	attr->cur_qp_state = out->cur_state;
	attr->path_mtu = out->path_mtu;
	attr->path_mig_state = out->path_mig_state;
	attr->qkey = le32_to_cpu(out->qkey);
	attr->rq_psn = le32_to_cpu(out->rq_psn);
	attr->sq_psn = le32_to_cpu(out->sq_psn);
	attr->dest_qp_num = le32_to_cpu(out->dest_qpn);
	attr->qp_access_flags = le32_to_cpu(out->access_flags);
	attr->pkey_index = le16_to_cpu(out->pkey_index);
	attr->alt_pkey_index = le16_to_cpu(out->alt_pkey_index);
	attr->port_num = out->port;
	attr->alt_port_num = out->alt_port;
	attr->timeout = out->timeout;
	attr->alt_timeout = out->alt_timeout;
	attr->retry_cnt = out->retry_cnt;
	attr->rnr_retry = out->rnr_retry;
	attr->min_rnr_timer = out->min_rnr_timer;
	attr->max_rd_atomic = out->max_rd_atomic;
	attr->max_dest_rd_atomic = out->max_dest_rd_atomic;
	attr->en_sqd_async_notify = out->en_sqd_async_notify;
	attr->sq_draining = out->sq_draining;
}

static void pib_hca_init_attr_from_qp(struct ib_qp_init_attr *init_attr,
				      const struct pib_hca_qp *qp)
{
	init_attr->event_handler = qp->ibqp.event_handler;
	init_attr->qp_context = qp->ibqp.qp_context;
	init_attr->send_cq = qp->ibqp.send_cq;
	init_attr->recv_cq = qp->ibqp.recv_cq;
	init_attr->srq = qp->ibqp.srq;
	init_attr->sq_sig_type = qp->signal_all ? IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR;
	init_attr->qp_type = qp->ibqp.qp_type;
	init_attr->port_num = qp->port;
	pib_hca_qp_cap(qp, &init_attr->cap);
}

int pib_hca_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int attr_mask,
		     struct ib_qp_init_attr *init_attr)
{
	struct pib_hca_dev *dev = to_pdev(ibqp->device);
	struct pib_hca_qp *qp = to_pqp(ibqp);
	struct pib_hca_modify_qp out;
	int ret;

	mutex_lock(&qp->mutex);
	ret = pib_hca_cmd_query(dev, PIB_HCA_CMD_QUERY_QP, qp->qpn, &out, sizeof(out));
	/* ib_modify_qp_is_ok() has a table of states and does not check its index. */
	if (!ret && (out.state > IB_QPS_ERR || out.cur_state > IB_QPS_ERR))
		ret = -EIO;
	if (!ret) /* the device may have moved the QP to an error state */
		WRITE_ONCE(qp->state, out.state);
	mutex_unlock(&qp->mutex);
	if (ret)
		return ret;

	memset(attr, 0, sizeof(*attr));
	memset(init_attr, 0, sizeof(*init_attr));
	pib_hca_attr_from_query(attr, &out);
	pib_hca_qp_cap(qp, &attr->cap);
	/* Datagram QPs have an address in each work request instead. */
	if (!pib_hca_qp_is_datagram(ibqp->qp_type)) {
		pib_hca_av_to_attr(&out.av, &attr->ah_attr, out.port);
		pib_hca_av_to_attr(&out.alt_av, &attr->alt_ah_attr, out.alt_port);
	}
	pib_hca_init_attr_from_qp(init_attr, qp);
	return 0;
}
