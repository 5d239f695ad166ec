// SPDX-License-Identifier: GPL-2.0-or-later
#include "command.h"

#include <linux/dma-mapping.h>
#include <linux/iopoll.h>

#define LOG_DEPTH 4
#define DEPTH (1u << LOG_DEPTH)
#define POLL_US 20
#define LIMIT_US (60 * USEC_PER_SEC)

/* Parts of the queue's memory. */
#define PART_BYTES 4096
#define RING 0
#define COMPLETIONS PART_BYTES
#define IN (2 * PART_BYTES)
#define OUT (3 * PART_BYTES)
#define ALL_BYTES (4 * PART_BYTES)

static int errno_of(u8 status)
{
	switch (status) {
	case PIB_HCA_CMD_STATUS_OK:
		return 0;
	case PIB_HCA_CMD_STATUS_BUSY:
		return -EBUSY;
	case PIB_HCA_CMD_STATUS_NO_RESOURCES:
		return -ENOMEM;
	case PIB_HCA_CMD_STATUS_NOT_SUPPORTED:
		return -EOPNOTSUPP;
	case PIB_HCA_CMD_STATUS_FATAL:
		return -EIO;
	default:
		return -EINVAL;
	}
}

/* ---------------------------------------------------------------- start and end -------------- */

static int enable(struct command_queue *queue)
{
	void __iomem *registers = queue->hca->registers;
	u32 status;

	writeq(queue->bus + RING, registers + PIB_HCA_REG_CMDQ_BASE);
	writeq(queue->bus + COMPLETIONS, registers + PIB_HCA_REG_CMDQ_CPL_BASE);
	writel(LOG_DEPTH, registers + PIB_HCA_REG_CMDQ_LOG_DEPTH);
	writel(PIB_HCA_CONTROL_ENABLE, registers + PIB_HCA_REG_CONTROL);
	status = readl(registers + PIB_HCA_REG_STATUS);
	if (status == PIB_HCA_STATUS_ENABLED)
		return 0;
	dev_err(&queue->hca->pdev->dev, "ENABLE is refused: STATUS %#x. Why:  ./pib why\n", status);
	return -EIO;
}

int command_open(struct command_queue *queue, struct hca *hca)
{
	int ret;

	queue->hca = hca;
	mutex_init(&queue->lock);
	queue->memory = dma_alloc_coherent(&hca->pdev->dev, ALL_BYTES, &queue->bus, GFP_KERNEL);
	if (!queue->memory)
		return -ENOMEM;
	ret = enable(queue);
	if (ret)
		command_close(queue);
	return ret;
}

void command_close(struct command_queue *queue)
{
	dma_free_coherent(&queue->hca->pdev->dev, ALL_BYTES, queue->memory, queue->bus);
}

/* ---------------------------------------------------------------- execution ------------------ */

static void write_entry(struct command_queue *queue, const struct command *command)
{
	struct pib_hca_cmd *entry = queue->memory + RING;

	entry += queue->count % DEPTH;
	*entry = (struct pib_hca_cmd){
		.opcode = cpu_to_le16(command->opcode),
		.id = cpu_to_le16(queue->count),
		.object = cpu_to_le32(command->object),
		.in_addr = cpu_to_le64(command->in ? queue->bus + IN : 0),
		.in_length = cpu_to_le32(command->in_length),
		.out_addr = cpu_to_le64(command->out ? queue->bus + OUT : 0),
		.out_length = cpu_to_le32(command->out_length),
	};
}

static int wait_for(struct command_queue *queue, struct pib_hca_cmd_cpl *completion)
{
	u8 owner;
	int ret;

	ret = read_poll_timeout(READ_ONCE, owner, hca_is_new(owner, queue->count, LOG_DEPTH),
				POLL_US, LIMIT_US, false, completion->owner);
	dma_rmb(); /* load the rest of the entry after its owner bit */
	return ret;
}

/*
 * Stops the device, because it may still access memory that the caller frees next. After a reset
 * the device has no objects, and no command under way: only then may bus mastering be cleared.
 */
static void give_up(struct command_queue *queue)
{
	hca_stop(queue->hca);
	queue->broken = true;
}

static int execute(struct command_queue *queue, const struct command *command, u32 *result)
{
	struct pib_hca_cmd_cpl *completion = queue->memory + COMPLETIONS;
	struct hca *hca = queue->hca;
	int ret;

	completion += queue->count % DEPTH;
	if (command->in)
		memcpy(queue->memory + IN, command->in, command->in_length);
	memset(queue->memory + OUT, 0, command->out_length);
	write_entry(queue, command);
	/* writel() orders these stores before its own. */
	writel(queue->count + 1, hca->registers + PIB_HCA_REG_CMDQ_DOORBELL);
	ret = wait_for(queue, completion);
	if (ret) {
		dev_err(&hca->pdev->dev, "command %#x does not complete. Why:  ./pib why\n",
			command->opcode);
		give_up(queue);
		return ret;
	}
	queue->count++;
	if (result)
		*result = le32_to_cpu(completion->result);
	if (command->out)
		memcpy(command->out, queue->memory + OUT, command->out_length);
	if (completion->status)
		dev_err(&hca->pdev->dev, "command %#x is refused: status %#x. Why:  ./pib why\n",
			command->opcode, completion->status);
	return errno_of(completion->status);
}

int command_execute(struct command_queue *queue, const struct command *command, u32 *result)
{
	int ret;

	mutex_lock(&queue->lock);
	ret = queue->broken ? -EIO : execute(queue, command, result);
	mutex_unlock(&queue->lock);
	return ret;
}

void command_destroy(struct command_queue *queue, u16 opcode, u32 object)
{
	struct command command = { .opcode = opcode, .object = object };

	mutex_lock(&queue->lock);
	if (!queue->broken && execute(queue, &command, NULL) && !queue->broken)
		give_up(queue);
	mutex_unlock(&queue->lock);
}
