// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The lowest layer of the driver: BARs, reset and version. The sequence is that of
 * docs/device-spec.md, "Reset and bring-up".
 */
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/iopoll.h>

#include "pib_hca.h"

#define PIB_HCA_RESET_TIMEOUT_US (10 * USEC_PER_SEC)

int pib_hca_reset(struct pib_hca_dev *dev)
{
	u32 status;
	int ret;

	pib_hca_write(dev, PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_RESET);
	ret = readl_poll_timeout(dev->regs + PIB_HCA_REG_STATUS, status, status == 0, 1000,
				 PIB_HCA_RESET_TIMEOUT_US);
	if (ret)
		dev_err(&dev->pdev->dev, "reset does not end, status %#x\n", status);
	return ret;
}

static int pib_hca_check_version(struct pib_hca_dev *dev)
{
	u32 version = pib_hca_read(dev, PIB_HCA_REG_VERSION);

	if (version >> 16 == PIB_HCA_INTERFACE_MAJOR)
		return 0;
	dev_err(&dev->pdev->dev, "device has interface %u.%u, driver needs %u: update the older one\n",
		version >> 16, version & 0xffff, PIB_HCA_INTERFACE_MAJOR);
	return -ENODEV;
}

static int pib_hca_map_bars(struct pib_hca_dev *dev)
{
	struct pci_dev *pdev = dev->pdev;

	if (pci_resource_len(pdev, PIB_HCA_BAR_REGS) < PIB_HCA_BAR_REGS_SIZE ||
	    pci_resource_len(pdev, PIB_HCA_BAR_UAR) < PIB_HCA_UAR_PAGE_SIZE) {
		dev_err(&pdev->dev, "BARs are missing or too small: boot with pci=realloc, or update QEMU's device\n");
		return -ENODEV;
	}
	dev->regs = pci_ioremap_bar(pdev, PIB_HCA_BAR_REGS);
	if (!dev->regs)
		return -ENOMEM;
	dev->uar_base = pci_resource_start(pdev, PIB_HCA_BAR_UAR);
	dev->uar0 = ioremap(dev->uar_base, PIB_HCA_UAR_PAGE_SIZE);
	if (!dev->uar0) {
		iounmap(dev->regs);
		return -ENOMEM;
	}
	return 0;
}

static int pib_hca_enable_pci(struct pib_hca_dev *dev)
{
	struct pci_dev *pdev = dev->pdev;
	int ret;

	/* A mapping of a larger page would expose other processes' UARs. */
	if (PAGE_SIZE != PIB_HCA_UAR_PAGE_SIZE) {
		dev_err(&pdev->dev, "page size %lu is not supported: boot a kernel with 4096\n",
			PAGE_SIZE);
		return -EOPNOTSUPP;
	}
	ret = pci_enable_device(pdev);
	if (ret)
		return ret;
	ret = pci_request_regions(pdev, PIB_HCA_NAME);
	if (ret)
		goto err_disable;
	ret = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (ret)
		goto err_regions;
	/* A segment must not exceed the 32-bit length of an SGE. */
	dma_set_max_seg_size(&pdev->dev, UINT_MAX);
	ret = pib_hca_map_bars(dev);
	if (ret)
		goto err_regions;
	return 0;

err_regions:
	pci_release_regions(pdev);
err_disable:
	pci_disable_device(pdev);
	return ret;
}

static void pib_hca_disable_pci(struct pib_hca_dev *dev)
{
	iounmap(dev->uar0);
	iounmap(dev->regs);
	pci_release_regions(dev->pdev);
	pci_disable_device(dev->pdev);
}

/*
 * Finds out whether streaming mappings need a sync at each use, as they do if DMA goes through
 * bounce buffers (swiotlb=force, encrypted guests) or caches are not coherent. The driver never
 * syncs memory that a process shares with the device.
 */
static int pib_hca_probe_streaming_dma(struct pib_hca_dev *dev)
{
	struct device *dma_dev = &dev->pdev->dev;
	struct page *page = alloc_page(GFP_KERNEL);
	dma_addr_t dma;
	int ret;

	if (!page)
		return -ENOMEM;
	dma = dma_map_page(dma_dev, page, 0, PAGE_SIZE, DMA_BIDIRECTIONAL);
	ret = dma_mapping_error(dma_dev, dma);
	if (!ret) {
		dev->dma_needs_sync = pib_hca_compat_dma_need_sync(dev->pdev, dma);
		dma_unmap_page(dma_dev, dma, PAGE_SIZE, DMA_BIDIRECTIONAL);
	}
	__free_page(page);
	return ret;
}

int pib_hca_hw_init(struct pib_hca_dev *dev)
{
	int ret;

	ret = pib_hca_enable_pci(dev);
	if (ret)
		return ret;
	/* The device may write to a previous kernel's memory until it is reset. */
	ret = pib_hca_check_version(dev);
	if (!ret)
		ret = pib_hca_reset(dev);
	if (!ret)
		ret = pib_hca_probe_streaming_dma(dev);
	if (ret) {
		pib_hca_disable_pci(dev);
		return ret;
	}
	pci_set_master(dev->pdev);
	pci_save_state(dev->pdev); /* for the recovery from a PCI error that resets the slot */
	return 0;
}

void pib_hca_hw_cleanup(struct pib_hca_dev *dev)
{
	pci_clear_master(dev->pdev);
	pib_hca_disable_pci(dev);
}
