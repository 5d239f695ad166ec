// SPDX-License-Identifier: GPL-2.0-or-later
/* A driver whose probe writes to address 0; compiled with HANG, it never returns, with FAIL it fails. */
#include <linux/module.h>
#include <linux/pci.h>

static noinline void faulty_write(volatile int *where)
{
	*where = 1;
}

static int faulty_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	dev_info(&pdev->dev, "faulty has found the HCA\n");
#ifdef HANG
	for (;;)
		cpu_relax();
#elif defined(FAIL)
	return -EIO;
#else
	faulty_write(NULL);
#endif
	return 0;
}

static const struct pci_device_id faulty_ids[] = {
	{ PCI_DEVICE(0x1234, 0x1b0c) },
	{}
};
MODULE_DEVICE_TABLE(pci, faulty_ids);

static struct pci_driver faulty_driver = {
	.name = "faulty",
	.id_table = faulty_ids,
	.probe = faulty_probe,
};
module_pci_driver(faulty_driver);

MODULE_DESCRIPTION("Test: a driver that crashes or hangs the kernel");
MODULE_LICENSE("GPL");
