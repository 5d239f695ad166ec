// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Multicast groups (IBA vol. 1, 11.3): attaches and detaches the QPs that get a copy. */
#include "pib_hca.h"

static int pib_hca_mcast_cmd(struct ib_qp *ibqp, const union ib_gid *gid, u16 lid, u16 opcode)
{
	struct pib_hca_mcast in = { .mlid = cpu_to_le16(lid) };

	memcpy(in.mgid, gid->raw, sizeof(in.mgid));
	return pib_hca_cmd_set(to_pdev(ibqp->device), opcode, to_pqp(ibqp)->qpn, &in, sizeof(in));
}

int pib_hca_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	return pib_hca_mcast_cmd(ibqp, gid, lid, PIB_HCA_CMD_ATTACH_MCAST);
}

int pib_hca_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	int ret = pib_hca_mcast_cmd(ibqp, gid, lid, PIB_HCA_CMD_DETACH_MCAST);

	/* A dead device has forgotten all groups. */
	return pib_hca_is_dead(to_pdev(ibqp->device)) ? 0 : ret;
}
