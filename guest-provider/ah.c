// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * An address handle (IBA vol. 1, 11.2.2.1) is an address vector that is copied into each UD
 * WQE. The kernel never sees address handles, so this file checks their attributes.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pib.h"

#define PIB_MAX_SL 15
#define PIB_MAX_FLOW_LABEL 0xfffff

/*
 * The length of a GID table is fixed while the device lives, so one query for each port and context
 * suffices.
 */
static unsigned int pib_gid_table_length(struct pib_context *ctx, uint8_t port)
{
	unsigned int length = atomic_load_explicit(&ctx->gid_table_length[port],
						   memory_order_relaxed);
	struct ibv_query_port cmd;
	struct ibv_port_attr attr;

	if (length)
		return length;
	if (ibv_cmd_query_port(&ctx->ibv_ctx.context, port, &attr, &cmd, sizeof(cmd)))
		return 0;
	atomic_store_explicit(&ctx->gid_table_length[port], attr.gid_tbl_len,
			      memory_order_relaxed);
	return attr.gid_tbl_len;
}

static bool pib_ah_attr_valid(struct pib_context *ctx, const struct ibv_ah_attr *attr)
{
	if (attr->port_num < 1 || attr->port_num > ctx->port_count)
		return false;
	if (attr->sl > PIB_MAX_SL)
		return false;
	if (attr->static_rate && ibv_rate_to_mbps(attr->static_rate) < 0)
		return false;
	if (!attr->is_global)
		return true;
	return attr->grh.flow_label <= PIB_MAX_FLOW_LABEL &&
	       attr->grh.sgid_index < pib_gid_table_length(ctx, attr->port_num);
}

static void pib_fill_av(struct pib_hca_av *av, const struct ibv_ah_attr *attr)
{
	memset(av, 0, sizeof(*av));
	av->dlid = htole16(attr->dlid);
	av->sl = attr->sl;
	av->port = attr->port_num;
	av->src_path_bits = attr->src_path_bits;
	av->static_rate = attr->static_rate;
	if (!attr->is_global)
		return;
	av->flags = PIB_HCA_AV_GRH;
	av->sgid_index = attr->grh.sgid_index;
	av->flow_label = htole32(attr->grh.flow_label);
	av->traffic_class = attr->grh.traffic_class;
	av->hop_limit = attr->grh.hop_limit;
	memcpy(av->dgid, attr->grh.dgid.raw, sizeof(av->dgid));
}

struct ibv_ah *pib_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct pib_ah *ah;

	if (!pib_ah_attr_valid(to_pctx(pd->context), attr)) {
		errno = EINVAL;
		return NULL;
	}
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return NULL;
	pib_fill_av(&ah->av, attr);
	return &ah->ibv_ah;
}

int pib_destroy_ah(struct ibv_ah *ah)
{
	free(to_pah(ah));
	return 0;
}
