// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Shadow doorbell pages. On devices that have them, a send queue's doorbell is a bit in a page of
 * memory and a kick, which is a store without a value that a hypervisor can take without stopping
 * this processor. The kick is omitted while the device's awake flag is set. docs/device-spec.md,
 * "Kicks", defines the order of the accesses.
 */
#include <linux/dma-mapping.h>

#include "pib_hca.h"

#define PIB_HCA_SHADOW_SLOTS (PIB_HCA_SHADOW_WORDS * 64)

int pib_hca_shadow_init(struct pib_hca_dev *dev, struct pib_hca_shadow *shadow, u32 uar)
{
	struct device *dma_dev = &dev->pdev->dev;
	struct pib_hca_set_shadow_page in;
	int ret;

	*shadow = (struct pib_hca_shadow){ .uar = uar };
	if (!(le64_to_cpu(dev->caps.feature_flags) & PIB_HCA_FEATURE_SHADOW_DOORBELLS))
		return 0;
	/* Driver and device use the page without syncs, so a UAR has none if DMA needs syncs. */
	if (dev->dma_needs_sync)
		return 0;
	/* The process is charged for the page, because each of its contexts has one. */
	shadow->page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!shadow->page)
		return -ENOMEM;
	shadow->dma = dma_map_page(dma_dev, shadow->page, 0, PAGE_SIZE, DMA_BIDIRECTIONAL);
	ret = dma_mapping_error(dma_dev, shadow->dma);
	if (ret)
		goto err_page;
	in.addr = cpu_to_le64(shadow->dma);
	ret = pib_hca_cmd_set(dev, PIB_HCA_CMD_SET_SHADOW_PAGE, uar, &in, sizeof(in));
	if (ret)
		goto err_map;
	shadow->map = page_address(shadow->page);
	return 0;

err_map:
	dma_unmap_page(dma_dev, shadow->dma, PAGE_SIZE, DMA_BIDIRECTIONAL);
err_page:
	put_page(shadow->page);
	shadow->page = NULL;
	return ret;
}

/* The page lives on while a process maps it, but the device no longer reads it. */
void pib_hca_shadow_cleanup(struct pib_hca_dev *dev, struct pib_hca_shadow *shadow)
{
	struct pib_hca_set_shadow_page in = {};

	if (!shadow->map)
		return;
	shadow->map = NULL;
	if (pib_hca_cmd_set(dev, PIB_HCA_CMD_SET_SHADOW_PAGE, shadow->uar, &in, sizeof(in)))
		pib_hca_give_up(dev, "a shadow doorbell page cannot be taken back");
	dma_unmap_page(&dev->pdev->dev, shadow->dma, PAGE_SIZE, DMA_BIDIRECTIONAL);
	put_page(shadow->page);
	shadow->page = NULL;
}

/*
 * A uniprocessor kernel omits the lock prefix of its atomic operations, but the device is another
 * processor: set_bit_le() may restore a bit that the device clears meanwhile. Therefore this
 * function sets the summary after each such store, requests a kick unless the device is awake,
 * whatever the bit was before, and uses the barriers for devices.
 */
static bool pib_hca_shadow_needs_kick(struct pib_hca_shadow_page *map, u32 qpn)
{
	u32 slot = qpn % PIB_HCA_SHADOW_SLOTS;
	__le64 bit = cpu_to_le64(BIT_ULL(slot % 64));
	__le64 summary_bit = cpu_to_le64(BIT_ULL(slot / 64));

	mb(); /* store the QP's producer before the bit */
	if (!(READ_ONCE(map->rung[slot / 64]) & bit)) {
		set_bit_le(slot, map->rung);
		dma_wmb(); /* the device reads rung[] after it has seen the summary */
		set_bit_le(slot / 64, &map->summary);
	} else if (!(READ_ONCE(map->summary) & summary_bit)) {
		/* The poster that has set the bit may be preempted here: set the summary for it. */
		set_bit_le(slot / 64, &map->summary);
	}
	/*
	 * The device clears AWAKE and then reads the summary: at least one side sees the store of
	 * the other side.
	 */
	mb();
	return !(le64_to_cpu(READ_ONCE(map->flags)) & PIB_HCA_SHADOW_AWAKE);
}

void pib_hca_ring_send(struct pib_hca_dev *dev, u32 qpn)
{
	struct pib_hca_shadow_page *map = dev->shadow.map;

	if (!map)
		writel(qpn, dev->uar0 + PIB_HCA_UAR_SEND);
	else if (pib_hca_shadow_needs_kick(map, qpn))
		writel(0, dev->uar0 + PIB_HCA_UAR_KICK);
}
