// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Protection and XRC domains, and copying of the provider's data in and out of verbs. */
#include "pib_hca.h"

int pib_hca_udata_in(struct ib_udata *udata, void *req, size_t size)
{
	size_t given = min(udata->inlen, size);

	memset(req, 0, size);
	if (udata->inlen > size && !ib_is_udata_cleared(udata, size, udata->inlen - size))
		return -EOPNOTSUPP;
	return ib_copy_from_udata(req, udata, given);
}

int pib_hca_udata_out(struct ib_udata *udata, void *resp, size_t size)
{
	size_t wanted = min(udata->outlen, size);

	if (udata->outlen > size && clear_user(udata->outbuf + size, udata->outlen - size))
		return -EFAULT;
	return ib_copy_to_udata(udata, resp, wanted);
}

int pib_hca_udata_no_input(struct ib_udata *udata)
{
	if (!udata || !udata->inlen || ib_is_udata_cleared(udata, 0, udata->inlen))
		return 0;
	return -EOPNOTSUPP;
}

int pib_hca_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct pib_hca_dev *dev = to_pdev(ibpd->device);
	struct pib_hca_alloc_pd_resp resp = {};
	struct pib_hca_pd *pd = to_ppd(ibpd);
	int ret;

	ret = pib_hca_udata_no_input(udata);
	if (ret)
		return ret;
	ret = pib_hca_cmd_create(dev, PIB_HCA_CMD_ALLOC_PD, NULL, 0, &pd->pdn);
	if (ret || !udata)
		return ret;
	resp.pdn = pd->pdn;
	ret = pib_hca_udata_out(udata, &resp, sizeof(resp));
	if (ret)
		pib_hca_cmd_destroy(dev, PIB_HCA_CMD_FREE_PD, pd->pdn);
	return ret;
}

int pib_hca_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	pib_hca_cmd_destroy(to_pdev(ibpd->device), PIB_HCA_CMD_FREE_PD, to_ppd(ibpd)->pdn);
	return 0;
}

int pib_hca_alloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata)
{
	int ret = pib_hca_udata_no_input(udata);

	return ret ?: pib_hca_cmd_create(to_pdev(ibxrcd->device), PIB_HCA_CMD_ALLOC_XRCD, NULL, 0,
					 &to_pxrcd(ibxrcd)->xrcdn);
}

int pib_hca_dealloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata)
{
	pib_hca_cmd_destroy(to_pdev(ibxrcd->device), PIB_HCA_CMD_FREE_XRCD,
			    to_pxrcd(ibxrcd)->xrcdn);
	return 0;
}
