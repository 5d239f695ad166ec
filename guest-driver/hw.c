// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The device below its commands: BARs, reset, version, and giving it up for good. The sequence is
 * that of docs/device-spec.md, "Reset and bring-up".
 */
#include <linux/delay.h>
#include <linux/iopoll.h>

#include "pib_hca.h"

#define PIB_HCA_RESET_TIMEOUT_US (10 * USEC_PER_SEC)
#define PIB_HCA_ALL_ONES (~0U) /* what a load from a device that is gone returns */

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
	dev_err(&dev->pdev->dev, "device has interface %u.%u, driver needs %u\n", version >> 16,
		version & 0xffff, PIB_HCA_INTERFACE_MAJOR);
	return -ENODEV;
}

static int pib_hca_map_bars(struct pib_hca_dev *dev)
{
	struct pci_dev *pdev = dev->pdev;

	if (pci_resource_len(pdev, PIB_HCA_BAR_REGS) < PIB_HCA_BAR_REGS_SIZE ||
	    pci_resource_len(pdev, PIB_HCA_BAR_UAR) < PIB_HCA_UAR_PAGE_SIZE) {
		dev_err(&pdev->dev, "BARs are missing or too small\n");
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

	/* A mapping of a larger page would show a process the UARs of its neighbours. */
	if (PAGE_SIZE != PIB_HCA_UAR_PAGE_SIZE) {
		dev_err(&pdev->dev, "needs a kernel with pages of 4 KiB\n");
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
	/* Segments are as long as an SGE's or a page list's length field lets them be. */
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

int pib_hca_hw_init(struct pib_hca_dev *dev)
{
	int ret;

	ret = pib_hca_enable_pci(dev);
	if (ret)
		return ret;
	/* Before the reset the device may still write where another kernel told it to. */
	ret = pib_hca_check_version(dev);
	if (!ret)
		ret = pib_hca_reset(dev);
	if (ret) {
		pib_hca_disable_pci(dev);
		return ret;
	}
	pci_set_master(dev->pdev);
	return 0;
}

void pib_hca_hw_cleanup(struct pib_hca_dev *dev)
{
	pci_clear_master(dev->pdev);
	pib_hca_disable_pci(dev);
}

bool pib_hca_has_failed(struct pib_hca_dev *dev)
{
	u32 status;

	if (pib_hca_is_dead(dev))
		return true;
	status = pib_hca_read(dev, PIB_HCA_REG_STATUS);
	if (status == PIB_HCA_ALL_ONES) {
		pib_hca_die(dev, "the device is gone");
		return true;
	}
	if (status & PIB_HCA_STATUS_FATAL) {
		dev_err(&dev->pdev->dev, "fatal error, cause %u\n",
			pib_hca_read(dev, PIB_HCA_REG_FATAL_CAUSE));
		pib_hca_die(dev, "the device reports a fatal error");
		return true;
	}
	return false;
}

void pib_hca_die(struct pib_hca_dev *dev, const char *why)
{
	u32 status;

	if (test_and_set_bit(PIB_HCA_DEV_DEAD, &dev->flags))
		return;
	dev_err(&dev->pdev->dev, "%s; given up until the driver is bound again\n", why);

	/*
	 * All that the device knows of this machine's memory it forgets in a reset, so that memory
	 * of failed commands and of queues may be freed. If even that fails, it loses the bus.
	 */
	pib_hca_write(dev, PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_RESET);
	status = pib_hca_read(dev, PIB_HCA_REG_STATUS);
	if (status)
		pci_clear_master(dev->pdev);

	pib_hca_cmdq_stop(dev);
	pib_hca_dispatch(dev, IB_EVENT_DEVICE_FATAL, 0);
	if (test_bit(PIB_HCA_DEV_EVENTS, &dev->flags))
		schedule_work(&dev->flush_work);
}
