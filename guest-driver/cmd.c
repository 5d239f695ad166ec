// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The command queue: a ring of commands, a ring of completions, and ids that relate them. The
 * driver polls for completions until there is an event queue, whose events then report them. A
 * device that does not complete a command is reset, because only that ends its use of the command's
 * memory.
 */
#include <linux/delay.h>

#include "pib_hca.h"

/*
 * Commands take microseconds, but page lists may be long and an emulated device's host may be busy:
 * only a device that has stopped takes longer than this.
 */
#define PIB_HCA_CMD_TIMEOUT (60 * HZ)
/* The device executes one command after the other, each within this time. */
#define PIB_HCA_CMD_LONGEST (10 * HZ)
#define PIB_HCA_CMD_LOOK_AGAIN HZ

static const int pib_hca_status_errno[] = {
	[PIB_HCA_CMD_STATUS_OK] = 0,
	[PIB_HCA_CMD_STATUS_BAD_OPCODE] = -EOPNOTSUPP,
	[PIB_HCA_CMD_STATUS_BAD_LENGTH] = -EINVAL,
	[PIB_HCA_CMD_STATUS_BAD_PARAM] = -EINVAL,
	[PIB_HCA_CMD_STATUS_BAD_RESERVED] = -EINVAL,
	[PIB_HCA_CMD_STATUS_BAD_RESOURCE] = -EINVAL,
	[PIB_HCA_CMD_STATUS_BUSY] = -EBUSY,
	[PIB_HCA_CMD_STATUS_NO_RESOURCES] = -ENOMEM,
	[PIB_HCA_CMD_STATUS_BAD_STATE] = -EINVAL,
	[PIB_HCA_CMD_STATUS_BAD_MEMORY] = -EFAULT,
	[PIB_HCA_CMD_STATUS_NOT_SUPPORTED] = -EOPNOTSUPP,
	[PIB_HCA_CMD_STATUS_FATAL] = -EIO,
};

static int pib_hca_status_to_errno(u8 status)
{
	return status < ARRAY_SIZE(pib_hca_status_errno) ? pib_hca_status_errno[status] : -EIO;
}

/* ---------------------------------------------------------------- completions ---------------- */

/* Handles one completion, if the device has written it; cmdq->lock is held. */
static bool pib_hca_cmdq_reap_one(struct pib_hca_dev *dev)
{
	struct pib_hca_cmdq *cmdq = &dev->cmdq;
	struct pib_hca_cmd_cpl *cpl = &cmdq->cpl_ring[cmdq->consumer % PIB_HCA_CMDQ_DEPTH];
	u8 first_pass = !(cmdq->consumer & PIB_HCA_CMDQ_DEPTH);
	struct pib_hca_cmd_slot *slot;
	u16 id;

	if ((READ_ONCE(cpl->owner) & PIB_HCA_OWNER_BIT) != first_pass)
		return false;
	dma_rmb(); /* read the owner bit before the body */
	cmdq->consumer++;
	id = le16_to_cpu(READ_ONCE(cpl->id)); /* the device may write it again */
	if (id >= PIB_HCA_CMDQ_DEPTH || !cmdq->slots[id].busy) {
		dev_err_ratelimited(&dev->pdev->dev, "completion of unknown command %u\n", id);
		return true;
	}
	slot = &cmdq->slots[id];
	slot->cpl = *cpl;
	complete(&slot->done);
	return true;
}

void pib_hca_cmdq_reap(struct pib_hca_dev *dev)
{
	struct pib_hca_cmdq *cmdq = &dev->cmdq;
	unsigned long flags;
	u32 left = PIB_HCA_CMDQ_DEPTH;

	spin_lock_irqsave(&cmdq->lock, flags);
	while (!cmdq->stopped && left-- && pib_hca_cmdq_reap_one(dev))
		;
	spin_unlock_irqrestore(&cmdq->lock, flags);
}

void pib_hca_cmdq_stop(struct pib_hca_dev *dev)
{
	struct pib_hca_cmdq *cmdq = &dev->cmdq;
	unsigned long flags;
	u32 i;

	spin_lock_irqsave(&cmdq->lock, flags);
	cmdq->stopped = true;
	for (i = 0; i < PIB_HCA_CMDQ_DEPTH; i++) {
		if (!cmdq->slots[i].busy || completion_done(&cmdq->slots[i].done))
			continue;
		cmdq->slots[i].error = -EIO;
		complete(&cmdq->slots[i].done);
	}
	spin_unlock_irqrestore(&cmdq->lock, flags);
}

/* ---------------------------------------------------------------- one command ---------------- */

