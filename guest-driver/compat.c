// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Verbs whose type differs between kernels; see compat.h. */
#include "pib_hca.h"

#ifdef PIB_HCA_HAS_CREATE_CQ_ATTRS
static int pib_hca_compat_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
				    struct uverbs_attr_bundle *attrs)
{
	return pib_hca_create_cq(ibcq, attr, attrs ? &attrs->driver_udata : NULL);
}
#else
#define pib_hca_compat_create_cq pib_hca_create_cq
#endif

#ifndef PIB_HCA_HAS_RESIZE_USER_CQ
static int pib_hca_compat_resize_cq(struct ib_cq *ibcq, int entries, struct ib_udata *udata)
{
	return entries < 0 ? -EINVAL : pib_hca_resize_cq(ibcq, entries, udata);
}
#endif

#ifdef PIB_HCA_HAS_REG_MR_DMAH
static struct ib_mr *pib_hca_compat_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length,
						u64 iova, int access, struct ib_dmah *dmah,
						struct ib_udata *udata)
{
	return dmah ? ERR_PTR(-EOPNOTSUPP) :
		      pib_hca_reg_mr(ibpd, start, length, iova, access, udata);
}
#else
#define pib_hca_compat_reg_user_mr pib_hca_reg_mr
#endif

#if defined(PIB_HCA_HAS_REG_MR_DMAH)
static struct ib_mr *pib_hca_compat_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length,
						       u64 iova, int fd, int access,
						       struct ib_dmah *dmah,
						       struct uverbs_attr_bundle *attrs)
{
	return dmah ? ERR_PTR(-EOPNOTSUPP) :
		      pib_hca_reg_dmabuf(ibpd, offset, length, iova, fd, access,
					 &attrs->driver_udata);
}
#elif defined(PIB_HCA_HAS_REG_DMABUF_ATTRS)
static struct ib_mr *pib_hca_compat_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length,
						       u64 iova, int fd, int access,
						       struct uverbs_attr_bundle *attrs)
{
	return pib_hca_reg_dmabuf(ibpd, offset, length, iova, fd, access, &attrs->driver_udata);
}
#else
#define pib_hca_compat_reg_user_mr_dmabuf pib_hca_reg_dmabuf
#endif

const struct ib_device_ops pib_hca_compat_ops = {
	.create_cq = pib_hca_compat_create_cq,
#ifdef PIB_HCA_HAS_CREATE_USER_CQ
	.create_user_cq = pib_hca_compat_create_cq,
#endif
#ifdef PIB_HCA_HAS_FILL_RES_SRQ
	.fill_res_srq_entry = pib_hca_fill_res_srq_entry,
#endif
	.reg_user_mr = pib_hca_compat_reg_user_mr,
	.reg_user_mr_dmabuf = pib_hca_compat_reg_user_mr_dmabuf,
#ifdef PIB_HCA_HAS_RESIZE_USER_CQ
	.resize_user_cq = pib_hca_resize_cq,
#else
	.resize_cq = pib_hca_compat_resize_cq,
#endif
};
