// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The device's view of an object, added to the core's in `rdma -dd resource show …`. */
#include <net/netlink.h>
#include <rdma/rdma_netlink.h>
#include <rdma/restrack.h>

#include "pib_hca.h"

struct pib_hca_detail {
	const char *name;
	u64 value;
	bool hex;
};

static int pib_hca_put_details(struct sk_buff *msg, const struct pib_hca_detail *details, u32 count)
{
	struct nlattr *table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	const struct pib_hca_detail *d;
	int ret;

	if (!table)
		return -EMSGSIZE;
	for (d = details; d < details + count; d++) {
		ret = d->hex ? rdma_nl_put_driver_u64_hex(msg, d->name, d->value) :
			       rdma_nl_put_driver_u64(msg, d->name, d->value);
		if (ret) {
			nla_nest_cancel(msg, table);
			return -EMSGSIZE;
		}
	}
	nla_nest_end(msg, table);
	return 0;
}

/* An object that the device does not know any more has no details, and that is not an error. */
int pib_hca_fill_res_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr)
{
	struct pib_hca_query_key key;

	if (pib_hca_cmd_query(to_pdev(ibmr->device), PIB_HCA_CMD_QUERY_KEY, ibmr->lkey, &key,
			      sizeof(key)))
		return 0;
	return pib_hca_put_details(msg, (const struct pib_hca_detail[]) {
		{ "kind", key.kind },
		{ "valid", key.valid },
		{ "access", le32_to_cpu(key.access), true },
		{ "device_pd", le32_to_cpu(key.pd) },
	}, 4);
}

int pib_hca_fill_res_cq_entry(struct sk_buff *msg, struct ib_cq *ibcq)
{
	u32 cqn = to_pcq(ibcq)->cqn;
	struct pib_hca_query_cq cq;

	if (pib_hca_cmd_query(to_pdev(ibcq->device), PIB_HCA_CMD_QUERY_CQ, cqn, &cq, sizeof(cq)))
		return 0;
	return pib_hca_put_details(msg, (const struct pib_hca_detail[]) {
		{ "device_cqn", cqn },
		{ "eqn", le32_to_cpu(cq.eqn) },
		{ "uar", le32_to_cpu(cq.uar) },
		{ "producer", le32_to_cpu(cq.producer) },
		{ "armed", cq.armed },
		{ "error", cq.error },
	}, 6);
}

int pib_hca_fill_res_qp_entry(struct sk_buff *msg, struct ib_qp *ibqp)
{
	u32 qpn = to_pqp(ibqp)->qpn;
	struct pib_hca_query_qp_progress qp;

	if (pib_hca_cmd_query(to_pdev(ibqp->device), PIB_HCA_CMD_QUERY_QP_PROGRESS, qpn, &qp,
			      sizeof(qp)))
		return 0;
	return pib_hca_put_details(msg, (const struct pib_hca_detail[]) {
		{ "device_qpn", qpn },
		{ "sq_producer", le32_to_cpu(qp.sq_producer) },
		{ "sq_consumer", le32_to_cpu(qp.sq_consumer) },
		{ "rq_producer", le32_to_cpu(qp.rq_producer) },
		{ "rq_consumer", le32_to_cpu(qp.rq_consumer) },
		{ "in_window", le32_to_cpu(qp.in_window) },
		{ "una", le32_to_cpu(qp.una), true },
		{ "next_psn", le32_to_cpu(qp.next_psn), true },
		{ "expected_psn", le32_to_cpu(qp.expected_psn), true },
		{ "retries_left", qp.retries_left },
	}, 10);
}

int pib_hca_fill_res_srq_entry(struct sk_buff *msg, struct ib_srq *ibsrq)
{
	u32 srqn = to_psrq(ibsrq)->srqn;
	struct pib_hca_query_srq srq;

	if (pib_hca_cmd_query(to_pdev(ibsrq->device), PIB_HCA_CMD_QUERY_SRQ, srqn, &srq,
			      sizeof(srq)))
		return 0;
	return pib_hca_put_details(msg, (const struct pib_hca_detail[]) {
		{ "device_srqn", srqn },
		{ "limit", le32_to_cpu(srq.limit) },
		{ "waiting", le32_to_cpu(srq.waiting) },
		{ "error", srq.is_error },
	}, 4);
}
