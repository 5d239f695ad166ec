/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* kick.c: shadow doorbell pages. */
#ifndef PIB_HCA_SHADOW_H
#define PIB_HCA_SHADOW_H

#include <linux/types.h>

struct page;
struct pib_hca_dev;

/* A UAR's shadow doorbell page. */
struct pib_hca_shadow {
	u32 uar;
	struct page *page;
	dma_addr_t dma;
	struct pib_hca_shadow_page *map; /* NULL: no such page; a doorbell is a store of the QPN */
};

/*
 * Makes the page of a UAR; 0 or a negative errno. Leaves `map` NULL if the device has no such pages
 * or DMA needs syncs.
 */
int pib_hca_shadow_init(struct pib_hca_dev *dev, struct pib_hca_shadow *shadow, u32 uar);
void pib_hca_shadow_cleanup(struct pib_hca_dev *dev, struct pib_hca_shadow *shadow);
/* Rings the doorbell of a kernel QP, after the caller has stored its sq_producer. */
void pib_hca_ring_send(struct pib_hca_dev *dev, u32 qpn);

#endif /* PIB_HCA_SHADOW_H */
