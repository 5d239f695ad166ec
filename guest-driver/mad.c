// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Management datagrams: the device answers for its own SMA and PMA, software for all other agents.
 * The core calls pib_hca_process_mad() for each MAD that arrives, or that is sent to this port
 * itself.
 */
#include <rdma/ib_mad.h>
#include <rdma/ib_smi.h>

#include "pib_hca.h"

/* The D bit in the status of a directed-route SMP: set in responses (IBA vol. 1, 14.2.1.2). */
#define PIB_HCA_SMP_RETURNING cpu_to_be16(0x8000)

static bool pib_hca_is_smp(const struct ib_mad_hdr *hdr)
{
	return hdr->mgmt_class == IB_MGMT_CLASS_SUBN_LID_ROUTED ||
	       hdr->mgmt_class == IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE;
}

/* True for requests to the SMA or PMA. Software handles replies, traps and SMInfo. */
static bool pib_hca_is_for_device(const struct ib_mad_hdr *hdr)
{
	if (!pib_hca_is_smp(hdr))
		return hdr->mgmt_class == IB_MGMT_CLASS_PERF_MGMT &&
		       (hdr->method == IB_MGMT_METHOD_GET || hdr->method == IB_MGMT_METHOD_SET);
	if (hdr->attr_id == IB_SMP_ATTR_SM_INFO)
		return false;
	return hdr->method == IB_MGMT_METHOD_GET || hdr->method == IB_MGMT_METHOD_SET ||
	       hdr->method == IB_MGMT_METHOD_TRAP_REPRESS;
}

static u8 pib_hca_mad_flags(int flags)
{
	return (flags & IB_MAD_IGNORE_MKEY ? PIB_HCA_MAD_IFC_IGNORE_MKEY : 0) |
	       (flags & IB_MAD_IGNORE_BKEY ? PIB_HCA_MAD_IFC_IGNORE_BKEY : 0);
}

static void pib_hca_mad_source(struct pib_hca_mad_ifc *in, const struct ib_wc *wc)
{
	in->slid = cpu_to_le16(be16_to_cpu(IB_LID_PERMISSIVE));
	if (!wc)
		return;
	in->src_qp = cpu_to_le32(wc->src_qp);
	in->slid = cpu_to_le16(ib_lid_cpu16(wc->slid));
	in->pkey_index = cpu_to_le16(wc->pkey_index);
	in->sl = wc->sl;
}

static int pib_hca_mad_ifc(struct pib_hca_dev *dev, u32 port, const struct pib_hca_mad_ifc *in,
			   struct ib_mad *out, u32 *result)
{
	struct pib_hca_cmd_args args = {
		.opcode = PIB_HCA_CMD_MAD_IFC,
		.object = port,
		.in = in,
		.in_length = sizeof(*in),
		.out = out,
		.out_length = sizeof(*out),
	};
	int ret = pib_hca_cmd(dev, &args);

	*result = args.result;
	return ret;
}

int pib_hca_process_mad(struct ib_device *ibdev, int flags, u32 port, const struct ib_wc *in_wc,
			const struct ib_grh *in_grh, const struct ib_mad *in, struct ib_mad *out,
			size_t *out_mad_size, u16 *out_mad_pkey_index)
{
	struct pib_hca_mad_ifc *ifc;
	u32 result;
	int ret;

	/* The result codes of the core and of the device are equal. */
	BUILD_BUG_ON(PIB_HCA_MAD_RESULT_SUCCESS != IB_MAD_RESULT_SUCCESS ||
		     PIB_HCA_MAD_RESULT_REPLY != IB_MAD_RESULT_REPLY ||
		     PIB_HCA_MAD_RESULT_CONSUMED != IB_MAD_RESULT_CONSUMED);
	BUILD_BUG_ON(sizeof(ifc->mad) != sizeof(*in));

	if (!pib_hca_is_for_device(&in->mad_hdr))
		return IB_MAD_RESULT_SUCCESS;
	ifc = kzalloc(sizeof(*ifc), GFP_KERNEL);
	if (!ifc)
		return IB_MAD_RESULT_FAILURE;
	memcpy(ifc->mad, in, sizeof(ifc->mad));
	ifc->flags = pib_hca_mad_flags(flags);
	pib_hca_mad_source(ifc, in_wc);
	ret = pib_hca_mad_ifc(to_pdev(ibdev), port, ifc, out, &result);
	kfree(ifc);
	if (ret)
		return IB_MAD_RESULT_FAILURE;
	if ((result & PIB_HCA_MAD_RESULT_REPLY) &&
	    in->mad_hdr.mgmt_class == IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE)
		out->mad_hdr.status |= PIB_HCA_SMP_RETURNING;
	return result & (IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY | IB_MAD_RESULT_CONSUMED);
}
