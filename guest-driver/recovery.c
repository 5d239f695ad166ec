// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Recovery: restarts a device that has failed. The driver unregisters the device, which ends all
 * contexts, resets it and registers it again; consumers see a removed device and a new one.
 */
#include "pib_hca.h"

/* Time for programs to handle the fatal event before their contexts end. */
#define PIB_HCA_RECOVERY_DELAY HZ
/* Minimum time between two starts of a device that fails again and again. */
#define PIB_HCA_RECOVERY_INTERVAL (10 * HZ)

static void pib_hca_recover_later(struct pib_hca_binding *binding, unsigned long delay)
{
	queue_delayed_work(system_long_wq, &binding->recovery, delay);
}

/*
 * Returns false if the caller must try again later: a device that does not answer is unplugged, or
 * its configuration is being restored. A device that works was started by a reset or a resume.
 */
static bool pib_hca_recover(struct pib_hca_binding *binding)
{
	struct pib_hca_dev *dev = binding->dev;

	if (!dev || binding->shut_down || !pib_hca_is_dead(dev))
		return true;
	if (pib_hca_read(dev, PIB_HCA_REG_STATUS) == PIB_HCA_ALL_ONES)
		return false;
	pib_hca_stop(binding->pdev);
	if (!pib_hca_restart(binding->pdev))
		dev_info(&binding->pdev->dev, "started again\n");
	return true;
}

static void pib_hca_recovery_work(struct work_struct *work)
{
	struct pib_hca_binding *binding =
		container_of(to_delayed_work(work), struct pib_hca_binding, recovery);
	struct device *device = &binding->pdev->dev;
	bool done = false;

	/*
	 * Do not wait for the lock: its holder may be in pib_hca_recovery_stop(), which waits for
	 * this work.
	 */
	if (device_trylock(device)) {
		done = pib_hca_recover(binding);
		device_unlock(device);
	}
	if (!done)
		pib_hca_recover_later(binding, PIB_HCA_RECOVERY_DELAY);
}

void pib_hca_recovery_init(struct pib_hca_binding *binding)
{
	INIT_DELAYED_WORK(&binding->recovery, pib_hca_recovery_work);
}

bool pib_hca_recovery_begin(struct pib_hca_dev *dev)
{
	struct pib_hca_binding *binding = pci_get_drvdata(dev->pdev);
	unsigned long next = READ_ONCE(binding->started) + PIB_HCA_RECOVERY_INTERVAL;
	unsigned long delay = PIB_HCA_RECOVERY_DELAY;

	if (READ_ONCE(binding->dev) != dev || READ_ONCE(binding->shut_down))
		return false; /* the device is starting or stopping */
	if (time_before(jiffies + delay, next))
		delay = next - jiffies;
	pib_hca_recover_later(binding, delay);
	return true;
}

void pib_hca_recovery_stop(struct pib_hca_binding *binding)
{
	cancel_delayed_work_sync(&binding->recovery);
}
