// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory windows (IBA vol. 1, 10.6.7 and 11.2.8.8): allocated here, bound by work requests of the
 * process.
 */
#include "pib_hca.h"

int pib_hca_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata)
{
	struct pib_hca_dev *dev = to_pdev(ibmw->device);
	struct pib_hca_alloc_mw in = {
		.pd = cpu_to_le32(to_ppd(ibmw->pd)->pdn),
		/* Verbs and the device use the same values: see abi_check.c. */
		.type = ibmw->type,
		.key = pib_hca_new_key_byte(),
	};
	int ret;

	ret = pib_hca_udata_no_input(udata);
	if (ret)
		return ret;
	ret = pib_hca_cmd_create(dev, PIB_HCA_CMD_ALLOC_MW, &in, sizeof(in), &ibmw->rkey);
	if (!ret)
		pib_hca_debugfs_key_add(dev, ibmw->rkey, ibmw);
	return ret;
}

int pib_hca_dealloc_mw(struct ib_mw *ibmw)
{
	struct pib_hca_dev *dev = to_pdev(ibmw->device);

	pib_hca_debugfs_key_remove(dev, ibmw->rkey, ibmw);
	pib_hca_cmd_destroy(dev, PIB_HCA_CMD_DEALLOC_MW, ibmw->rkey);
	return 0;
}