/* Returns the number of slots in use. cmdq->lock is held. */
static u32 pib_hca_slots_busy(const struct pib_hca_cmdq *cmdq)
{
	u32 count = 0, i;

	for (i = 0; i < PIB_HCA_CMDQ_DEPTH; i++)
		count += cmdq->slots[i].busy;
	return count;
}

/* Takes a free slot; NULL if the device is dead. The semaphore counts the free slots. */
static struct pib_hca_cmd_slot *pib_hca_take_slot(struct pib_hca_cmdq *cmdq)
{
	struct pib_hca_cmd_slot *slot = NULL;
	u32 i;

	spin_lock_irq(&cmdq->lock);
	for (i = 0; !cmdq->stopped && i < PIB_HCA_CMDQ_DEPTH; i++) {
		if (cmdq->slots[i].busy)
			continue;
		slot = &cmdq->slots[i];
		slot->before = pib_hca_slots_busy(cmdq);
		slot->busy = true;
		slot->error = 0;
		reinit_completion(&slot->done);
		break;
	}
	spin_unlock_irq(&cmdq->lock);
	return slot;
}

static void pib_hca_release_slot(struct pib_hca_cmdq *cmdq, struct pib_hca_cmd_slot *slot)
{
	spin_lock_irq(&cmdq->lock);
	slot->busy = false;
	spin_unlock_irq(&cmdq->lock);
}

/* The mutex keeps doorbells in order: the device accepts only a counter that grows. */
static void pib_hca_cmdq_post(struct pib_hca_dev *dev, const struct pib_hca_cmd *cmd)
{
	struct pib_hca_cmdq *cmdq = &dev->cmdq;

	mutex_lock(&cmdq->post_mutex);
	cmdq->ring[cmdq->producer % PIB_HCA_CMDQ_DEPTH] = *cmd;
	cmdq->producer++;
	/* writel() orders the ring entry before the doorbell. */
	pib_hca_write(dev, PIB_HCA_REG_CMDQ_DOORBELL, cmdq->producer);
	mutex_unlock(&cmdq->post_mutex);
}

static bool pib_hca_wait_event(struct pib_hca_dev *dev, struct pib_hca_cmd_slot *slot)
{
	if (wait_for_completion_timeout(&slot->done, PIB_HCA_CMD_LOOK_AGAIN))
		return true;
	pib_hca_cmdq_reap(dev);
	if (!try_wait_for_completion(&slot->done))
		return false;
	if (!pib_hca_is_dead(dev))
		dev_warn_once(&dev->pdev->dev,
			      "no interrupt for a command: check MSI-X in /proc/interrupts\n");
	return true;
}

static bool pib_hca_wait_poll(struct pib_hca_dev *dev, struct pib_hca_cmd_slot *slot)
{
	pib_hca_cmdq_reap(dev);
	if (try_wait_for_completion(&slot->done))
		return true;
	usleep_range(20, 100);
	return false;
}

static void pib_hca_wait(struct pib_hca_dev *dev, struct pib_hca_cmd_slot *slot, u16 opcode)
{
	unsigned long deadline = jiffies + PIB_HCA_CMD_TIMEOUT + slot->before * PIB_HCA_CMD_LONGEST;
	bool done;

	do {
		done = READ_ONCE(dev->cmdq.use_events) ? pib_hca_wait_event(dev, slot) :
							 pib_hca_wait_poll(dev, slot);
		if (!done && time_after(jiffies, deadline)) {
			dev_err(&dev->pdev->dev, "command %#x does not complete\n", opcode);
			pib_hca_die(dev, "a command timed out");
		} else if (!done) {
			pib_hca_has_failed(dev);
		}
	} while (!done); /* pib_hca_cmdq_stop() completes the slot as well */
}

/* The offset of a slot's input in cmdq->mailboxes; its output follows. */
static size_t pib_hca_mailbox(const struct pib_hca_cmdq *cmdq, const struct pib_hca_cmd_slot *slot)
{
	return (slot - cmdq->slots) * 2 * PIB_HCA_CMD_MAX_LENGTH;
}

/* Logs the number of the rule that a refused command breaks; debugfs has the rule in words. */
static void pib_hca_log_refusal(struct pib_hca_dev *dev, const struct pib_hca_cmd_slot *slot,
				u16 opcode)
{
	u32 rule = le32_to_cpu(slot->cpl.result);

	if (!slot->error)
		dev_dbg(&dev->pdev->dev, "command %#x refused: status %u, manual %u.%u rule %u\n",
			opcode, slot->cpl.status, rule >> PIB_HCA_RULE_SECTION_SHIFT,
			rule >> PIB_HCA_RULE_SUBSECTION_SHIFT & 0xff, rule & 0xff);
}

