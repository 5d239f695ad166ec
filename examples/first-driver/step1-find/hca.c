// SPDX-License-Identifier: GPL-2.0-or-later
#include "hca.h"

#include <linux/dma-mapping.h>
#include <linux/iopoll.h>

#define RESET_POLL_US 100
#define RESET_LIMIT_US (30 * USEC_PER_SEC)

/* A device that is gone reads as all ones. */
static int hca_reset(struct hca *hca)
{
	u32 status;
	int ret;

	writel(PIB_HCA_CONTROL_RESET, hca->registers + PIB_HCA_REG_CONTROL);
	ret = readl_poll_timeout(hca->registers + PIB_HCA_REG_STATUS, status,
				 !status || status == U32_MAX, RESET_POLL_US, RESET_LIMIT_US);
	if (!ret && !status)
		return 0;
	dev_err(&hca->pdev->dev, "the reset does not end: STATUS %#x. Start the guest anew\n",
		status);
	return -EIO;
}

static int hca_check_version(struct hca *hca)
{
	u32 version = readl(hca->registers + PIB_HCA_REG_VERSION);

	if (version >> 16 == PIB_HCA_INTERFACE_MAJOR)
		return 0;
	dev_err(&hca->pdev->dev, "interface %u.%u, expected %u: take the device's hw-interface\n",
		version >> 16, version & 0xffff, PIB_HCA_INTERFACE_MAJOR);
	return -ENODEV;
}

static int hca_map(struct hca *hca)
{
	hca->registers = pci_iomap(hca->pdev, PIB_HCA_BAR_REGS, 0);
	if (!hca->registers)
		return -ENOMEM;
	hca->uar = pci_iomap(hca->pdev, PIB_HCA_BAR_UAR, PIB_HCA_UAR_PAGE_SIZE);
	if (hca->uar)
		return 0;
	pci_iounmap(hca->pdev, hca->registers);
	return -ENOMEM;
}

static void hca_unmap(struct hca *hca)
{
	pci_iounmap(hca->pdev, hca->uar);
	pci_iounmap(hca->pdev, hca->registers);
}

static int hca_start(struct hca *hca)
{
	int ret;

	ret = hca_check_version(hca);
	if (ret)
		return ret;
	ret = hca_reset(hca);
	if (ret)
		return ret;
	ret = dma_set_mask_and_coherent(&hca->pdev->dev, DMA_BIT_MASK(64));
	if (!ret)
		pci_set_master(hca->pdev);
	return ret;
}

int hca_open(struct hca *hca, struct pci_dev *pdev)
{
	int ret;

	hca->pdev = pdev;
	ret = pci_enable_device_mem(pdev);
	if (ret)
		return ret;
	ret = pci_request_mem_regions(pdev, KBUILD_MODNAME);
	if (ret)
		goto err_disable;
	ret = hca_map(hca);
	if (ret)
		goto err_release;
	ret = hca_start(hca);
	if (ret)
		goto err_unmap;
	return 0;

err_unmap:
	hca_unmap(hca);
err_release:
	pci_release_mem_regions(pdev);
err_disable:
	pci_disable_device(pdev);
	return ret;
}

void hca_stop(struct hca *hca)
{
	hca_reset(hca);
	pci_clear_master(hca->pdev);
}

void hca_close(struct hca *hca)
{
	hca_unmap(hca);
	pci_release_mem_regions(hca->pdev);
	pci_disable_device(hca->pdev);
}
