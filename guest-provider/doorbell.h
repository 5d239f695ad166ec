/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Stores into the UAR page. A doorbell says only which object moved; counters lie in the
 * queue's header, so a lost race between two doorbells of one queue loses nothing.
 */
#ifndef __PIB_DOORBELL_H__
#define __PIB_DOORBELL_H__

#include <util/mmio.h>

#include "pib.h"

static inline void pib_ring_send(struct pib_context *ctx, uint32_t qpn)
{
	mmio_write32(ctx->uar + PIB_HCA_UAR_SEND, qpn);
}

static inline void pib_ring_recv(struct pib_context *ctx, uint32_t qpn)
{
	mmio_write32(ctx->uar + PIB_HCA_UAR_RECV, qpn);
}

static inline void pib_ring_cq_arm(struct pib_context *ctx, uint32_t cqn,
				   uint32_t consumer, bool solicited_only)
{
	uint64_t value = (uint64_t)consumer << PIB_HCA_DB_COUNTER_SHIFT | cqn;

	if (solicited_only)
		value |= PIB_HCA_DB_CQ_SOLICITED;
	mmio_write64(ctx->uar + PIB_HCA_UAR_CQ_ARM, value);
}

#endif /* __PIB_DOORBELL_H__ */
