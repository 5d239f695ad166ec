// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Test: the registration of a device that fails because the device dies. Load it while the driver
 * is loaded and has no device; then bind the driver. When the core asks the driver about the first
 * port, the device is reset without the driver's knowledge: the driver gives it up at the next
 * command, and schedules the work that makes consumers poll. That work is held until the device is
 * freed, at most for HELD_MS. The parameter "late" is Y if the device was freed before the work's
 * end.
 */
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/pci.h>

#include "pib_hca_regs.h"

#define HELD_MS 3000

static void __iomem *regs;
static unsigned long registered; /* address of the device whose registration fails */
static bool holding, freed, late;
module_param(late, bool, 0444);

/* Takes the place of the driver's pib_hca_flush_work(). The device has no consumers to poll. */
static void hold_work(struct work_struct *work)
{
	int ms;

	WRITE_ONCE(holding, true);
	for (ms = 0; ms < HELD_MS && !READ_ONCE(freed); ms += 20)
		msleep(20);
	if (READ_ONCE(freed))
		WRITE_ONCE(late, true);
	WRITE_ONCE(holding, false);
}

static int before_port(struct kprobe *probe, struct pt_regs *args)
{
	if (!registered) {
		registered = regs_get_kernel_argument(args, 0);
		writel(PIB_HCA_CONTROL_RESET, regs + PIB_HCA_REG_CONTROL);
	}
	return 0;
}

static int before_work(struct kprobe *probe, struct pt_regs *args)
{
	instruction_pointer_set(args, (unsigned long)hold_work);
	return 1;
}

static int before_free(struct kprobe *probe, struct pt_regs *args)
{
	if (regs_get_kernel_argument(args, 0) == registered)
		WRITE_ONCE(freed, true);
	return 0;
}

/* The kernel lets only a probe with this handler move the instruction pointer (kprobes.rst). */
static void after_work(struct kprobe *probe, struct pt_regs *args, unsigned long flags)
{
}

static struct kprobe port_probe = {
	.symbol_name = "pib_hca_get_port_immutable",
	.pre_handler = before_port,
};

static struct kprobe work_probe = {
	.symbol_name = "pib_hca_flush_work",
	.pre_handler = before_work,
	.post_handler = after_work,
};

static struct kprobe free_probe = {
	.symbol_name = "ib_dealloc_device",
	.pre_handler = before_free,
};

static struct kprobe *probes[] = { &port_probe, &work_probe, &free_probe };

static int __init failing_registration_init(void)
{
	struct pci_dev *pdev = pci_get_device(PIB_HCA_PCI_VENDOR_ID, PIB_HCA_PCI_DEVICE_ID, NULL);
	int ret;

	if (!pdev)
		return -ENODEV;
	regs = ioremap(pci_resource_start(pdev, PIB_HCA_BAR_REGS), PAGE_SIZE);
	pci_dev_put(pdev);
	if (!regs)
		return -ENOMEM;
	ret = register_kprobes(probes, ARRAY_SIZE(probes));
	if (ret)
		iounmap(regs);
	return ret;
}
module_init(failing_registration_init);

static void __exit failing_registration_exit(void)
{
	unregister_kprobes(probes, ARRAY_SIZE(probes));
	while (READ_ONCE(holding))
		msleep(20);
	iounmap(regs);
}
module_exit(failing_registration_exit);

MODULE_DESCRIPTION("Test: a registration that fails because the device dies");
MODULE_LICENSE("GPL");
