// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The device's health: detects that the device has stopped, and gives it up until its recovery
 * (recovery.c). A dead device has been reset, which ends its use of this machine's memory. Its
 * commands fail, its objects can be destroyed, and work requests are flushed in software.
 */
#include <linux/iopoll.h>
#include <linux/irqflags.h>
#include <linux/wait_bit.h>

#include "pib_hca.h"

#define PIB_HCA_HEALTH_INTERVAL HZ
#define PIB_HCA_RESETTING_US (2 * USEC_PER_SEC)

/*
 * Resets the device without sleeping, because interrupt handlers call this function, too. The
 * fabric may write to registered memory until the reset has ended, which takes at most 1 s.
 */
static void pib_hca_reset_now(struct pib_hca_dev *dev)
{
	u32 status;

	pib_hca_write(dev, PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_RESET);
	readl_poll_timeout_atomic(dev->regs + PIB_HCA_REG_STATUS, status,
				  !(status & PIB_HCA_STATUS_RESETTING) ||
					  status == PIB_HCA_ALL_ONES,
				  100, PIB_HCA_RESETTING_US);
	/* A device that does not end its reset loses bus mastering. */
	if (status)
		pci_clear_master(dev->pdev);
}

bool pib_hca_cut_off(struct pib_hca_dev *dev)
{
	if (test_and_set_bit(PIB_HCA_DEV_DEAD, &dev->flags))
		return false;
	pib_hca_reset_now(dev);
	/*
	 * Only now wake waiters and flush work requests: their owners free memory that the device
	 * used.
	 */
	set_bit(PIB_HCA_DEV_QUIET, &dev->flags);
	smp_mb__after_atomic(); /* store the flag before wake_up_var() looks for waiters */
	wake_up_var(&dev->flags);
	pib_hca_cmdq_stop(dev);
	if (test_bit(PIB_HCA_DEV_REGISTERED, &dev->flags))
		schedule_work(&dev->flush_work);
	return true;
}

void pib_hca_wait_quiet(struct pib_hca_dev *dev)
{
	wait_var_event(&dev->flags, pib_hca_is_quiet(dev));
}

void pib_hca_die(struct pib_hca_dev *dev, const char *why)
{
	if (!pib_hca_cut_off(dev))
		return;
	if (pib_hca_recovery_begin(dev))
		dev_err(&dev->pdev->dev, "%s; it will be started again\n", why);
	else
		dev_err(&dev->pdev->dev, "%s; given up until the driver is bound again\n", why);
	pib_hca_dispatch(dev, IB_EVENT_DEVICE_FATAL, 0);
}

void pib_hca_give_up(struct pib_hca_dev *dev, const char *why)
{
	pib_hca_die(dev, why);
	pib_hca_wait_quiet(dev); /* another processor may have begun the reset */
}

bool pib_hca_has_failed(struct pib_hca_dev *dev)
{
	u32 status;

	if (pib_hca_is_dead(dev))
		return true;
	status = pib_hca_read(dev, PIB_HCA_REG_STATUS);
	if (status == PIB_HCA_ALL_ONES) {
		pib_hca_die(dev, "the device is gone");
	} else if (status & PIB_HCA_STATUS_FATAL) {
		dev_err(&dev->pdev->dev, "fatal error, cause %u\n",
			pib_hca_read(dev, PIB_HCA_REG_FATAL_CAUSE));
		pib_hca_die(dev, "the device reports a fatal error");
	} else if (!(status & PIB_HCA_STATUS_ENABLED)) {
		pib_hca_die(dev, "the device was reset behind the driver's back");
	}
	return pib_hca_is_dead(dev);
}

/* A reset raises no interrupt. Without a command in flight, only reading STATUS detects it. */
static void pib_hca_health_work(struct work_struct *work)
{
	struct pib_hca_dev *dev = container_of(to_delayed_work(work), struct pib_hca_dev, health);

	if (!pib_hca_has_failed(dev))
		schedule_delayed_work(&dev->health, PIB_HCA_HEALTH_INTERVAL);
}

void pib_hca_health_start(struct pib_hca_dev *dev)
{
	INIT_DELAYED_WORK(&dev->health, pib_hca_health_work);
	schedule_delayed_work(&dev->health, PIB_HCA_HEALTH_INTERVAL);
}

void pib_hca_health_stop(struct pib_hca_dev *dev)
{
	cancel_delayed_work_sync(&dev->health);
}

/* ---------------------------------------------------------------- consumers ------------------ */

/* Returns the next CQ at or after *index, with a reference. */
static struct pib_hca_cq *pib_hca_next_cq(struct pib_hca_dev *dev, unsigned long *index)
{
	struct pib_hca_cq *cq;

	xa_lock_irq(&dev->cqs);
	cq = xa_find(&dev->cqs, index, ULONG_MAX, XA_PRESENT);
	if (cq)
		refcount_inc(&cq->ref.count);
	xa_unlock_irq(&dev->cqs);
	return cq;
}

/* Returns whether work requests of a kernel QP complete at the CQ. */
static bool pib_hca_cq_has_qps(struct pib_hca_cq *cq)
{
	bool has_qps;

	spin_lock_irq(&cq->lock);
	has_qps = !list_empty(&cq->send_qps) || !list_empty(&cq->recv_qps);
	spin_unlock_irq(&cq->lock);
	return has_qps;
}

/* Handlers expect to be called from an interrupt, which PREEMPT_RT handles in a thread. */
static void pib_hca_call_as_interrupt(struct pib_hca_cq *cq)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		local_irq_disable();
	cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		local_irq_enable();
}

/*
 * Makes every kernel consumer poll: a dead device raises no interrupt. CQs without QPs are left
 * out: they have nothing to flush, and ib_alloc_cq(), which sets a CQ's handler before the fields
 * that the handler uses, may not have returned yet.
 */
void pib_hca_flush_work(struct work_struct *work)
{
	struct pib_hca_dev *dev = container_of(work, struct pib_hca_dev, flush_work);
	unsigned long index = 0;
	struct pib_hca_cq *cq;

	for (; (cq = pib_hca_next_cq(dev, &index)); index++) {
		/* Consumers poll a direct CQ themselves; its handler only warns. */
		if (cq->ibcq.comp_handler && cq->ibcq.poll_ctx != IB_POLL_DIRECT &&
		    pib_hca_cq_has_qps(cq))
			pib_hca_call_as_interrupt(cq);
		pib_hca_ref_put(&cq->ref);
	}
}