static int pib_hca_run_slot(struct pib_hca_dev *dev, struct pib_hca_cmd_slot *slot,
			    struct pib_hca_cmd *cmd, struct pib_hca_cmd_args *args)
{
	struct pib_hca_cmdq *cmdq = &dev->cmdq;
	size_t mailbox = pib_hca_mailbox(cmdq, slot);
	void *out = pib_hca_buf_at(&cmdq->mailboxes, mailbox + PIB_HCA_CMD_MAX_LENGTH);
	int ret;

	cmd->id = cpu_to_le16(slot - cmdq->slots);
	if (args->in_length) {
		memcpy(pib_hca_buf_at(&cmdq->mailboxes, mailbox), args->in, args->in_length);
		cmd->in_addr = cpu_to_le64(pib_hca_buf_dma_at(&cmdq->mailboxes, mailbox));
	}
	if (args->out_length) {
		memset(out, 0, args->out_length);
		cmd->out_addr = cpu_to_le64(pib_hca_buf_dma_at(&cmdq->mailboxes, mailbox +
							       PIB_HCA_CMD_MAX_LENGTH));
	}
	pib_hca_cmdq_post(dev, cmd);
	pib_hca_wait(dev, slot, args->opcode);

	ret = slot->error ?: pib_hca_status_to_errno(slot->cpl.status);
	if (ret) {
		pib_hca_log_refusal(dev, slot, args->opcode);
		return ret;
	}
	args->result = le32_to_cpu(slot->cpl.result);
	/* An older device leaves new fields zero; a newer one writes at most out_length. */
	if (args->out_length)
		memcpy(args->out, out, args->out_length);
	return 0;
}

int pib_hca_cmd(struct pib_hca_dev *dev, struct pib_hca_cmd_args *args)
{
	struct pib_hca_cmd cmd = {
		.opcode = cpu_to_le16(args->opcode),
		.object = cpu_to_le32(args->object),
		.in_length = cpu_to_le32(args->in_length),
		.out_length = cpu_to_le32(args->out_length),
	};
	struct pib_hca_cmdq *cmdq = &dev->cmdq;
	struct pib_hca_cmd_slot *slot;
	int ret = -EIO;

	if (WARN_ON_ONCE(args->in_length > PIB_HCA_CMD_MAX_LENGTH ||
			 args->out_length > PIB_HCA_CMD_MAX_LENGTH))
		return -EINVAL;
	down(&cmdq->slots_free);
	slot = pib_hca_take_slot(cmdq);
	if (slot) {
		ret = pib_hca_run_slot(dev, slot, &cmd, args);
		pib_hca_release_slot(cmdq, slot);
	}
	up(&cmdq->slots_free);
	return ret;
}

/* ---------------------------------------------------------------- shapes of commands --------- */

int pib_hca_cmd_create(struct pib_hca_dev *dev, u16 opcode, const void *in, u32 in_length,
		       u32 *number)
{
	struct pib_hca_cmd_args args = {
		.opcode = opcode,
		.in = in,
		.in_length = in_length,
	};
	int ret = pib_hca_cmd(dev, &args);

	if (!ret)
		*number = args.result;
	return ret;
}

int pib_hca_cmd_set(struct pib_hca_dev *dev, u16 opcode, u32 object, const void *in,
		    u32 in_length)
{
	struct pib_hca_cmd_args args = {
		.opcode = opcode,
		.object = object,
		.in = in,
		.in_length = in_length,
	};

	return pib_hca_cmd(dev, &args);
}

int pib_hca_cmd_query(struct pib_hca_dev *dev, u16 opcode, u32 object, void *out, u32 out_length)
{
	struct pib_hca_cmd_args args = {
		.opcode = opcode,
		.object = object,
		.out = out,
		.out_length = out_length,
	};

	return pib_hca_cmd(dev, &args);
}

int pib_hca_cmd_try_destroy(struct pib_hca_dev *dev, u16 opcode, u32 object)
{
	struct pib_hca_cmd_args args = {
		.opcode = opcode,
		.object = object,
	};
	int ret = pib_hca_cmd(dev, &args);

	if (!ret)
		return 0;
	if (!pib_hca_is_dead(dev)) {
		if (ret == -EBUSY)
			return ret;
		dev_err(&dev->pdev->dev, "command %#x has not destroyed object %#x: %d\n",
			opcode, object, ret);
	}
	pib_hca_give_up(dev, "an object cannot be destroyed");
	return 0;
}

