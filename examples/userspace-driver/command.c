// SPDX-License-Identifier: GPL-2.0-or-later
#include "command.h"

#include "deadline.h"
#include "fail.h"
#include "io.h"

#include <string.h>

#define LOG_DEPTH 4
#define DEPTH (1u << LOG_DEPTH)
#define LIMIT_S 60

static const char *const STATUSES[] = {
	[PIB_HCA_CMD_STATUS_OK] = "OK",
	[PIB_HCA_CMD_STATUS_BAD_OPCODE] = "BAD_OPCODE",
	[PIB_HCA_CMD_STATUS_BAD_LENGTH] = "BAD_LENGTH",
	[PIB_HCA_CMD_STATUS_BAD_PARAM] = "BAD_PARAM",
	[PIB_HCA_CMD_STATUS_BAD_RESERVED] = "BAD_RESERVED",
	[PIB_HCA_CMD_STATUS_BAD_RESOURCE] = "BAD_RESOURCE",
	[PIB_HCA_CMD_STATUS_BUSY] = "BUSY",
	[PIB_HCA_CMD_STATUS_NO_RESOURCES] = "NO_RESOURCES",
	[PIB_HCA_CMD_STATUS_BAD_STATE] = "BAD_STATE",
	[PIB_HCA_CMD_STATUS_BAD_MEMORY] = "BAD_MEMORY",
	[PIB_HCA_CMD_STATUS_NOT_SUPPORTED] = "NOT_SUPPORTED",
	[PIB_HCA_CMD_STATUS_FATAL] = "FATAL",
};

static const char *status_name(uint8_t status)
{
	return status < sizeof(STATUSES) / sizeof(STATUSES[0]) ? STATUSES[status] : "a status not in the manual";
}

void command_open(struct hca *hca)
{
	struct command_queue *queue = &hca->commands;
	struct dma_block ring = dma_take(&hca->dma, DEPTH * sizeof(struct pib_hca_cmd));
	struct dma_block completions = dma_take(&hca->dma, DEPTH * sizeof(struct pib_hca_cmd_cpl));
	volatile uint8_t *registers = hca->vfio.registers;
	uint32_t status;

	queue->ring = ring.memory;
	queue->completions = completions.memory;
	queue->in = dma_take(&hca->dma, PIB_HCA_CMD_MAX_LENGTH);
	queue->out = dma_take(&hca->dma, PIB_HCA_CMD_MAX_LENGTH);
	queue->count = 0;
	store64(registers, PIB_HCA_REG_CMDQ_BASE, ring.bus);
	store64(registers, PIB_HCA_REG_CMDQ_CPL_BASE, completions.bus);
	store32(registers, PIB_HCA_REG_CMDQ_LOG_DEPTH, LOG_DEPTH);
	store32(registers, PIB_HCA_REG_CONTROL, PIB_HCA_CONTROL_ENABLE);
	status = load32(registers, PIB_HCA_REG_STATUS);
	if (status != PIB_HCA_STATUS_ENABLED)
		fail("ENABLE was refused: STATUS is %#x. Why:  ./pib why", status);
}

static void write_entry(struct command_queue *queue, const struct pib_hca_cmd *entry)
{
	queue->ring[queue->count % DEPTH] = *entry;
	queue->count++;
}

/* Waits for the completion of the last command, and returns it. */
static const struct pib_hca_cmd_cpl *wait_completion(struct hca *hca)
{
	struct command_queue *queue = &hca->commands;
	uint32_t counter = queue->count - 1;
	struct pib_hca_cmd_cpl *completion = &queue->completions[counter % DEPTH];
	time_t deadline = deadline_in(LIMIT_S);

	while (!hca_is_new(load_owner(&completion->owner), counter, LOG_DEPTH)) {
		if (deadline_passed(deadline))
			fail("command %u does not complete: STATUS is %#x. Why:  ./pib why", counter,
			     load32(hca->vfio.registers, PIB_HCA_REG_STATUS));
		rest();
	}
	load_barrier();
	return completion;
}

static uint32_t execute(struct hca *hca, struct pib_hca_cmd *entry)
{
	const struct pib_hca_cmd_cpl *completion;

	entry->id = htole16((uint16_t)hca->commands.count);
	write_entry(&hca->commands, entry);
	store_barrier();
	store32(hca->vfio.registers, PIB_HCA_REG_CMDQ_DOORBELL, hca->commands.count);
	completion = wait_completion(hca);
	if (completion->status != PIB_HCA_CMD_STATUS_OK)
		fail("command %#04x is refused: %s. Why:  ./pib why",
		     le16toh(entry->opcode), status_name(completion->status));
	return le32toh(completion->result);
}

uint32_t command(struct hca *hca, enum pib_hca_cmd_opcode opcode, uint32_t object)
{
	struct pib_hca_cmd entry = { .opcode = htole16(opcode), .object = htole32(object) };

	return execute(hca, &entry);
}

uint32_t command_in(struct hca *hca, enum pib_hca_cmd_opcode opcode, uint32_t object, const void *in, uint32_t bytes)
{
	struct pib_hca_cmd entry = {
		.opcode = htole16(opcode),
		.object = htole32(object),
		.in_addr = htole64(hca->commands.in.bus),
		.in_length = htole32(bytes),
	};

	memcpy(hca->commands.in.memory, in, bytes);
	return execute(hca, &entry);
}

uint32_t command_out(struct hca *hca, enum pib_hca_cmd_opcode opcode, uint32_t object, void *out, uint32_t bytes)
{
	struct pib_hca_cmd entry = {
		.opcode = htole16(opcode),
		.object = htole32(object),
		.out_addr = htole64(hca->commands.out.bus),
		.out_length = htole32(bytes),
	};
	uint32_t result;

	memset(hca->commands.out.memory, 0, bytes);	/* an older device writes less */
	result = execute(hca, &entry);
	memcpy(out, hca->commands.out.memory, bytes);
	return result;
}
