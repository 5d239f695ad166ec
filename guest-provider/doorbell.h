/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Stores to the UAR page. A QP's doorbell only names the QP: the counters are in the queue's
 * header, so the order of two doorbells of one QP does not matter.
 */
#ifndef __PIB_DOORBELL_H__
#define __PIB_DOORBELL_H__

#include <util/mmio.h>

#include "pib.h"

/*
 * A full barrier between a store to memory and a load of data that the device stores. Compilers use
 * a locked instruction, which on an emulated machine with one processor does not order accesses
 * with respect to the device's thread.
 */
static inline void pib_full_barrier(void)
{
#if defined(__x86_64__) || defined(__i386__)
	asm volatile("mfence" ::: "memory");
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

static inline void pib_shadow_set(__le64 *words, uint32_t bit)
{
	atomic_fetch_or_explicit((_Atomic(uint64_t) *)&words[bit / 64],
				 htole64(UINT64_C(1) << (bit % 64)), memory_order_seq_cst);
}

static inline bool pib_shadow_has(__le64 *words, uint32_t bit)
{
	uint64_t word = atomic_load_explicit((_Atomic(uint64_t) *)&words[bit / 64],
					     memory_order_relaxed);

	return le64toh(word) >> (bit % 64) & 1;
}

/*
 * Returns whether the device needs a kick to see the QP's new counter, which has been stored. A
 * poster that has set a bit of `rung` may be stopped or killed before it sets the bit of `summary`,
 * so a poster that finds the first bit set also sets the second. On an emulated machine with
 * one processor (see above), an atomic operation on `rung` may restore bits that the device clears
 * meanwhile; the later store to `summary` makes up for that.
 */
static inline bool pib_shadow_needs_kick(struct pib_hca_shadow_page *shadow, uint32_t qpn)
{
	uint32_t slot = qpn % (PIB_HCA_SHADOW_WORDS * 64);

	pib_full_barrier();
	if (!pib_shadow_has(shadow->rung, slot)) {
		pib_shadow_set(shadow->rung, slot);
		/* The device reads rung[] after it has seen the summary. */
		udma_to_device_barrier();
		pib_shadow_set(&shadow->summary, slot / 64);
	} else if (!pib_shadow_has(&shadow->summary, slot / 64)) {
		pib_shadow_set(&shadow->summary, slot / 64);
	}
	pib_full_barrier();
	return !pib_shadow_has(&shadow->flags, 0); /* PIB_HCA_SHADOW_AWAKE */
}

static inline void pib_ring_send(struct pib_context *ctx, uint32_t qpn)
{
	if (!ctx->shadow)
		mmio_write32(ctx->uar + PIB_HCA_UAR_SEND, qpn);
	else if (pib_shadow_needs_kick(ctx->shadow, qpn))
		mmio_write32(ctx->uar + PIB_HCA_UAR_KICK, 0);
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