void pib_hca_cmd_destroy(struct pib_hca_dev *dev, u16 opcode, u32 object)
{
	int ret = pib_hca_cmd_try_destroy(dev, opcode, object);

	if (!ret)
		return;
	/*
	 * The core destroys only unused objects, so -EBUSY means that the device or the core has
	 * miscounted.
	 */
	dev_err(&dev->pdev->dev, "command %#x has not destroyed object %#x: %d\n",
		opcode, object, ret);
	pib_hca_give_up(dev, "an object cannot be destroyed");
}

/* ---------------------------------------------------------------- the queue ------------------ */

static int pib_hca_cmdq_alloc(struct pib_hca_dev *dev)
{
	struct device *dma_dev = &dev->pdev->dev;
	struct pib_hca_cmdq *cmdq = &dev->cmdq;
	int ret;

	/* Each ring has a page of its own: rings are page aligned. */
	BUILD_BUG_ON(sizeof(struct pib_hca_cmd) * PIB_HCA_CMDQ_DEPTH > PAGE_SIZE);
	/* Allocate all mailboxes now: destroying an object must not fail for lack of memory. */
	ret = pib_hca_buf_alloc(dev, &cmdq->mailboxes,
				PIB_HCA_CMDQ_DEPTH * 2 * PIB_HCA_CMD_MAX_LENGTH);
	if (ret)
		return ret;
	cmdq->ring = dma_alloc_coherent(dma_dev, PAGE_SIZE, &cmdq->ring_dma, GFP_KERNEL);
	if (!cmdq->ring)
		goto err_mailboxes;
	cmdq->cpl_ring = dma_alloc_coherent(dma_dev, PAGE_SIZE, &cmdq->cpl_ring_dma, GFP_KERNEL);
	if (!cmdq->cpl_ring)
		goto err_ring;
	return 0;

err_ring:
	dma_free_coherent(dma_dev, PAGE_SIZE, cmdq->ring, cmdq->ring_dma);
err_mailboxes:
	pib_hca_buf_free(dev, &cmdq->mailboxes);
	return -ENOMEM;
}

static void pib_hca_cmdq_free(struct pib_hca_dev *dev)
{
	struct device *dma_dev = &dev->pdev->dev;
	struct pib_hca_cmdq *cmdq = &dev->cmdq;

	dma_free_coherent(dma_dev, PAGE_SIZE, cmdq->cpl_ring, cmdq->cpl_ring_dma);
	dma_free_coherent(dma_dev, PAGE_SIZE, cmdq->ring, cmdq->ring_dma);
	pib_hca_buf_free(dev, &cmdq->mailboxes);
}

static int pib_hca_cmdq_enable(struct pib_hca_dev *dev)
{
	struct pib_hca_cmdq *cmdq = &dev->cmdq;
	u32 status;

	writeq(cmdq->ring_dma, dev->regs + PIB_HCA_REG_CMDQ_BASE);
	writeq(cmdq->cpl_ring_dma, dev->regs + PIB_HCA_REG_CMDQ_CPL_BASE);
	pib_hca_write(dev, PIB_HCA_REG_CMDQ_LOG_DEPTH, PIB_HCA_CMDQ_LOG_DEPTH);
	pib_hca_write(dev, PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_ENABLE);
	status = pib_hca_read(dev, PIB_HCA_REG_STATUS);
	if (status == PIB_HCA_STATUS_ENABLED)
		return 0;
	dev_err(&dev->pdev->dev, "command queue refused, status %#x\n", status);
	return -EIO;
}

int pib_hca_cmdq_init(struct pib_hca_dev *dev)
{
	struct pib_hca_cmdq *cmdq = &dev->cmdq;
	u32 i;
	int ret;

	spin_lock_init(&cmdq->lock);
	mutex_init(&cmdq->post_mutex);
	sema_init(&cmdq->slots_free, PIB_HCA_CMDQ_DEPTH);
	for (i = 0; i < PIB_HCA_CMDQ_DEPTH; i++)
		init_completion(&cmdq->slots[i].done);

	ret = pib_hca_cmdq_alloc(dev);
	if (ret)
		return ret;
	ret = pib_hca_cmdq_enable(dev);
	if (ret)
		pib_hca_cmdq_free(dev);
	return ret;
}

/* Resets the device, which ends its use of the rings. */
void pib_hca_cmdq_cleanup(struct pib_hca_dev *dev)
{
	pib_hca_cmdq_stop(dev);
	if (!pib_hca_is_dead(dev) && pib_hca_reset(dev))
		pib_hca_die(dev, "the device cannot be reset");
	pib_hca_cmdq_free(dev);
}

void pib_hca_cmdq_use_events(struct pib_hca_dev *dev, bool use)
{
	WRITE_ONCE(dev->cmdq.use_events, use);
}
