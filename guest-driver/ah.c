// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Address handles (IBA vol. 1, 11.2.2). The device has none: the driver copies an address vector
 * into each datagram's WQE, so nothing here sends a command or sleeps.
 */
#include "pib_hca.h"

void pib_hca_av_from_attr(struct pib_hca_av *av, const struct rdma_ah_attr *attr, u8 port)
{
	const struct ib_global_route *grh;

	*av = (struct pib_hca_av) {
		.dlid = cpu_to_le16(rdma_ah_get_dlid(attr)),
		.sl = rdma_ah_get_sl(attr),
		.port = port,
		.src_path_bits = rdma_ah_get_path_bits(attr),
		.static_rate = rdma_ah_get_static_rate(attr),
	};
	if (!(rdma_ah_get_ah_flags(attr) & IB_AH_GRH))
		return;
	grh = rdma_ah_read_grh(attr);
	av->flags = PIB_HCA_AV_GRH;
	av->sgid_index = grh->sgid_index;
	av->flow_label = cpu_to_le32(grh->flow_label & 0xfffff);
	av->traffic_class = grh->traffic_class;
	av->hop_limit = grh->hop_limit;
	memcpy(av->dgid, grh->dgid.raw, sizeof(av->dgid));
}

void pib_hca_av_to_attr(const struct pib_hca_av *av, struct rdma_ah_attr *attr, u8 port)
{
	union ib_gid dgid;

	memset(attr, 0, sizeof(*attr));
	attr->type = RDMA_AH_ATTR_TYPE_IB;
	rdma_ah_set_dlid(attr, le16_to_cpu(av->dlid));
	rdma_ah_set_sl(attr, av->sl);
	rdma_ah_set_port_num(attr, port);
	rdma_ah_set_path_bits(attr, av->src_path_bits);
	rdma_ah_set_static_rate(attr, av->static_rate);
	if (!(av->flags & PIB_HCA_AV_GRH))
		return;
	memcpy(dgid.raw, av->dgid, sizeof(dgid.raw));
	rdma_ah_set_grh(attr, &dgid, le32_to_cpu(av->flow_label), av->sgid_index, av->hop_limit,
			av->traffic_class);
}

int pib_hca_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init_attr,
		      struct ib_udata *udata)
{
	struct rdma_ah_attr *attr = init_attr->ah_attr;

	if (attr->type != RDMA_AH_ATTR_TYPE_IB)
		return -EOPNOTSUPP;
	pib_hca_av_from_attr(&to_pah(ibah)->av, attr, rdma_ah_get_port_num(attr));
	return pib_hca_udata_no_input(udata);
}

int pib_hca_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr)
{
	const struct pib_hca_av *av = &to_pah(ibah)->av;

	pib_hca_av_to_attr(av, attr, av->port);
	return 0;
}

int pib_hca_destroy_ah(struct ib_ah *ibah, u32 flags)
{
	return 0;
}
